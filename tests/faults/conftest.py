"""Worker processes as they are deployed, and what one does to them."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from taskmq import App
from taskmq.result import Result

DEADLINE = 20.0
APP = Path(__file__).with_name("fleet_app.py")


class Process:
    """A worker process. ``err`` is what it wrote."""

    def __init__(self, popen: "subprocess.Popen[bytes]", log: Path) -> None:
        self.popen = popen
        self.pid = popen.pid
        self._log = log

    def send(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def wait(self, timeout: float = DEADLINE) -> int:
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
    """A directory with an app and a store in it, and workers that run there."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        shutil.copy(APP, folder)
        monkeypatch.chdir(folder)
        spec = importlib.util.spec_from_file_location("fleet_app", folder / APP.name)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.app: App = module.app
        self.workers: list[Process] = []

    def submit(self, task: str, *args: Any) -> Result[Any]:
        found = self.app.tasks.find(f"fleet_app.{task}")
        assert found is not None
        return found.call(*args).submit()

    def start(self, *options: str, wrapper: Sequence[str] = (), **environ: str) -> Process:
        """A worker that is ready; ``wrapper`` is a command that runs it."""
        log = self.folder / f"worker-{len(self.workers)}.log"
        command = [sys.executable, "-m", "taskmq", "worker", "-A", "fleet_app:app"]
        with log.open("wb") as stream:
            popen = subprocess.Popen(
                [*wrapper, *command, *options],
                cwd=self.folder,
                env={**os.environ, **environ},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
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

    def close(self) -> None:
        for worker in self.workers:
            worker.popen.kill()
            worker.popen.wait(DEADLINE)
        self.app.close()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.01)


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    made = Fleet(tmp_path, monkeypatch)
    yield made
    made.close()
