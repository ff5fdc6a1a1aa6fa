"""One simulation: a store, producers, workers that come and go, and all that goes wrong.

Everything happens in one thread and is drawn from one seed, so a simulation can be repeated. What
threads and processes do at once in reality is interleaved here in two ways: workers take turns,
round by round; and a task may let others act while it runs (``interleave``), so that its lease
ends, its job is revoked or its worker dies in the middle of it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from taskmq.app import App
from taskmq.config import Config
from taskmq.context import TaskContext, current_task
from taskmq.errors import RejectJob, ReleaseJob, RetryJob, TransportError
from taskmq.retry import Retry
from taskmq.states import TERMINAL, JobState
from taskmq.testing.clock import FakeClock
from taskmq.testing.crash import WorkerCrashed
from taskmq.testing.faults import FaultyTransport, RandomFaults
from taskmq.transport import (
    Ack,
    DeadLetter,
    Defer,
    RetryLater,
    Revoke,
    Settlement,
    Transport,
)
from taskmq.worker.pace import Pace

from .journal import Journal
from .observer import Observer
from .profile import LEASE, Profile
from .stepped import SteppedWorker
from .watch import StoreSide, WorkerSide
from .workload import QUEUES, TASKS, Workload

__all__ = ["OpenHandle", "Simulation"]

OpenHandle = Callable[[], Transport]
"""Opens one more handle on the store under test, whose clock is the simulation's."""

MAX_DEPTH = 3
DRAIN_ROUNDS = 3000
RETRY = Retry(max_attempts=4, base=2.0, max_delay=40.0, jitter=False)
REPORT_EVERY = 10
SETTLEMENTS: Mapping[str, tuple[type[Settlement], ...]] = {
    "succeed": (Ack,),
    "reject": (DeadLetter,),
    "give_back": (Defer,),
    "notice_cancel": (Revoke,),
    "die": (),
}


class Simulation:
    """Runs `run`, then `drain`. What was wrong is in ``observer.violations``."""

    def __init__(self, seed: int, clock: FakeClock, open_handle: OpenHandle) -> None:
        self.clock = clock
        self.journal = Journal(clock)
        self.observer = Observer(clock, self.journal)
        self.draw = random.Random(seed)
        self.profile = Profile.of(self.draw)
        self.faults = RandomFaults(self.draw.getrandbits(32), rate=self.profile.fault_rate)
        self.crashes = 0
        self._open_handle = open_handle
        self._handles = [open_handle()]
        self._store = self._handles[0]
        self._pace = Pace(clock.monotonic, self.draw.random)
        self._workload = Workload(self.draw, self.profile.batches)
        self._producer = self._handle("producer")
        self._workers: list[SteppedWorker] = []
        self._sides: dict[str, WorkerSide] = {}
        self._started = 0
        self._limit = 0
        self._calm = False

    # -- the course of it ----------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """That many steps, or until something is wrong."""
        self._limit = steps
        while self._goes_on():
            self._step()

    def drain(self) -> None:
        """No more trouble: every job has to come to its end now."""
        if self.observer.violations:
            return
        self.journal.add("simulation", "drain")
        self._calm = True
        self.faults.rate = 0.0
        if self.draw.random() < 0.5:
            for worker in self._workers:
                worker.stop()
        self._start_worker(TASKS)
        for _ in range(DRAIN_ROUNDS):
            if self.observer.violations or not self._unfinished():
                break
            self._drain_round()
        if not self.observer.violations:
            self.observer.verify_ended()

    def close(self) -> None:
        for handle in self._handles:
            handle.close()

    def _goes_on(self) -> bool:
        return self.journal.step < self._limit and not self.observer.violations

    def _step(self) -> None:
        """One action, and a look at everything."""
        self.journal.step += 1
        action = self._choose(self.profile.actions)
        with suppress(TransportError):
            _ACTIONS[action](self)
        self._verify()

    def _verify(self) -> None:
        if self.observer.violations:
            return
        self.observer.verify(self._store)
        if self.journal.step % REPORT_EVERY == 0:
            self.observer.verify_reports(self._store, QUEUES)

    def _drain_round(self) -> None:
        self.journal.step += 1
        for worker in list(self._workers):
            worker.notice()
            self._step_worker(worker)
            worker.tick()
        self._producer.maintain()
        self._verify()
        # Keepers renew leases in time: what has no end then was forgotten by its worker.
        self._wait_until_due(at_most=LEASE / 4)
        self.clock.advance(0.2)  # for workers that keep away from a store that failed

    def _unfinished(self) -> bool:
        return any(job.state not in TERMINAL for job in self.observer.model.jobs.values())

    def _choose(self, weights: Mapping[str, float]) -> str:
        return self.draw.choices(list(weights), list(weights.values()))[0]

    # -- producers and operators ---------------------------------------------------------------

    def _enqueue(self) -> None:
        batch = self._workload.batch(list(self.observer.model.jobs), self.clock.now())
        try:
            self._producer.enqueue(batch)
        except TransportError:
            if self.draw.random() < 0.7:  # not knowing whether it came through: say it again
                self._producer.enqueue(batch)

    def _some_job(self, *states: JobState) -> list[str]:
        jobs = self.observer.model.jobs.values()
        found = [job.id for job in jobs if not states or job.state in states]
        return [self.draw.choice(found)] if found else []

    def _revoke(self) -> None:
        running = self._some_job(JobState.RUNNING) if self.draw.random() < 0.5 else []
        self._producer.revoke(running or self._some_job())

    def _forget(self) -> None:
        self._producer.forget(self._some_job())

    def _bury(self) -> None:
        self._producer.bury(self._some_job(JobState.FAILED))

    def _purge(self) -> None:
        self._producer.purge(self.draw.choice(QUEUES))

    def _replay(self) -> None:
        dead = self._some_job(JobState.FAILED)
        mended = {}
        if dead and self.draw.random() < 0.4:
            sealed = self.observer.model.jobs[dead[0]].sealed
            mended = {dead[0]: self._workload.mended(sealed.envelope)}
        self._producer.replay(dead, mended)

    def _maintain(self) -> None:
        self._producer.maintain()

    def _lead(self) -> None:
        owner = self.draw.choice(("x", "y"))
        if self.draw.random() < 0.7:
            self._producer.acquire("beat", owner, self.draw.uniform(5.0, 50.0))
        else:
            self._producer.surrender("beat", owner)

    # -- time ----------------------------------------------------------------------------------

    def _pause(self) -> None:
        self._advance(self.draw.choice((0.01, 0.3, 2.0, 9.0)) * self.draw.random())

    def _jump(self) -> None:
        self._advance(self.draw.choice((1.1, 2.0, 10.0)) * LEASE)

    def _set_back(self) -> None:
        """The wall clock is wrong and somebody corrects it; the monotonic one goes on.

        Not while jobs wait for others, or for a worker that knows them: what is due then, and what
        is made due again, is for each store to say.
        """
        jobs = self.observer.model.jobs.values()
        if any(job.state is JobState.WAITING or job.parked_at is not None for job in jobs):
            return
        seconds = self.draw.choice((0.5, 5.0, 60.0)) * self.draw.random()
        self.observer.latest = max(self.observer.latest, self.clock.now())
        self.clock.set(self.clock.now() - seconds)
        self.journal.add("clock", f"set back by {seconds:.3f} s")

    def _wait_until_due(self, at_most: float = math.inf) -> None:
        """Let time pass until exactly the next thing that is due by itself."""
        model, now = self.observer.model, self.clock.now()
        instants = [model.next_due_at(QUEUES, now)]
        for job in model.jobs.values():
            instants.append(job.envelope.expires_at)
            if job.parked_at is not None:
                instants.append(job.parked_at + job.park_ttl)
        ahead = [at - now for at in instants if at is not None and at > now]
        self._advance(min(*ahead, at_most) if ahead else 0.0)

    def _advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.journal.add("clock", f"+{seconds:.3f} s")

    # -- workers -------------------------------------------------------------------------------

    def _start(self) -> None:
        if len(self._workers) < self.profile.workers:
            knows_all = self.draw.random() < 0.5
            self._start_worker(TASKS if knows_all else TASKS[:2])

    def _start_worker(self, tasks: tuple[str, ...]) -> None:
        self._started += 1
        name = f"w{self._started}"
        queues = QUEUES if self._calm else self.draw.sample(QUEUES, self.draw.randint(1, 3))
        config = Config(
            pool="solo",
            lease=LEASE,
            prefetch=self.profile.prefetch,
            park_ttl=100.0,
            shutdown_timeout=20.0,
        )
        self._sides[name] = WorkerSide(self._handle(name), self.observer, name)
        app = App(config, transport=self._sides[name], clock=self.clock)
        worker = SteppedWorker(app, name, queues, self._pace)
        for task in tasks:
            retry = RETRY if task != "plain" else None
            app.task(name=task, retry=retry)(self._body(worker))
        self.journal.add(name, f"starts: queues {', '.join(queues)}, tasks {', '.join(tasks)}")
        worker.enter()
        self._workers.append(worker)

    def _handle(self, actor: str) -> Transport:
        """A way to the store, watched next to it, with faults on top."""
        if self._store.capabilities.shared:
            self._handles.append(self._open_handle())
        return FaultyTransport(StoreSide(self._handles[-1], self.observer, actor), self.faults)

    def _idle_worker(self) -> SteppedWorker | None:
        idle = [worker for worker in self._workers if not worker.busy]
        return self.draw.choice(idle) if idle else None

    def _work(self) -> None:
        worker = self._idle_worker()
        if worker is None:
            return
        if self.draw.random() >= self.profile.lose_wakeups:
            worker.notice()
        self._step_worker(worker)

    def _step_worker(self, worker: SteppedWorker) -> None:
        self.observer.rounds[worker.name] += 1
        try:
            gone = worker.step()
        except Exception as error:
            self.observer.complain("error", f"{worker.name} broke: {type(error).__name__}: {error}")
            return
        if not gone and (trouble := worker.trouble(len(self._sides[worker.name].in_hand))):
            self.observer.complain("lease", f"{worker.name} {trouble}")
        if gone:
            self.journal.add(worker.name, "crashed" if worker.dead else "stopped")
            self._remove(worker)

    def _tick(self) -> None:
        """Leases and heartbeats have a thread of their own: also while a task runs."""
        if self._workers:
            self.draw.choice(self._workers).tick()

    def _give_back(self) -> None:
        if self._workers:
            self.draw.choice(self._workers).give_back()

    def _stop(self) -> None:
        if self._workers:
            worker = self.draw.choice(self._workers)
            self.journal.add(worker.name, "is asked to stop")
            worker.stop()

    def _crash(self) -> None:
        if self._workers:
            worker = self.draw.choice(self._workers)
            self.journal.add(worker.name, "is killed")
            worker.dead = True
            self._remove(worker)

    def _remove(self, worker: SteppedWorker) -> None:
        if worker in self._workers:
            self._workers.remove(worker)
            self.crashes += worker.dead

    # -- tasks ---------------------------------------------------------------------------------

    def _body(self, worker: SteppedWorker) -> Callable[..., str]:
        """What every task does in this worker."""

        def body(number: int, *inputs: Any) -> str:
            if worker.dead:
                raise WorkerCrashed  # the loop above is dead, it only does not know yet
            context = current_task()
            self.observer.begins(worker.name, context.delivery)
            ending = self._live(worker, context)
            name = self.observer.name
            self.journal.add(worker.name, f"runs {name(context.delivery)}: {ending}")
            self.observer.ends(context.delivery, *_settlements(ending, context))
            return self._end(worker, context, ending)

        return body

    def _live(self, worker: SteppedWorker, context: TaskContext) -> str:
        """What happens while it runs; how it ends."""
        if self._calm:
            return "succeed"
        prelude = self._choose(self.profile.preludes)
        if prelude == "take_long":
            self._take_long(worker)
        elif prelude == "interleave":
            self._interleave(worker, context)
        elif prelude == "heartbeat":
            context.heartbeat()
        elif prelude == "publish":
            with suppress(TransportError):
                self._enqueue()
        elif prelude == "be_revoked":
            self._be_revoked(worker, context)
        elif prelude == "be_late":
            self._be_late(worker)
        if context.cancelled and self.draw.random() < 0.7:
            return "notice_cancel"
        return self._choose(self.profile.endings)

    def _take_long(self, worker: SteppedWorker) -> None:
        """Time passes for what waits behind this job, often until something of it expires."""
        now, jobs = self.clock.now(), self.observer.model.jobs.values()
        held = [job.envelope.expires_at for job in jobs if job.state is JobState.RUNNING]
        ahead = [at - now for at in held if at is not None and at > now]
        if ahead and self.draw.random() < 0.7:
            self._advance(min(ahead))
        else:
            self._advance(self.draw.choice((0.05, 3.0, 15.0, 45.0)) * self.draw.random())
        if self.draw.random() < 0.5:
            worker.give_back()

    def _be_revoked(self, worker: SteppedWorker, context: TaskContext) -> None:
        """Somebody revokes the job while it runs, and the next renewal of its lease tells."""
        with suppress(TransportError):
            self._producer.revoke([context.id])
        self._advance(LEASE / 2)
        worker.tick()

    def _be_late(self, worker: SteppedWorker) -> None:
        """The whole process stands still for longer than its leases last."""
        self._advance(LEASE * 1.1)
        with suppress(TransportError):
            self._producer.maintain()
        worker.tick()

    def _interleave(self, worker: SteppedWorker, context: TaskContext) -> None:
        if self.journal.depth >= MAX_DEPTH:
            return
        self.journal.add(worker.name, f"begins {self.observer.name(context.delivery)}")
        self.journal.depth += 1
        for _ in range(self.draw.randint(1, 6)):
            if self._goes_on() and not worker.dead:
                self._step()
        self.journal.depth -= 1

    def _end(self, worker: SteppedWorker, context: TaskContext, ending: str) -> str:
        if ending == "die":
            worker.dead = True
        if worker.dead:
            raise WorkerCrashed
        if ending == "notice_cancel":
            context.check_cancelled()
        if ending == "fail":
            raise ValueError("as the simulation wants it")
        if ending == "ask_for_retry":
            raise context.retry("later", delay=self.draw.choice((0.0, 5.0)))
        if ending == "retry_elsewhere":
            raise RetryJob("there", delay=1.0, envelope=self._workload.mended(context.envelope))
        if ending == "give_back":
            raise ReleaseJob(delay=self.draw.choice((0.0, 7.0)))
        if ending == "reject":
            raise RejectJob("no good")
        return f"{context.id} ran"


def _settlements(ending: str, context: TaskContext) -> tuple[type[Settlement], ...]:
    """What a worker may say of a delivery whose task ends so."""
    if ending in ("fail", "ask_for_retry", "retry_elsewhere"):
        again = context.envelope.ack != "on_completion"
        return (RetryLater, DeadLetter) if again else (DeadLetter,)
    return SETTLEMENTS[ending]


_ACTIONS: dict[str, Callable[[Simulation], None]] = {
    "enqueue": Simulation._enqueue,
    "step": Simulation._work,
    "pause": Simulation._pause,
    "wait_until_due": Simulation._wait_until_due,
    "tick": Simulation._tick,
    "give_back": Simulation._give_back,
    "maintain": Simulation._maintain,
    "start": Simulation._start,
    "stop": Simulation._stop,
    "crash": Simulation._crash,
    "revoke": Simulation._revoke,
    "replay": Simulation._replay,
    "forget": Simulation._forget,
    "bury": Simulation._bury,
    "purge": Simulation._purge,
    "lead": Simulation._lead,
    "jump": Simulation._jump,
    "set_back": Simulation._set_back,
}
