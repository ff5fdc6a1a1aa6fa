"""The service manager: found in the environment, told in datagrams, never waited for."""

import os
import socket
from pathlib import Path

import pytest

from taskmq.cli.systemd import ServiceManager


def test_its_variables_are_taken_out_of_the_environment() -> None:
    environ = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "3000000", "PATH": "/bin"}
    manager = ServiceManager.from_env(environ)
    assert manager.listens
    assert manager.watchdog == 3.0
    assert environ == {"PATH": "/bin"}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"WATCHDOG_USEC": "3000000"},  # nobody to tell
        {"NOTIFY_SOCKET": "/x"},
        {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "nonsense"},
        {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "0"},
        {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"},
    ],
)
def test_without_a_watchdog_of_our_own_there_is_none(environ: dict[str, str]) -> None:
    assert ServiceManager.from_env(environ).watchdog is None


def test_a_watchdog_of_this_process() -> None:
    environ = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "10", "WATCHDOG_PID": str(os.getpid())}
    assert ServiceManager.from_env(environ).watchdog == 0.00001


@pytest.mark.parametrize("abstract", [False, True])
def test_it_is_told(tmp_path: Path, abstract: bool) -> None:
    name = f"taskmq-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + name if abstract else name)
        listener.settimeout(5)
        manager = ServiceManager("@" + name if abstract else name)
        manager.ready("a")
        manager.alive("b")
        manager.stopping("c", 1.5)
        told = [listener.recv(1000) for _ in range(3)]
    assert told == [
        b"READY=1\nSTATUS=a",
        b"WATCHDOG=1\nSTATUS=b",
        b"STOPPING=1\nSTATUS=c\nEXTEND_TIMEOUT_USEC=1500000",
    ]


def test_nobody_there_is_no_error(tmp_path: Path) -> None:
    ServiceManager(str(tmp_path / "gone")).ready("a")
    ServiceManager().ready("a")
