"""What the tasks of a worker do while they run, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from taskmq.call import Extension, Replacement
from taskmq.context import TaskContext, current_task
from taskmq.envelope import load
from taskmq.errors import (
    MessageError,
    RejectJob,
    ReleaseJob,
    RetryJob,
    SoftTimeLimit,
    TransportError,
)
from taskmq.states import JobState
from taskmq.testing.crash import WorkerCrashed
from taskmq.transport import (
    Ack,
    DeadLetter,
    Defer,
    Delegate,
    Delivery,
    Nack,
    RetryLater,
    Revoke,
    Settlement,
)

from .coroutines import Standstill
from .people import People
from .profile import LEASE, PoolKind
from .stepped import SteppedWorker
from .world import World

__all__ = ["Tasks"]

MAX_DEPTH = 3
SETTLEMENTS: Mapping[str, tuple[type[Settlement], ...]] = {
    "succeed": (Ack,),
    "spawn": (Ack,),
    "delegate": (Delegate,),
    "reject": (DeadLetter,),
    "give_back": (Defer,),
    "notice_cancel": (Revoke,),
    "terminated": (Revoke,),
    "child_lost": (Nack,),
    "die": (),
}


class Tasks:
    """Those of one worker. In the solo pool others act while a task runs (``interject``); in pools
    with slots, between its start and its end."""

    def __init__(
        self, world: World, people: People, kind: PoolKind, interject: Callable[[], None]
    ) -> None:
        self.worker: SteppedWorker
        self._world = world
        self._draw = world.draw
        self._journal = world.journal
        self._ledger = world.observer.ledger
        self._people = people
        self._interject = interject
        self._endings = world.profile.endings_in(kind)
        self._decided: dict[int, str] = {}

    # -- in the solo pool, and in a child ------------------------------------------------------

    def body(self, number: int, *inputs: Any) -> object:
        """Of every task that is a plain function."""
        context = current_task()
        ending = self._decided.pop(id(context.delivery), None)
        if ending is None:
            if self.worker.dead:
                raise WorkerCrashed  # the loop above is dead, it only does not know yet
            self._ledger.begins(self.worker.name, context.delivery)
            ending = self._live(context)
            self._told(context.delivery, ending)
        return self._end(context, ending)

    def _live(self, context: TaskContext) -> str:
        """What happens while it runs; how it ends."""
        if self._world.calm:
            return "succeed"
        prelude = self._world.choose(self._world.profile.preludes)
        if prelude == "take_long":
            self._take_long()
        elif prelude == "interleave":
            self._interleave(context)
        elif prelude == "heartbeat":
            context.heartbeat()
        elif prelude == "publish":
            with suppress(TransportError):
                self._people.enqueue()
        elif prelude == "be_revoked":
            self._be_revoked(context)
        elif prelude == "be_late":
            self._be_late()
        if context.cancelled and self._world.chance(0.7):
            return "notice_cancel"
        return self._world.choose(self._endings)

    def _take_long(self) -> None:
        """Time passes for what waits behind this job, often until something of it expires."""
        world = self._world
        now, jobs = world.clock.now(), world.observer.model.jobs.values()
        held = [job.envelope.expires_at for job in jobs if job.state is JobState.RUNNING]
        ahead = [at - now for at in held if at is not None and at > now]
        if ahead and world.chance(0.7):
            world.advance(min(ahead))
        else:
            world.advance(self._draw.choice((0.05, 3.0, 15.0, 45.0)) * self._draw.random())
        if world.chance(0.5):
            self.worker.give_back()

    def _be_revoked(self, context: TaskContext) -> None:
        """Somebody revokes the job while it runs, and the next renewal of its lease tells."""
        self._people.revoke_this(context.id)
        self._world.advance(LEASE / 2)
        self.worker.tick()

    def _be_late(self) -> None:
        """The whole process stands still for longer than its leases last."""
        self._world.advance(LEASE * 1.1)
        with suppress(TransportError):
            self._people.maintain()
        self.worker.tick()

    def _interleave(self, context: TaskContext) -> None:
        if self._journal.depth >= MAX_DEPTH:
            return
        self._journal.add(self.worker.name, f"begins {self._ledger.name(context.delivery)}")
        self._journal.depth += 1
        for _ in range(self._draw.randint(1, 6)):
            if not self.worker.dead and not self._world.is_broken:
                self._interject()
        self._journal.depth -= 1

    # -- in slots (`slots.Script`) -------------------------------------------------------------

    def begins(self, delivery: Delivery) -> None:
        self._ledger.begins(self.worker.name, delivery)
        self._journal.add(self.worker.name, f"begins {self._ledger.name(delivery)}")

    def ending(self, delivery: Delivery, *, told: bool, killed: bool) -> str:
        world = self._world
        if killed and (world.calm or world.chance(0.7)):
            ending = "terminated"
        elif world.calm:
            ending = "succeed"
        elif told and world.chance(0.7):
            ending = "notice_cancel"
        else:
            ending = world.choose(self._endings)
        if ending not in ("terminated", "hard_limit", "child_lost"):
            self._decided[id(delivery)] = ending
        self._told(delivery, ending)
        return ending

    def ended(self, delivery: Delivery, *kinds: type[Settlement]) -> None:
        self._journal.add(self.worker.name, f"has {self._ledger.name(delivery)} ended")
        self._ledger.ends(delivery, *kinds)

    async def coroutine(self, number: int, *inputs: Any) -> object:
        """Of every task that is ``async def``."""
        context = current_task()
        self.begins(context.delivery)
        while await self._is_interrupted():
            if not self._world.chance(0.3):
                raise asyncio.CancelledError
            name = self._ledger.name(context.delivery)
            self._journal.add(self.worker.name, f"does not let {name} be cancelled")
        ending = self.ending(context.delivery, told=context.cancelled, killed=False)
        del self._decided[id(context.delivery)]
        return self._end(context, ending)

    async def _is_interrupted(self) -> bool:
        try:
            await Standstill()
        except asyncio.CancelledError:
            return True
        return False

    # -- the end -------------------------------------------------------------------------------

    def _told(self, delivery: Delivery, ending: str) -> None:
        name = self._ledger.name(delivery)
        self._journal.add(self.worker.name, f"runs {name}: {ending}")
        self._ledger.ends(delivery, *_settlements(ending, delivery))

    def _end(self, context: TaskContext, ending: str) -> object:
        if ending == "die":
            self.worker.dead = True
        if self.worker.dead:
            raise WorkerCrashed
        if ending == "notice_cancel":
            context.cancelled = True
            context.check_cancelled()
        if ending == "fail":
            raise ValueError("as the simulation wants it")
        if ending == "soft_limit":
            raise SoftTimeLimit("timeout is over")
        if ending == "ask_for_retry":
            raise context.retry("later", delay=self._draw.choice((0.0, 5.0)))
        if ending == "retry_elsewhere":
            raise RetryJob("there", delay=1.0, envelope=self._people.mended(context.envelope))
        if ending == "give_back":
            raise ReleaseJob(delay=self._draw.choice((0.0, 7.0)))
        if ending == "reject":
            raise RejectJob("no good")
        result = f"{context.id} ran"
        if ending == "spawn":
            return Extension(self._grown(), result)
        if ending == "delegate":
            grown = self._grown()
            return Replacement(grown, self._draw.choice(grown).envelope.id)
        return result

    def _grown(self) -> tuple[Any, ...]:
        """New jobs, as `SealedApp` takes them: with ids and all else that the seed gives."""
        return tuple(self._people.grown(self._world.clock.now()))


def _settlements(ending: str, delivery: Delivery) -> tuple[type[Settlement], ...]:
    """What a worker may say of a delivery whose task ends so."""
    if ending in SETTLEMENTS:
        return SETTLEMENTS[ending]
    try:
        again = load(delivery.envelope).ack != "on_completion"
    except MessageError:
        again = True
    return (RetryLater, DeadLetter) if again else (DeadLetter,)
