"""Producers and operators: whoever talks to the store without being a worker."""

from __future__ import annotations

from contextlib import suppress

from taskmq.errors import QueueFull, TransportError
from taskmq.records import WorkerRecord
from taskmq.states import JobState

from .profile import QUEUES
from .workload import Workload
from .world import World

__all__ = ["People"]


class People:
    """Each method is something that one of them does. Raises `TransportError`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._draw = world.draw
        self._workload = Workload(world.draw, world.profile.batches, world.profile.queues)
        self._store = world.handle("producer")
        self.mended = self._workload.mended
        self.grown = self._workload.grown

    def enqueue(self) -> None:
        world = self._world
        batch = self._workload.batch(list(world.observer.model.jobs), world.clock.now())
        try:
            self._store.enqueue(batch)
        except QueueFull:
            if world.chance(0.3):  # who has no choice waits, and tries again
                world.advance(self._draw.choice((0.1, 5.0)))
                self._store.enqueue(batch)
        except TransportError:
            if world.chance(0.7):  # not knowing whether it came through: say it again
                self._store.enqueue(batch)

    def revoke(self) -> None:
        world = self._world
        running = world.some_job(JobState.RUNNING) if world.chance(0.7) else []
        by = self._draw.choice(("", "ann@desk", "bob@desk"))
        self._store.revoke(running or world.some_job(), terminate=world.chance(0.5), by=by)

    def revoke_this(self, job_id: str) -> None:
        """While it runs."""
        with suppress(TransportError):
            self._store.revoke([job_id], terminate=self._world.chance(0.5), by="ann@desk")

    def forget(self) -> None:
        self._store.forget(self._world.some_job())

    def bury(self) -> None:
        self._store.bury(self._world.some_job(JobState.FAILED))

    def purge(self) -> None:
        self._store.purge(self._draw.choice(QUEUES))

    def replay(self) -> None:
        world = self._world
        dead = world.some_job(JobState.FAILED)
        mended = {}
        if dead and world.chance(0.4):
            sealed = world.observer.model.jobs[dead[0]].sealed
            mended = {dead[0]: self._workload.mended(sealed.envelope)}
        self._store.replay(dead, mended)

    def maintain(self) -> None:
        self._store.maintain()

    def pause(self) -> None:
        self._store.pause(self._draw.choice(QUEUES), by="ann@desk")

    def resume(self) -> None:
        paused = sorted(self._world.observer.model.flow.paused)
        self._store.resume(self._draw.choice(paused or QUEUES))

    def resume_all(self) -> None:
        for queue in sorted(self._world.observer.model.flow.paused):
            self._store.resume(queue)

    def lead(self) -> None:
        owner = self._draw.choice(("x", "y"))
        if self._world.chance(0.7):
            self._store.acquire("beat", owner, self._draw.uniform(5.0, 50.0))
        else:
            self._store.surrender("beat", owner)

    def take_over(self, gone: WorkerRecord) -> None:
        """A neighbour sees that the process of a worker has ended."""
        self._store.reclaim(gone)
