"""The real worker, one round at a time, without a thread of its own."""

from __future__ import annotations

from collections.abc import Sequence

from taskmq.app import App
from taskmq.testing.crash import WorkerCrashed
from taskmq.worker.inbox import Inbox
from taskmq.worker.pace import Pace
from taskmq.worker.session import Session

__all__ = ["SteppedWorker"]


class SteppedWorker:
    """Everything of a `taskmq.Worker` but its threads and its waits.

    What the threads would do at intervals (renew leases, heartbeat) happens in `tick`, what the
    loop does between two waits in `step`. A crash is simply that neither is called any more.
    """

    def __init__(self, app: App, name: str, queues: Sequence[str], pace: Pace) -> None:
        self.name = name
        self.dead = False
        """It crashed. What still runs of it, further up the stack, must stop at once."""
        self.busy = False
        """It is in the middle of a step: its thread runs a task."""
        self._guarded = False
        self._app = app
        self._queues = queues
        self._pace = pace
        self._inbox = Inbox()
        self._session: Session

    def enter(self) -> None:
        """Register and get ready, once the app has its tasks. Raises `TransportError`."""
        self._session = Session(
            self._app,
            self._app.config,
            name=self.name,
            queues=self._queues,
            inbox=self._inbox,
            on_deliveries=None,
            pace=self._pace,
        )
        self._session.enter()

    def notice(self) -> None:
        """Let it be woken: the store may have something new."""
        self._inbox.notice()

    def step(self) -> bool:
        """One round of the loop, with the tasks that it runs; true once it is no more."""
        self.busy, self._guarded = True, False
        try:
            finished = self._session.loop.step()
        except WorkerCrashed:
            self.dead = True
            return True
        finally:
            self.busy = False
        if self.dead:
            return True
        if finished:
            self._session.loop.leave()
            self._session.heartbeat.deregister()
        return finished

    def tick(self) -> None:
        """What its other threads do every so often."""
        self._session.keeper.renew()
        self._session.heartbeat.beat()

    def give_back(self) -> None:
        """What its watchdog does when a task takes long: others may have what waits behind it."""
        if self.busy:
            self._guarded = True
            self._session.watchdog.give_back()

    def trouble(self, in_hand: int) -> str | None:
        """What is wrong with its books between two steps, if anything. ``in_hand`` counts what it
        was given, and has not said it is done with."""
        session = self._session
        kept, counted = len(session.keeper), session.loop.in_pool
        if kept > counted + len(session.fetcher.unsent):
            return f"keeps {kept} leases, with {counted} jobs to run"
        if kept < in_hand:
            return f"keeps {kept} leases, and has {in_hand} jobs"
        if not self._guarded and counted != session.pool.unstarted() + len(self._inbox):
            return f"counts {counted} jobs, and there are {session.pool.unstarted()}"
        return None

    def stop(self) -> None:
        """Ask for a graceful end, which takes further steps."""
        self._inbox.stop = True
