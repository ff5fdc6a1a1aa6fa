"""Workers that die: what SIGKILL does, inside one process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from taskmq.envelope import load
from taskmq.errors import MessageError
from taskmq.transport import Delivery, Exchange, Nack, Reservation, Settlement, Transport

from .wrapper import TransportWrapper

__all__ = ["CrashPoints", "MortalTransport", "WorkerCrashed"]


class WorkerCrashed(KeyboardInterrupt):
    """Ends a worker in the middle of a task.

    Raise it where the worker should die, say from a stand-in for the payment gateway: nothing is
    settled, no hook is called, and no ``except Exception`` of the task stops it. Only for tasks
    that run in `worker_for`; anywhere else it ends the test run, as Ctrl-C does.
    """


CrashPoints = Mapping[str, Collection[int]]
"""By task name: the deliveries of a job, from 1, that end with the death of the worker."""


class MortalTransport(TransportWrapper):
    """The way to the store of a worker that dies when it wants to tell how a doomed job went.

    So the task has run, with all its effects, and the store never hears of it, nor of the other
    outcomes that were to be told with it.
    """

    def __init__(self, inner: Transport, points: CrashPoints) -> None:
        super().__init__(inner)
        self._points = points

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        for settlement in settlements:
            if self._is_doomed(settlement.delivery) or _died(settlement):
                raise WorkerCrashed(f"with job {settlement.delivery.job_id}")
        return super().exchange(settlements, reservation)

    def _is_doomed(self, delivery: Delivery) -> bool:
        return bool(self._points) and (
            delivery.deliveries in self._points.get(_task_of(delivery), ())
        )


def _died(settlement: Settlement) -> bool:
    """Whether the task raised `WorkerCrashed` in a thread: there, a pool makes it a nack."""
    return isinstance(settlement, Nack) and settlement.detail.startswith(WorkerCrashed.__name__)


def _task_of(delivery: Delivery) -> str:
    try:
        return load(delivery.envelope).task
    except MessageError:
        return ""  # nobody can run it, so nobody dies of it
