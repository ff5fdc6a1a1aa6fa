"""Whether a task may wait for the result of another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import celery.result as surface  # programs patch what it names
from celery._state import _set_task_join_will_block, _task_join_will_block

__all__ = ("allow_join_result", "assert_will_not_block", "denied_join_result")

E_WOULDBLOCK = """\
Never call result.get() within a task!
See https://docs.celeryq.dev/en/latest/userguide/tasks.html\
#avoid-launching-synchronous-subtasks
"""


def assert_will_not_block() -> None:
    """Raises ``RuntimeError`` in a thread that runs a task."""
    if surface.task_join_will_block():
        raise RuntimeError(E_WOULDBLOCK)


@contextmanager
def allow_join_result() -> Iterator[None]:
    """Let the task in this thread wait for another result meanwhile."""
    before = getattr(_task_join_will_block, "value", None)
    _set_task_join_will_block(False)
    try:
        yield
    finally:
        _set_task_join_will_block(before)


@contextmanager
def denied_join_result() -> Iterator[None]:
    """Treat this thread as one that runs a task meanwhile."""
    before = getattr(_task_join_will_block, "value", None)
    _set_task_join_will_block(True)
    try:
        yield
    finally:
        _set_task_join_will_block(before)
