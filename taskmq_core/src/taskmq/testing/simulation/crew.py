"""The workers of a simulation: they start, take their turns, stop and die."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from taskmq.app import App
from taskmq.config import Config, QueueConfig
from taskmq.envelope import Sealed
from taskmq.pools import Pool, Setting, SoloPool
from taskmq.records import WorkerRecord
from taskmq.retry import Retry
from taskmq.testing.crash import WorkerCrashed
from taskmq.worker.pace import Pace

from .coroutines import CoroutinePool
from .people import People
from .profile import LEASE, QUEUES, PoolKind
from .slots import ChildPool
from .stepped import SteppedWorker
from .tasks import Tasks
from .watch import WorkerSide
from .workload import TASKS
from .world import World

__all__ = ["Crew"]

RETRY = Retry(max_attempts=4, base=2.0, max_delay=40.0, jitter=False)


class SealedApp(App):
    """Takes jobs that are sealed already for calls, so that their ids come from the seed."""

    def seal(self, call: Any, now: float) -> Sealed:
        return call if isinstance(call, Sealed) else super().seal(call, now)

    def seal_many(self, calls: Sequence[Any], now: float) -> list[Sealed]:
        return [self.seal(call, now) for call in calls]


class Crew:
    """Those that are alive, and what is left of those that are not."""

    def __init__(self, world: World, people: People, interject: Callable[[], None]) -> None:
        self.alive: list[SteppedWorker] = []
        self.crashes = 0
        self._gone: dict[str, WorkerRecord] = {}
        self._world = world
        self._people = people
        self._interject = interject
        self._pace = Pace(world.clock.monotonic, world.draw.random)
        self._started = 0

    # -- coming and going ----------------------------------------------------------------------

    def start(self) -> None:
        if len(self.alive) < self._world.profile.workers:
            knows_all = self._world.chance(0.5)
            self.start_worker(TASKS if knows_all else TASKS[:2])

    def start_worker(self, tasks: tuple[str, ...]) -> None:
        """A new one, or a new run of one that died. Raises `TransportError`."""
        world, draw = self._world, self._world.draw
        name = self._name()
        queues = QUEUES if world.calm else tuple(draw.sample(QUEUES, draw.randint(1, 3)))
        kind: PoolKind = draw.choice(world.profile.pools)
        quota = None if world.calm else world.profile.quota
        side = WorkerSide(world.handle(name), world.observer, name)
        app = SealedApp(self._config(kind, quota), transport=side, clock=world.clock)
        script = Tasks(world, self._people, kind, self._interject)
        worker = SteppedWorker(app, name, queues, self._pace, side, _pools(kind, script))
        script.worker = worker
        for task in tasks:
            retry = RETRY if task != "plain" else None
            app.task(name=task, retry=retry)(_fresh(script, kind))
        known = ", ".join(tasks)
        world.journal.add(name, f"starts: {kind}, queues {', '.join(queues)}, tasks {known}")
        worker.enter(listen=world.profile.listens)
        self.alive.append(worker)

    def _name(self) -> str:
        """Sometimes that of one whose process has just ended."""
        used = {worker.name for worker in self.alive}
        free = sorted(name for name in self._gone if name not in used)
        if free and self._world.chance(0.4):
            return self._world.draw.choice(free)
        self._started += 1
        return f"w{self._started}"

    def _config(self, kind: PoolKind, quota: int | None) -> Config:
        profile = self._world.profile
        return Config(
            pool=kind,
            concurrency=profile.slots,
            lease=LEASE,
            prefetch=profile.prefetch,
            park_ttl=100.0,
            shutdown_timeout=20.0,
            queues={"a": QueueConfig(max_running=quota)},
        )

    def stop(self) -> None:
        if self.alive:
            worker = self._any()
            self._world.journal.add(worker.name, "is asked to stop")
            worker.stop()

    def stop_all(self) -> None:
        for worker in self.alive:
            worker.stop()

    def crash(self) -> None:
        if self.alive:
            worker = self._any()
            self._world.journal.add(worker.name, "is killed")
            worker.dead = True
            self._remove(worker)

    def take_over(self) -> None:
        """The neighbours of one that died see that it is gone."""
        if self._gone:
            name = self._world.draw.choice(sorted(self._gone))
            self._people.take_over(self._gone[name])

    def _remove(self, worker: SteppedWorker) -> None:
        if worker not in self.alive:
            return
        self.alive.remove(worker)
        if worker.dead:
            self.crashes += 1
            self._gone[worker.name] = worker.record
        worker.vanish()

    def close(self) -> None:
        for worker in self.alive:
            worker.close()

    def _any(self) -> SteppedWorker:
        return self._world.draw.choice(self.alive)

    # -- working -------------------------------------------------------------------------------

    def step(self) -> None:
        idle = [worker for worker in self.alive if not worker.busy]
        if idle:
            worker = self._world.draw.choice(idle)
            self._wake(worker)
            self.step_worker(worker)

    def _wake(self, worker: SteppedWorker) -> None:
        """It wakes when it is signalled, sometimes late, and sometimes without a reason. One that
        does not listen wakes by chance."""
        late = self._world.chance(self._world.profile.lose_wakeups)
        if not late and (not worker.listens or worker.is_signalled() or self._world.chance(0.05)):
            worker.notice()

    def step_worker(self, worker: SteppedWorker) -> None:
        """One round of its loop."""
        observer = self._world.observer
        observer.ledger.rounds[worker.name] += 1
        try:
            gone = worker.step()
        except Exception as error:
            observer.findings.failed(worker.name, error)
            return
        if gone:
            self._world.journal.add(worker.name, "crashed" if worker.dead else "stopped")
            self._remove(worker)
        else:
            self._check(worker)

    def _check(self, worker: SteppedWorker) -> None:
        trouble = worker.trouble()
        if trouble is not None:
            self._world.observer.findings.complain("lease", f"{worker.name} {trouble}")

    def slots(self) -> None:
        """What runs in slots starts, goes on and ends."""
        workers = [worker for worker in self.alive if worker.slots is not None]
        if not workers:
            self.step()
            return
        worker = self._world.draw.choice(workers)
        if not self._world.calm and self._world.chance(0.05):
            self._revoke_one(worker)
        self._let_go_on(worker, at_most=self._world.draw.randint(0, 3))

    def _revoke_one(self, worker: SteppedWorker) -> None:
        """Somebody revokes what runs in a slot, and its worker sees it at once."""
        running = [] if worker.slots is None else worker.slots.running()
        if running:
            self._people.revoke_this(self._world.draw.choice(running).job_id)
            worker.tick()

    def finish_slots(self) -> None:
        """All of it, one after the other."""
        for worker in list(self.alive):
            self._let_go_on(worker, at_most=100)

    def _let_go_on(self, worker: SteppedWorker, at_most: int) -> None:
        pool = worker.slots
        if pool is None:
            return
        try:
            pool.fill()
            for _ in range(min(at_most, pool.busy)):
                pool.go_on(self._world.draw.randrange(pool.busy))
        except WorkerCrashed:
            self._world.journal.add(worker.name, "crashed")
            worker.dead = True
            self._remove(worker)
        except Exception as error:
            self._world.observer.findings.failed(worker.name, error)
        else:
            self._check(worker)

    def tick(self) -> None:
        """Leases and heartbeats have a thread of their own: also while a task runs."""
        for worker in list(self.alive):
            if self._world.chance(0.5):
                worker.tick()

    def stall(self) -> None:
        """A whole process stands still for longer than its leases last; then it goes on."""
        if self.alive:
            worker = self._any()
            self._world.journal.add(worker.name, "stands still")
            self._world.advance(LEASE * 1.1)
            self._people.maintain()
            worker.tick()

    def give_back(self) -> None:
        if self.alive:
            self._any().give_back()

    def verify_awake(self) -> None:
        """Nobody sleeps while there is something for it."""
        world = self._world
        now, observer = world.clock.now(), world.observer
        for worker in self.alive:
            if not worker.listens or worker.busy or observer.is_unclear(worker.queues):
                continue
            ready = observer.model.ready(worker.sleeps_through(now), now)
            if ready:
                text = f"{worker.name} sleeps, though it could have job {ready[0].id}"
                observer.findings.complain("wake", text, ready[0].id)


def _pools(kind: PoolKind, script: Tasks) -> Callable[[str, int, Setting], Pool]:
    def make(_: str, slots: int, setting: Setting) -> Pool:
        if kind == "processes":
            return ChildPool(slots, setting, script)
        if kind == "asyncio":
            return CoroutinePool(slots, setting, script)
        return SoloPool()

    return make


def _fresh(script: Tasks, kind: PoolKind) -> Callable[..., object]:
    """A function of its own for each task, as `App.task` wants it."""

    async def coroutine(number: int, *inputs: object) -> object:
        return await script.coroutine(number, *inputs)

    def body(number: int, *inputs: object) -> object:
        return script.body(number, *inputs)

    function: Callable[..., object] = coroutine if kind == "asyncio" else body
    function.__annotations__.clear()  # or each worker would compile converters for its arguments
    return function
