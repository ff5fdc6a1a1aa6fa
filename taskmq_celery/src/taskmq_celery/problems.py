"""What went wrong, for people: one line and the exit code of the ``celery`` command.

Codes are those of ``sysexits.h``, which Celery uses too; ``docs/celery/worker.md`` lists them.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from kombu.exceptions import OperationalError

from taskmq import ConfigError, MessageTooLarge, TaskmqError, TransportError
from taskmq.errors import (
    MessageError,
    QueueFull,
    SchemaMismatch,
    StoreCorrupt,
    StoreFull,
    TransportUnavailable,
)

__all__ = ["Problem", "explain"]

CODES: tuple[tuple[type[BaseException], int], ...] = (
    (ConfigError, os.EX_CONFIG),
    (MessageTooLarge, os.EX_DATAERR),
    (MessageError, os.EX_DATAERR),
    (StoreCorrupt, os.EX_DATAERR),
    (SchemaMismatch, os.EX_DATAERR),
    (StoreFull, os.EX_IOERR),
    (QueueFull, os.EX_TEMPFAIL),
    (TransportUnavailable, os.EX_UNAVAILABLE),
    (TransportError, os.EX_UNAVAILABLE),
    (OperationalError, os.EX_UNAVAILABLE),
    (TaskmqError, 1),
)


class Problem(NamedTuple):
    """One line, and the exit code."""

    message: str
    exit_code: int


def explain(error: BaseException) -> Problem | None:
    """The problem behind an error of the engine or the broker, ``None`` for any other error."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None and cause not in chain:
        chain.append(cause)
    # Celery's errors are raised from the engine's, which say more: the innermost that we know.
    for one in reversed(chain):
        for kind, code in CODES:
            if isinstance(one, kind):
                return Problem(" ".join(str(one).split()) or type(one).__name__, code)
    return None
