"""Children of a real worker die, are killed, and lose their parent."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.waiting import PATIENCE

from taskmq import App, RemoteError
from taskmq.states import JobState

APP = Path(__file__).with_name("processes_app.py")
METHODS = ("fork", "forkserver", "spawn")


class Ground:
    """A folder with a store, the app on it, and a worker process."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        monkeypatch.setenv("TEST_FOLDER", str(folder))
        self.app: App = load(APP).app
        self.workers: list[subprocess.Popen[str]] = []

    def start(self, **settings: object) -> subprocess.Popen[str]:
        """A worker that is ready to work. ``settings`` are of the configuration."""
        given = {"concurrency": 2, **settings}
        variables = {f"TASKMQ_{name.upper()}": str(value) for name, value in given.items()}
        (self.folder / "ready").unlink(missing_ok=True)
        worker = subprocess.Popen(
            [sys.executable, str(APP)],
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.workers.append(worker)
        self.word("ready")
        return worker

    def task(self, name: str) -> Any:
        return self.app.tasks[name]

    def word(self, name: str) -> str:
        """What a task has noted, as soon as it has."""
        file = self.folder / name
        self.until(file.exists)
        return file.read_text()

    def until(self, true: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < end, [w.poll() for w in self.workers]
            time.sleep(0.005)

    def end(self) -> None:
        for worker in self.workers:
            worker.kill()
            print(*worker.communicate(), sep="\n")
        self.app.close()


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    made = Ground(tmp_path, monkeypatch)
    yield made
    made.end()


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("method", METHODS)
def test_a_job_that_kills_its_child_ends_at_its_ceiling_and_harms_nobody(
    ground: Ground, method: str
) -> None:
    worker = ground.start(start_method=method)
    neighbours = [ground.task("pid").delay() for _ in range(50)]
    culprit = ground.task("die").delay()
    neighbours += [ground.task("pid").delay() for _ in range(50)]
    with pytest.raises(RemoteError) as failed:
        culprit.get(PATIENCE)
    pids = {result.get(PATIENCE) for result in neighbours}
    assert failed.value.reason == "worker_lost"
    assert (ground.folder / "deaths").read_text().split() == ["0", "1", "2"]
    assert ground.word("failures") == f"{worker.pid} WorkerLost 2\n"
    assert worker.pid not in pids
    for result in neighbours:
        assert result.record.history == ()
    assert worker.poll() is None
    inner = ground.task("submit").delay().get(PATIENCE)  # a child uses the store as anybody does
    assert ground.app.result(inner).get(PATIENCE) > 0


def test_a_child_that_is_killed_from_outside_is_replaced_and_its_job_runs_again(
    ground: Ground,
) -> None:
    ground.start()
    job = ground.task("sleep").delay("a", 0.5)
    first = int(ground.word("a-runs"))
    os.kill(first, signal.SIGKILL)
    assert job.get(PATIENCE) == "a"
    assert job.record.reclaims == 1
    assert int(ground.word("a-runs")) != first


@pytest.mark.parametrize("method", METHODS)
def test_children_do_not_outlive_their_worker(ground: Ground, method: str) -> None:
    worker = ground.start(start_method=method)
    ground.task("sleep").delay("a", 60)
    busy = int(ground.word("a-runs"))
    children = [int(f.name.removeprefix("child-")) for f in ground.folder.glob("child-*")]
    nursery = parent_of(busy)
    began = time.monotonic()
    worker.kill()
    ground.until(lambda: not any(map(is_alive, [*children, nursery])))
    assert busy in children
    assert time.monotonic() - began < 1.0


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_whose_nursery_is_killed_makes_another(ground: Ground, method: str) -> None:
    ground.start(start_method=method)
    job = ground.task("sleep").delay("a", 0.5)
    os.kill(parent_of(int(ground.word("a-runs"))), signal.SIGKILL)
    assert job.get(PATIENCE) == "a"
    assert job.record.reclaims == 1


def test_what_runs_for_too_long_after_sigterm_runs_elsewhere_at_once(ground: Ground) -> None:
    first = ground.start(shutdown_timeout=0.5, lease=60)
    job = ground.task("hold").delay("a")
    ground.word("a-runs")
    second = ground.start(lease=60)
    (ground.folder / "a-runs").unlink()
    began = time.monotonic()
    first.terminate()
    ground.word("a-runs")
    assert time.monotonic() - began < 10.0  # its lease has 50 s to go
    (ground.folder / "a-may-end").touch()
    out, _ = first.communicate(timeout=PATIENCE)
    assert "1 cut short" in out
    assert second.poll() is None
    assert job.get(PATIENCE) == "a"
    assert (job.record.reclaims, job.record.attempt) == (0, 1)


def test_ctrl_c_at_a_terminal_lets_children_finish(ground: Ground) -> None:
    worker = ground.start()
    job = ground.task("sleep").delay("a", 0.5)
    ground.word("a-runs")
    os.killpg(worker.pid, signal.SIGINT)  # to all of them, as a terminal does
    out, _ = worker.communicate(timeout=PATIENCE)
    assert "1 succeeded" in out
    assert job.state is JobState.SUCCEEDED


def test_children_that_cannot_start_end_the_worker_with_a_reason(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKMQ_START_METHOD", "spawn")
    code = "from taskmq import App, Config\nfrom taskmq.worker import Worker\n"
    code += "Worker(App(Config.from_env(pool='processes', concurrency=1))).run_until_idle()"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "cannot find the app again in a new process" in ended.stderr
