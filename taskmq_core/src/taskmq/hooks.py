"""What an application may observe of a worker."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from .records import Dropped
from .transport import Delivery, Settlement

if TYPE_CHECKING:
    from .app import App
    from .worker import Worker, WorkerReport

__all__ = ["MOST_HELD", "WorkerHook"]

MOST_HELD = 256
"""Deliveries that a worker holds at most, where nothing says how many: those of short jobs."""


class WorkerHook:
    """Observes the life of a worker. Every method is a no-op: override what is wanted.

    All but those of a child are called in the thread that calls `Worker.run`, so a slow hook holds
    up the worker (but neither the jobs that run nor their leases). A hook that raises is logged;
    the worker goes on.

    >>> class Banner(WorkerHook):
    ...     def on_ready(self, worker: Worker) -> None:
    ...         print(f"{worker.name} ready.")
    """

    most_taken: int = MOST_HELD
    """How many deliveries it may have at once (see `take`); while it has them, none is reserved."""

    def on_start(self, worker: Worker) -> None:
        """The configuration is accepted; nothing runs yet, and the store does not know of it."""

    def on_ready(self, worker: Worker) -> None:
        """Registered, with its pool started; about to reserve for the first time."""

    def on_deliveries(
        self, worker: Worker, deliveries: Sequence[Delivery]
    ) -> Collection[Delivery] | None:
        """These have just been reserved, in the order in which they will start.

        Those that it gives back do not start: their jobs end as revoked, and `on_dropped` tells of
        them. ``None`` lets all of them start.
        """

    def take(self, worker: Worker, deliveries: Sequence[Delivery]) -> Collection[Delivery] | None:
        """These have just been reserved, after `on_deliveries`.

        Those that it gives back are its own from now on: the worker renews their leases, and they
        take no slot. It says by `Worker.settle` what became of each, whenever that is, or has the
        worker run it after all by `Worker.start`. What it still has when the worker ends is given
        back, and runs elsewhere; it hears by `on_leaving` that the end comes.
        """

    def on_leaving(self, worker: Worker) -> None:
        """The worker was asked to stop: it reserves nothing more, and waits for what runs and for
        what was taken, as long as its ``shutdown_timeout`` allows."""

    def on_settled(self, worker: Worker, settlements: Sequence[Settlement]) -> None:
        """The store has just accepted these, of jobs that ran: how each attempt ended."""

    def on_dropped(self, worker: Worker, dropped: Sequence[Dropped]) -> None:
        """These jobs are over without an attempt that could tell: no hook of their task is called.

        The store has it when this is called, once for each, in the worker that ended it, or whose
        housekeeping did, of whatever queue: ``reason`` is ``expired``, ``revoked`` (it waited for
        a slot, or its worker was lost), or that of a dead letter (``worker_lost``,
        ``unknown_task``, ``malformed``, …). ``task`` is empty if even that is not known. A job
        that is revoked before a worker took it is not among them.
        """

    def on_child_start(self, app: App) -> None:
        """Before the first job, in the process that runs jobs, in the thread that does so where
        there is one: in every child of the processes pool, once in a worker with another pool.

        The place to open what must not be shared between processes. In a child that was made by
        ``forkserver`` or ``spawn`` only the hooks of the app are called (`App.add_hook`): the
        worker's own is an object of another process.
        """

    def on_child_stop(self, app: App) -> None:
        """The counterpart of `on_child_start`, where a process or a worker ends in order; not
        after a child was killed or has crashed."""

    def on_stop(self, worker: Worker, report: WorkerReport) -> None:
        """The last thing: everything is settled, released or abandoned, and the pool is gone."""
