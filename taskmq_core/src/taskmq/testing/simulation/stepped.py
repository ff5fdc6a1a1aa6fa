"""The real worker, one round at a time, without a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from taskmq.app import App
from taskmq.pools import Pool, Setting
from taskmq.records import WorkerRecord
from taskmq.testing.crash import WorkerCrashed
from taskmq.transport import Listener
from taskmq.worker.inbox import Inbox
from taskmq.worker.pace import Pace
from taskmq.worker.session import Session

from .slots import SlotPool
from .watch import WorkerSide

__all__ = ["MakePool", "SteppedWorker"]

MakePool = Callable[[str, int, Setting], Pool]


class SteppedWorker:
    """Everything of a `taskmq.Worker` but its threads and its waits.

    What the threads would do at intervals (renew leases, look for revocations, heartbeat) happens
    in `tick`, what the loop does between two waits in `step`. A crash is simply that neither is
    called any more.
    """

    def __init__(
        self,
        app: App,
        name: str,
        queues: Sequence[str],
        pace: Pace,
        side: WorkerSide,
        make_pool: MakePool,
    ) -> None:
        self.name = name
        self.queues = queues
        self.dead = False
        """It crashed. What still runs of it, further up the stack, must stop at once."""
        self.busy = False
        """It is in the middle of a step: its thread runs a task."""
        self._side = side
        self._guarded = False
        self._app = app
        self._pace = pace
        self._make_pool = make_pool
        self._inbox = Inbox()
        self._listener: Listener | None = None
        self._session: Session

    def enter(self, *, listen: bool) -> None:
        """Register and get ready, once the app has its tasks. Raises `TransportError`."""
        self._session = Session(
            self._app,
            self._app.config,
            name=self.name,
            queues=self.queues,
            inbox=self._inbox,
            on_deliveries=None,
            pace=self._pace,
            pools=self._make_pool,
        )
        if listen:
            self._listener = self._side.listen(self.queues)
        self._session.enter()

    @property
    def record(self) -> WorkerRecord:
        """Its entry in the registry."""
        return self._session.heartbeat.record

    @property
    def slots(self) -> SlotPool | None:
        """Its pool, if it is one whose slots go on by themselves."""
        pool = self._session.pool
        return pool if isinstance(pool, SlotPool) else None

    # -- waking up -----------------------------------------------------------------------------

    @property
    def listens(self) -> bool:
        return self._listener is not None

    def is_signalled(self) -> bool:
        """Whether its listener would end a wait."""
        return self._listener is not None and self._listener.wait(0.0)

    def notice(self) -> None:
        """Let it be woken: the store may have something new, and it will look as soon as it has
        room. What is signalled later counts."""
        self._inbox.notice()
        self._side.sleeps_until = None
        if self._listener is not None:
            self._listener.clear()

    def sleeps_through(self, now: float) -> list[str]:
        """The queues for whose jobs it does not look, though it could run them: it sleeps for
        longer than until now, and nobody has woken it."""
        side, until = self._side, self._side.sleeps_until
        if until is None or until <= now or self._inbox.stop:
            return []
        return [] if not self.listens or self.is_signalled() else side.has_room_for

    # -- working -------------------------------------------------------------------------------

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
        """What its other threads do every so often. They check more often than they renew, and what
        was not there at the last check is not looked at."""
        self._session.keeper.renew()
        self._session.keeper.check()
        self._session.keeper.check()
        self._session.heartbeat.beat()

    def give_back(self) -> None:
        """What its watchdog does when a task takes long: others may have what waits behind it."""
        if self.busy and self.slots is None:
            self._guarded = True
            self._session.watchdog.give_back()

    def trouble(self) -> str | None:
        """What is wrong with its books between two steps, if anything."""
        session, in_hand = self._session, len(self._side.in_hand)
        kept, counted = len(session.keeper), session.loop.in_pool
        if kept > counted + len(session.fetcher.unsent):
            return f"keeps {kept} leases, with {counted} jobs to run"
        if kept < in_hand:
            return f"keeps {kept} leases, and has {in_hand} jobs"
        there = session.pool.unstarted() + (self.slots.busy if self.slots else 0)
        if not self._guarded and counted != there + len(self._inbox):
            return f"counts {counted} jobs, and there are {there}"
        return None

    def stop(self) -> None:
        """Ask for a graceful end, which takes further steps."""
        self._inbox.stop = True

    def vanish(self) -> None:
        """Nothing is left of it but what the store has."""
        self.dead = True
        self.close()

    def close(self) -> None:
        """Let go of what Python holds for it."""
        if self.slots is not None:
            self.slots.discard()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
