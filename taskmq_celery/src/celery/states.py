"""The states of a task as Celery names them, and their order.

>>> state("PENDING") < state("SUCCESS")
True
"""

from __future__ import annotations

import operator
from collections.abc import Callable

__all__ = (
    "EXCEPTION_STATES",
    "FAILURE",
    "IGNORED",
    "PENDING",
    "PROPAGATE_STATES",
    "READY_STATES",
    "RECEIVED",
    "RETRY",
    "REVOKED",
    "STARTED",
    "SUCCESS",
    "UNREADY_STATES",
    "precedence",
    "state",
)

PENDING = "PENDING"  # waits, or is unknown: the two look the same
RECEIVED = "RECEIVED"
STARTED = "STARTED"
SUCCESS = "SUCCESS"
FAILURE = "FAILURE"
REVOKED = "REVOKED"
REJECTED = "REJECTED"
RETRY = "RETRY"
IGNORED = "IGNORED"

# Highest first. ``None`` stands for every state that an application made up.
PRECEDENCE: list[str | None] = [
    SUCCESS,
    FAILURE,
    None,
    REVOKED,
    STARTED,
    RECEIVED,
    REJECTED,
    RETRY,
    PENDING,
]
PRECEDENCE_LOOKUP = {name: place for place, name in enumerate(PRECEDENCE)}
NONE_PRECEDENCE = PRECEDENCE_LOOKUP[None]

READY_STATES = frozenset({SUCCESS, FAILURE, REVOKED})
UNREADY_STATES = frozenset({PENDING, RECEIVED, STARTED, REJECTED, RETRY})
EXCEPTION_STATES = frozenset({RETRY, FAILURE, REVOKED})
PROPAGATE_STATES = frozenset({FAILURE, REVOKED})
ALL_STATES = frozenset({PENDING, RECEIVED, STARTED, SUCCESS, FAILURE, RETRY, REVOKED})


def precedence(state: str | None) -> int:
    """The place of a state in `PRECEDENCE`: 0 is the highest."""
    return PRECEDENCE_LOOKUP.get(state, NONE_PRECEDENCE)


def _by_precedence(compare: Callable[[int, int], bool]) -> Callable[[str, str], bool]:
    return lambda this, other: compare(precedence(other), precedence(this))


class state(str):  # noqa: N801  # Celery's name
    """A state that compares by precedence: a later state is greater."""

    __slots__ = ()

    __gt__ = _by_precedence(operator.gt)
    __ge__ = _by_precedence(operator.ge)
    __lt__ = _by_precedence(operator.lt)
    __le__ = _by_precedence(operator.le)
