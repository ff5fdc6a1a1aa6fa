"""The end of a child process in Celery's words."""

from __future__ import annotations

import re

__all__ = ["premature"]

MANNER = re.compile(r"(signal \d+(?: \(\w+\))?)|exit code (-?\d+)")
"""How the engine tells of it (`taskmq.errors.WorkerLost`)."""


def premature(told: object) -> str:
    """What Celery says of a child that died, from what the engine says.

    >>> premature("child 12 was killed by signal 9 (SIGKILL)")
    'Worker exited prematurely: signal 9 (SIGKILL)'
    >>> premature("child 12 ended with exit code 1")
    'Worker exited prematurely: exitcode 1'
    """
    found = MANNER.search(str(told))
    if found is None:
        return f"Worker exited prematurely: {told}"
    return f"Worker exited prematurely: {found[1] or f'exitcode {found[2]}'}"
