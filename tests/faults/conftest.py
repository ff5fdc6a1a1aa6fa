"""Worker processes as they are deployed, on any store, and what one does to them.

Tests that take ``fleet`` run on SQLite. Where their module says ``EVERY_STORE = True``, they run on
each of `STORES`: a store joins by an entry there. Those that their module names in ``BY_BROKER``
run on each of `BROKERS` too.
"""

import importlib.util
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.waiting import PATIENCE, wait_for

from taskmq import App, Task
from taskmq.result import Result

APP = Path(__file__).with_name("fleet_app.py")
CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def sqlite(request: pytest.FixtureRequest) -> str:
    folder: Path = request.getfixturevalue("tmp_path")
    return f"sqlite:///{folder}/jobs.db?busy_timeout=0.2"


def redis(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("redis_url"))


def postgres(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("postgres_url"))


STORES: dict[str, Callable[[pytest.FixtureRequest], str]] = {
    "sqlite": sqlite,
    "redis": redis,
    "postgres": postgres,
}
"""By name: what gives the URL of a store that nobody has used yet. It may ask for fixtures."""


def rabbitmq(request: pytest.FixtureRequest) -> str:
    return f"{request.getfixturevalue('rabbitmq_url')}?state={sqlite(request)}"


BROKERS: dict[str, Callable[[pytest.FixtureRequest], str]] = {"rabbitmq": rabbitmq}
"""The same for delivery by a broker, with the state in a file. What is promised comes from the
state store: only what may depend on deliveries is tried again."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_url" in metafunc.fixturenames and getattr(metafunc.module, "EVERY_STORE", False):
        by_broker = metafunc.function.__name__ in getattr(metafunc.module, "BY_BROKER", ())
        stores = [*STORES, *BROKERS] if by_broker else [*STORES]
        metafunc.parametrize("store_url", stores, indirect=True)


@pytest.fixture
def store_url(request: pytest.FixtureRequest) -> str:
    """An empty store."""
    return {**STORES, **BROKERS}[getattr(request, "param", "sqlite")](request)


class Process:
    """A worker process. ``err`` is what it wrote."""

    def __init__(self, popen: "subprocess.Popen[bytes]", log: Path) -> None:
        self.popen = popen
        self.pid = popen.pid
        self._log = log

    def send(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def send_to_all(self, number: signal.Signals) -> None:
        """To its children as well."""
        os.killpg(self.pid, number)

    def wait(self, timeout: float = PATIENCE) -> int:
        """Until it has ended; to the millisecond, where the system can say (`Popen.wait` polls)."""
        if hasattr(os, "pidfd_open") and self.popen.poll() is None:
            handle = os.pidfd_open(self.pid)
            select.select([handle], [], [], timeout)
            os.close(handle)
        return self.popen.wait(timeout)

    @property
    def err(self) -> str:
        return self._log.read_text()

    def wait_for_log(self, text: str) -> None:
        try:
            wait_for(lambda: text in self.err, f"log line {text!r}")
        except AssertionError:
            pytest.fail(f"no {text!r} in this log:\n{self.err}")


class Fleet:
    """A directory with an app in it, a store, and workers that run there."""

    def __init__(self, folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.url = url
        shutil.copy(APP, folder)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("TASKMQ_TRANSPORT", url)
        self.module = load(folder / APP.name)
        self.app: App = self.module.app
        self.workers: list[Process] = []

    def task(self, name: str) -> Task[..., Any]:
        """One of `fleet_app`, whichever of its apps has it."""
        found = self.app.tasks.find(f"fleet_app.{name}")
        found = found or self.module.coroutines.tasks.find(f"fleet_app.{name}")
        assert found is not None
        return found

    def submit(self, task: str, *args: Any) -> Result[Any]:
        return self.task(task).delay(*args)

    def start(
        self, *options: str, app: str = "app", wrapper: Sequence[str] = (), **environ: str
    ) -> Process:
        """A worker that is ready; ``wrapper`` is a command that runs it."""
        log = self.folder / f"worker-{len(self.workers)}.log"
        command = [sys.executable, "-m", "taskmq", "worker", "-A", f"fleet_app:{app}"]
        with log.open("wb") as stream:
            popen = subprocess.Popen(
                [*wrapper, *command, *options],
                cwd=self.folder,
                env={**os.environ, **environ},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        worker = Process(popen, log)
        self.workers.append(worker)
        worker.wait_for_log(" ready: ")
        return worker

    def wake(self) -> None:
        """Have idle workers look at the store."""
        self.app.transport.inner.acquire("wake", str(time.monotonic()), 0.001)  # type: ignore[attr-defined]  # of Store

    def touch(self, name: str) -> Path:
        (self.folder / name).touch()
        return self.folder / name

    def pids(self, name: str, what: str) -> list[int]:
        """The processes that noted something, in no order."""
        return [int(file.name.split(".")[1]) for file in self.folder.glob(f"{name}.*.{what}")]

    def wait_until(self, name: str, what: str, times: int = 1) -> float:
        """Until it was noted so often; the instant, on the monotonic clock."""
        wait_for(lambda: len(self.pids(name, what)) >= times, f"{times} times {name} {what}")
        return time.monotonic()

    def records(self) -> list[tuple[int, int, float]]:
        """Every run of ``record``: number, process, instant on the monotonic clock."""
        file = self.folder / "records"
        # A line is appended in one step, but a reader may come in the middle of it.
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return [(int(a), int(b), float(c)) for a, b, c in map(str.split, lines)]

    def longest_wait(self, since: float) -> float:
        """Seconds between two starts of ``record``, or from ``since`` to the next: as long, at
        most, as a job lay there although workers had nothing else to do."""
        starts = sorted(at for _, _, at in self.records() if at > since)
        return max((b - a for a, b in itertools.pairwise([since, *starts])), default=0.0)

    def close(self) -> None:
        for worker in self.workers:
            worker.popen.kill()
            worker.popen.wait(PATIENCE)
        self.module.coroutines.close()
        self.app.close()


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def fleet(tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    made = Fleet(tmp_path, store_url, monkeypatch)
    yield made
    made.close()


@pytest.fixture(scope="session")
def container() -> Sequence[str]:
    """A command that runs another one where its process number means nothing to us; empty where
    that is not allowed."""
    try:
        allowed = subprocess.run([*CONTAINER, "true"], capture_output=True).returncode == 0
    except OSError:
        allowed = False
    return CONTAINER if allowed else ()


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Takes figures, by name: they are printed (``-s``), and are lines of JSON in the file that
    ``PROMISES_FIGURES`` names."""

    def note(**figures: float) -> None:
        line = json.dumps({"test": request.node.name, **figures})
        print(f"\n{line}")
        if file := os.environ.get("PROMISES_FIGURES"):
            with Path(file).open("a") as stream:
                stream.write(f"{line}\n")

    return note
