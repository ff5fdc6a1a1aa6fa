"""The pool port: runs deliveries, knows nothing of stores, leases or settlements."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Protocol

from taskmq.executor import Outcome
from taskmq.transport import Delivery, Nack

__all__ = ["Done", "Execute", "Pool", "came_to_nothing", "run_one"]

logger = logging.getLogger("taskmq.pools")

Execute = Callable[[Delivery], Outcome]
"""Runs one delivery to its end. Raises nothing but ``KeyboardInterrupt``; callable from any
thread."""

Done = Callable[[Outcome], None]
"""Takes an outcome. Called in whatever thread the delivery ran in."""


class Pool(Protocol):
    """Slots that run deliveries in the order in which they were submitted.

    Between `submit` and its start a delivery is *unstarted*. Each one is either started or given
    back by `withdraw`, never both and never neither, whatever the timing.

    One thread owns the pool and calls its methods; `unstarted`, `withdraw` and `submit` may be
    called by others too.
    """

    slots: int
    """How many run at once."""
    runs_coroutines: bool
    """Whether the body of a task may be ``async def``."""

    inline: bool
    """Whether jobs run inside `turn`, in the owner's thread."""

    def start(self, execute: Execute, done: Done) -> None:
        """Get ready. Each delivery goes through ``execute``, its outcome to ``done``, once."""

    def submit(self, deliveries: Sequence[Delivery]) -> None:
        """Run these, after those submitted before."""

    def unstarted(self) -> int:
        """How many wait for a slot; a snapshot."""

    def withdraw(self) -> list[Delivery]:
        """Take back all that have not started, in order; they will not start any more."""

    def turn(self) -> None:
        """Let the pool use the calling thread; returns when there are outcomes to see to."""

    def abort(self) -> list[Delivery]:
        """End what runs, now and for good, where that is possible: these deliveries, of which
        ``done`` will not hear. Where slots cannot be ended, none: what runs goes on."""

    def stop(self, timeout: float) -> bool:
        """Start nothing more and wait for what runs, at most ``timeout`` seconds (real time).

        False if something still runs then: it is left alone, and its outcome still goes to
        ``done``.
        """


def run_one(execute: Execute, delivery: Delivery) -> Outcome:
    """Run in a context of its own: context variables set by a job end with it.

    An error of the machinery around the task gives the job back, counted as a lost worker is.
    """
    try:
        return copy_context().run(execute, delivery)
    except Exception as error:
        return came_to_nothing(delivery, error)


def came_to_nothing(delivery: Delivery, error: BaseException) -> Outcome:
    """The outcome of a run that ended in no outcome."""
    logger.error("job %s could not be run to its end", delivery.job_id, exc_info=error)
    return Outcome(Nack(delivery, detail=f"{type(error).__name__}: {error}"))
