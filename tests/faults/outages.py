"""What the tests of outages share: a store that can be hurt, workers in every pool, and a producer
that counts.

A store joins the common tests (test_outage_common.py) by an entry in `STORES`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests import services
from tests.waiting import PATIENCE, wait_for

from taskmq import App, Config, JobState, Task
from taskmq.errors import StoreFull, TransportError, TransportUnavailable
from taskmq.result import Result

POOLS = ("solo", "threads", "processes", "asyncio")
APP = Path(__file__).with_name("outages_app.py")
IN_FLIGHT = ("threads", "processes", "asyncio")
"""Pools that run a long job beside short ones."""
PUBLISH_TIMEOUT = 5.0
RESUME = 10.0
"""Seconds in which a worker has to work again, once the store does."""
SLACK = float(os.environ.get("OUTAGES_SLACK", "10"))
"""Seconds that a busy machine may add to either."""
LEASE = 10.0
"""Of the workers. A job that was handed out by an answer that got lost waits for its end."""


class Server(Protocol):
    """What is killed, and started again with all that was acknowledged."""

    def kill(self) -> None: ...
    def restart(self) -> Any: ...


@dataclass(frozen=True)
class Ground:
    """A store on a server of its own. Everybody reaches it through ``proxy``, by ``url``."""

    server: Server
    proxy: services.Proxy
    url: str


def redis_ground(stack: ExitStack) -> Ground:
    server = stack.enter_context(services.Redis({"appendonly": "yes", "appendfsync": "always"}))
    proxy = stack.enter_context(services.Proxy(server))
    return Ground(server, proxy, proxy.url)


def postgres_ground(stack: ExitStack) -> Ground:
    server = stack.enter_context(services.Postgres(fsync=True))
    proxy = stack.enter_context(services.Proxy(server))
    return Ground(server, proxy, proxy.url)


STORES: dict[str, tuple[str, Callable[[ExitStack], Ground]]] = {
    "redis": (services.Redis.program, redis_ground),
    "postgres": (services.Postgres.program, postgres_ground),
}
"""By name: the program that has to be installed, and what starts the store. Its server keeps on
disk whatever it has acknowledged."""


class Producer:
    """Submits to the queue of each pool, in a thread until `stop`, and keeps count."""

    def __init__(self, url: str, prefix: str, **config: Any) -> None:
        self.app = App(Config(transport=url, **config))
        self.tasks = {pool: self._task(f"{pool}.run", pool) for pool in POOLS}
        self.long = {pool: self._task(f"{pool}.hold", f"{pool}-long") for pool in POOLS}
        self.acknowledged: list[str] = []
        self.errors: list[tuple[TransportError, float]] = []
        """What `submit` raised, and after how many seconds."""
        self._prefix = prefix
        self._stopping = threading.Event()
        self._may_go = threading.Event()
        self._may_go.set()
        self._between = threading.Lock()  # held while it submits
        self._thread = threading.Thread(target=self._produce, name="producer", daemon=True)

    def _task(self, name: str, queue: str) -> Task[..., Any]:
        def body(name: str) -> str:
            return name

        return self.app.task(name=name, queue=queue)(body)

    def submit(self, pool: str, name: str) -> str | None:
        """The job's id; ``None`` if there was an error, which is kept."""
        began = time.monotonic()
        try:
            job = self.tasks[pool].delay(name)
        except TransportError as error:
            self.errors.append((error, time.monotonic() - began))
            return None
        self.acknowledged.append(job.id)
        return job.id

    def start(self) -> None:
        self._thread.start()

    def pause(self) -> None:
        """Submit nothing more, until `go_on`."""
        self._may_go.clear()
        with self._between:  # the last one has returned
            pass

    def go_on(self) -> None:
        self._may_go.set()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def _produce(self) -> None:
        number = 0
        while not self._stopping.wait(0.05):
            with self._between:
                if self._may_go.is_set():
                    for pool in POOLS:
                        self.submit(pool, f"{self._prefix}{number}")
            number += 1

    @contextmanager
    def failing(self, count: int = 1) -> Iterator[None]:
        """What is done in here makes it fail that often: waited for at the end."""
        before = len(self.errors)
        yield
        wait_for(lambda: len(self.errors) >= before + count, f"{count} errors of a producer")

    def wait_for_errors(self, count: int = 1) -> None:
        """Until it has failed so often from now on: where an outage lasts until it is ended."""
        with self.failing(count):
            pass

    def check_errors(self) -> float:
        """Each was of the right type and in time; the longest (seconds)."""
        for error, _ in self.errors:
            assert isinstance(error, (TransportUnavailable, StoreFull)), repr(error)
        longest = max((seconds for _, seconds in self.errors), default=0.0)
        assert longest <= PUBLISH_TIMEOUT + SLACK
        return longest

    def check_nothing_lost(self) -> None:
        """Whatever was acknowledged is done, and no job was given up."""

        def unfinished() -> list[str]:
            try:
                found = self.app.transport.get(self.acknowledged)
            except TransportError:
                return ["?"]
            return [
                f"{job_id}: {record.state if record else 'lost'}"
                for job_id, record in zip(self.acknowledged, found, strict=True)
                if record is None or record.state is not JobState.SUCCEEDED
            ]

        deadline = time.monotonic() + PATIENCE
        while left := unfinished():
            assert time.monotonic() < deadline, f"{len(left)} not done, e.g. {left[:5]}"
            time.sleep(0.1)

    def close(self) -> None:
        self.app.close()


@dataclass
class Crew:
    """A worker process for each pool, in a folder where they note what they run."""

    folder: Path
    url: str
    options: Sequence[str] = ()
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _count: int = 0

    def start(self, pools: Sequence[str] = POOLS) -> None:
        (self.folder / APP.name).write_bytes(APP.read_bytes())
        for pool in pools:
            command = [sys.executable, "-m", "taskmq", "worker", "-A", "outages_app:app"]
            # The solo pool runs one job at a time: one that holds it would hold up all others.
            queues = pool if pool == "solo" else f"{pool},{pool}-long"
            with self._log(pool).open("wb") as stream:
                self.processes[pool] = subprocess.Popen(
                    [*command, "-P", pool, "-Q", queues, "-c", "4", *self.options],
                    cwd=self.folder,
                    env={**os.environ, "TASKMQ_TRANSPORT": self.url, "TASKMQ_POOL": pool},
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=stream,
                )
        for pool in pools:
            wait_for(lambda pool=pool: " ready: " in self.log(pool), f"the {pool} worker")  # type: ignore[misc]  # bound in this round

    def log(self, pool: str) -> str:
        return self._log(pool).read_text()

    def _log(self, pool: str) -> Path:
        return self.folder / f"{pool}.log"

    def runs(self) -> Iterator[tuple[str, str, float]]:
        """Pool, name and instant of each run so far."""
        file = self.folder / "runs"
        for line in file.read_text().splitlines() if file.exists() else []:
            pool, name, at = line.split()
            yield pool, name, float(at)

    def go(self, name: str) -> None:
        """Let the jobs of that name end that hold on."""
        (self.folder / f"{name}.go").touch()

    def wait_for_run(self, pool: str, name: str) -> float:
        """Until it ran; the instant of the first time."""

        def found() -> list[float]:
            return [at for ran_in, what, at in self.runs() if (ran_in, what) == (pool, name)]

        wait_for(lambda: bool(found()), f"{name} in the {pool} pool")
        return found()[0]

    def resume(self, producer: Producer, since: float) -> dict[str, float]:
        """Give every worker a job; the seconds until each ran it, from when the store had it or
        from ``since``, if that is later."""
        self._count += 1
        name = f"resumed-{self._count}"
        begun = {}
        for pool in self.processes:
            wait_for(lambda pool=pool: bool(producer.submit(pool, name)), "a store that works")  # type: ignore[misc]  # bound in this round
            begun[pool] = max(since, time.monotonic())
        return {pool: self.wait_for_run(pool, name) - at for pool, at in begun.items()}

    @contextmanager
    def in_flight(self, producer: Producer, name: str) -> Iterator[None]:
        """Long jobs run while this lasts. Afterwards each has run once, and is settled."""
        jobs = {pool: producer.long[pool].delay(name) for pool in IN_FLIGHT}
        for pool in IN_FLIGHT:
            self.wait_for_run(pool, f"{name}-started")
        yield
        self.go(name)
        for pool, job in jobs.items():
            wait_for(lambda job=job: is_done(job), f"the end of {name} in the {pool} pool")  # type: ignore[misc]  # bound in this round
            assert job.info["deliveries"] == 1
            started = [what for ran_in, what, _ in self.runs() if ran_in == pool]
            assert started.count(f"{name}-started") == 1

    def check_alive(self) -> None:
        for pool, process in self.processes.items():
            assert process.poll() is None, self.log(pool)

    def close(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@dataclass(frozen=True)
class Scene:
    """A store, its workers, and the directory of both."""

    ground: Ground
    crew: Crew

    @contextmanager
    def outage(self, name: str, measured: Callable[..., None]) -> Iterator[Producer]:
        """Inside of it, break the store and mend it again, while a producer works. Afterwards
        every pool has to resume in time, and everything that was acknowledged to be done."""
        producer = Producer(self.ground.url, f"{name}-")
        try:
            before = self.crew.resume(producer, 0.0)
            producer.start()
            yield producer
            healed_at = time.monotonic()
            resumed = self.crew.resume(producer, healed_at)
            producer.stop()
            producer.check_nothing_lost()
            done_at = time.monotonic()
            self.crew.check_alive()
            longest_error = producer.check_errors()
            assert max(resumed.values()) <= RESUME + SLACK, resumed
            measured(
                acknowledged=len(producer.acknowledged),
                lost=0,
                errors=len(producer.errors),
                longest_until_error=round(longest_error, 3),
                all_done=round(done_at - healed_at, 3),
                latency_before=round(max(before.values()), 3),
                **{f"resumed_{pool}": round(seconds, 3) for pool, seconds in resumed.items()},
            )
        finally:
            self.ground.proxy.heal()
            producer.close()


@contextmanager
def scene(
    folder: Path, start: Callable[[ExitStack], Ground], options: Sequence[str] = ()
) -> Iterator[Scene]:
    """A store with a worker for each pool."""
    with ExitStack() as stack:
        ground = start(stack)
        crew = Crew(folder, ground.url, options)
        stack.callback(crew.close)
        crew.start()
        yield Scene(ground, crew)


def is_done(job: Result[Any]) -> bool:
    try:
        return job.state is JobState.SUCCEEDED
    except TransportError:
        return False
