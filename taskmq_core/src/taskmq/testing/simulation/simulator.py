"""One simulation: a store, producers, workers that come and go, and all that goes wrong.

Everything happens in one thread and is drawn from seeds, so a simulation can be repeated. What
threads and processes do at once in reality is interleaved here in three ways: workers take turns,
round by round; a task in the solo pool may let others act while it runs (``interleave``), so that
its lease ends, its job is revoked or its worker dies in the middle of it; and what runs in a pool
with slots starts in one move and ends in another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

from taskmq.errors import TransportError
from taskmq.states import TERMINAL, JobState
from taskmq.testing.clock import FakeClock

from .audit import Audit
from .crew import Crew
from .people import People
from .profile import LEASE, QUEUES, Profile
from .schedule import Move, Schedule
from .workload import TASKS
from .world import OpenHandle, World

__all__ = ["Simulation"]

DRAIN_ROUNDS = 3000
AUDIT_EVERY = 10


class Simulation:
    """Runs `run`, then `drain`. What was wrong is in ``world.observer.findings``."""

    def __init__(self, profile: Profile, clock: FakeClock, open_handle: OpenHandle) -> None:
        self.world = World(profile, clock, open_handle)
        self._people = People(self.world)
        self.crew = Crew(self.world, self._people, self._interject)
        observer = self.world.observer
        self._audit = Audit(clock, observer.model, observer.findings)
        self._actions = self._table()

    # -- the course of it ----------------------------------------------------------------------

    def run(self, schedule: Schedule) -> None:
        """All of its moves, or until something is wrong."""
        for move in schedule.moves:
            if self.world.is_broken:
                return
            self._move(move)

    def _move(self, move: Move) -> None:
        world = self.world
        world.journal.step += 1
        world.draw.seed(move.seed)
        rate, world.calm = world.faults.rate, move.plain
        if move.plain:
            world.faults.rate = 0.0
        self._act(move.action)
        world.faults.rate, world.calm = rate, False
        self._verify()

    def _act(self, action: str) -> None:
        with suppress(TransportError):
            self._actions[action]()

    def _interject(self) -> None:
        """Others act in the middle of a task."""
        self._act(self.world.choose(self.world.profile.actions))

    def _verify(self) -> None:
        world = self.world
        if world.is_broken:
            return
        self.crew.verify_awake()
        if world.journal.step % AUDIT_EVERY == 0:
            self._audit_all()
        else:
            self._audit.verify_changed(world.store)

    def _audit_all(self) -> None:
        world = self.world
        unclear = {queue for queue in QUEUES if world.observer.is_unclear({queue})}
        self._audit.verify_all(world.store)
        self._audit.verify_reports(world.store, QUEUES, unclear)

    # -- the end of it -------------------------------------------------------------------------

    def drain(self, schedule: Schedule) -> None:
        """No more trouble: every job has to come to its end now."""
        world = self.world
        if world.is_broken:
            return
        world.journal.add("simulation", "drain")
        world.draw.seed(schedule.seed)
        world.calm, world.faults.rate = True, 0.0
        self._people.resume_all()
        if world.chance(0.5):
            self.crew.stop_all()
        self.crew.start_worker(TASKS)
        for _ in range(DRAIN_ROUNDS):
            if self.world.is_broken or not self._unfinished():
                break
            self._drain_round()
        if not world.is_broken:
            self._audit_all()
            self._audit.verify_ended()

    def _drain_round(self) -> None:
        world = self.world
        world.journal.step += 1
        for worker in list(self.crew.alive):
            worker.notice()
            self.crew.step_worker(worker)
            worker.tick()
        self.crew.finish_slots()
        if world.journal.step % 3 == 0:
            self._people.maintain()
        if not world.is_broken:
            self._audit.verify_changed(world.store)
        # Keepers renew leases in time: what has no end then was forgotten by its worker.
        self._wait_until_due(at_most=LEASE / 4)
        world.clock.advance(0.2)  # for workers that keep away from a store that failed

    def _unfinished(self) -> bool:
        return any(job.state not in TERMINAL for job in self.world.observer.model.jobs.values())

    def close(self) -> None:
        self.crew.close()
        self.world.close()

    # -- time ----------------------------------------------------------------------------------

    def _wait(self) -> None:
        draw = self.world.draw
        self.world.advance(draw.choice((0.01, 0.3, 2.0, 9.0)) * draw.random())

    def _jump(self) -> None:
        self.world.advance(self.world.draw.choice((1.1, 2.0, 10.0)) * LEASE)

    def _set_back(self) -> None:
        """The wall clock is wrong and somebody corrects it; the monotonic one goes on.

        Not while jobs wait for others, or for a worker that knows them, or where the oldest of
        those that are due has to go: what is due then, and what is made due again, is for each
        store to say.
        """
        world = self.world
        if any(kind.drops for kind in world.profile.queues.values()):
            return
        jobs = world.observer.model.jobs.values()
        if any(job.state is JobState.WAITING or job.parked_at is not None for job in jobs):
            return
        seconds = world.draw.choice((0.5, 5.0, 60.0)) * world.draw.random()
        world.observer.latest = max(world.observer.latest, world.clock.now())
        world.clock.set(world.clock.now() - seconds)
        world.journal.add("clock", f"set back by {seconds:.3f} s")

    def _wait_until_due(self, at_most: float = math.inf) -> None:
        """Let time pass until exactly the next thing that is due by itself."""
        model, now = self.world.observer.model, self.world.clock.now()
        instants = [model.next_due_at(QUEUES, now)]
        for job in model.jobs.values():
            instants.append(job.envelope.expires_at)
            if job.parked_at is not None:
                instants.append(job.parked_at + job.park_ttl)
        ahead = [at - now for at in instants if at is not None and at > now]
        self.world.advance(min(*ahead, at_most) if ahead else 0.0)

    # -- what can happen -----------------------------------------------------------------------

    def _table(self) -> dict[str, Callable[[], None]]:
        people, crew = self._people, self.crew
        return {
            "enqueue": people.enqueue,
            "step": crew.step,
            "slots": crew.slots,
            "wait": self._wait,
            "wait_until_due": self._wait_until_due,
            "tick": crew.tick,
            "give_back": crew.give_back,
            "maintain": people.maintain,
            "start": crew.start,
            "stop": crew.stop,
            "crash": crew.crash,
            "stall": crew.stall,
            "take_over": crew.take_over,
            "revoke": people.revoke,
            "replay": people.replay,
            "forget": people.forget,
            "bury": people.bury,
            "purge": people.purge,
            "pause": people.pause,
            "resume": people.resume,
            "lead": people.lead,
            "jump": self._jump,
            "set_back": self._set_back,
        }
