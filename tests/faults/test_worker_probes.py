"""What a service manager and probes see of a worker process."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE, wait_for

from taskmq.cli.probe import ask


def health(path: Path, *options: str) -> tuple[int, str]:
    """What ``taskmq health`` says."""
    command = [sys.executable, "-m", "taskmq", "health", "--socket", str(path), *options]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    return ran.returncode, ran.stdout + ran.stderr


def test_probes_through_an_outage_and_a_loop_that_is_stuck(fleet: Any) -> None:
    path = fleet.folder / "probe"
    worker = fleet.start("--health-socket", str(path), "--stuck-after", "0.5")
    assert health(path) == (0, "live: 0 jobs run, 0 are done\n")
    assert health(path, "--ready")[0] == 0
    began = time.monotonic()
    assert ask(path, "live", 1.0)[0]
    assert time.monotonic() - began < 0.1

    outage = fleet.touch("outage")
    fleet.wake()
    worker.wait_for_log("the store does not answer")
    assert health(path)[0] == 0
    assert health(path, "--ready") == (1, "not ready: the store does not answer\n")
    outage.unlink()
    worker.wait_for_log("the store answers again")
    assert health(path, "--ready")[0] == 0

    fleet.touch("stuck")
    fleet.touch("outage")
    fleet.wake()
    wait_for(lambda: not ask(path, "live", 1.0)[0])
    code, text = health(path)
    assert code == 1
    assert text.startswith("not live: stuck: the loop has been working for ")
    worker.popen.kill()
    worker.wait()
    assert health(path)[0] == 3


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(PATIENCE)
        yield listener


def messages_until(listener: socket.socket, last: str) -> list[dict[str, str]]:
    """What was told, up to the first with a field ``last``."""
    told: list[dict[str, str]] = []
    while not told or last not in told[-1]:
        lines = listener.recv(4096).decode().splitlines()
        told.append(dict(line.split("=", 1) for line in lines))
    return told


def test_a_service_manager_is_told(fleet: Any, manager: socket.socket, tmp_path: Path) -> None:
    environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "400000"}
    worker = fleet.start("--stuck-after", "0.5", "--shutdown-timeout", "5", **environ)
    assert messages_until(manager, "READY")[-1]["STATUS"] == "0 jobs run, 0 are done"
    began = time.monotonic()
    for _ in range(3):
        messages_until(manager, "WATCHDOG")
    assert time.monotonic() - began < 3.0
    worker.send(signal.SIGTERM)
    told = messages_until(manager, "STOPPING")[-1]
    assert 5_000_000 <= int(told["EXTEND_TIMEOUT_USEC"]) < 20_000_000
    assert worker.wait() == 0


def test_a_loop_that_is_stuck_gives_no_sign_of_life(
    fleet: Any, manager: socket.socket, tmp_path: Path
) -> None:
    environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
    fleet.start("--stuck-after", "0.3", **environ)
    messages_until(manager, "WATCHDOG")
    fleet.touch("stuck")
    fleet.touch("outage")
    fleet.wake()
    deadline = time.monotonic() + PATIENCE
    while not messages_until(manager, "STATUS")[-1]["STATUS"].startswith("stuck"):
        assert time.monotonic() < deadline
    for _ in range(3):
        assert "WATCHDOG" not in messages_until(manager, "STATUS")[-1]
