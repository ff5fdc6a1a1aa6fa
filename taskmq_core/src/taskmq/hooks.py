"""What an application may observe of a worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .transport import Delivery

if TYPE_CHECKING:
    from .worker import Worker, WorkerReport

__all__ = ["WorkerHook"]


class WorkerHook:
    """Observes the life of a worker. Every method is a no-op: override what is wanted.

    All are called in the thread that calls `Worker.run`, so a slow hook holds up the worker (but
    neither the jobs that run nor their leases). A hook that raises is logged; the worker goes on.

    >>> class Banner(WorkerHook):
    ...     def on_ready(self, worker: Worker) -> None:
    ...         print(f"{worker.name} ready.")
    """

    def on_start(self, worker: Worker) -> None:
        """The configuration is accepted; nothing runs yet, and the store does not know of it."""

    def on_ready(self, worker: Worker) -> None:
        """Registered, with its pool started; about to reserve for the first time."""

    def on_deliveries(self, worker: Worker, deliveries: Sequence[Delivery]) -> None:
        """These have just been reserved, in the order in which they will start."""

    def on_stop(self, worker: Worker, report: WorkerReport) -> None:
        """The last thing: everything is settled, released or abandoned, and the pool is gone."""
