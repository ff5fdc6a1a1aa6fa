"""Node names, pid files, signals and users: the process around a worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from celery import platforms
from celery.platforms import LockFailed, Pidfile, create_pidlock
from celery.utils.nodenames import (
    default_nodename,
    gethostname,
    host_format,
    node_format,
    nodename,
    nodesplit,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "celery@{}"),
        ("", "celery@{}"),
        ("w1@", "w1@{}"),
        ("w1@box", "w1@box"),
        ("box", "celery@box"),
    ],
)
def test_names_are_completed(given: str | None, expected: str) -> None:
    assert default_nodename(given) == expected.format(gethostname())


def test_names_are_joined_and_split() -> None:
    assert nodename("w1", "box") == "w1@box"
    assert nodesplit("w1@box") == ("w1", "box")
    assert nodesplit("box") == (None, "box")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%h", "box.example.com"),
        ("w1@%h", "w1@box.example.com"),
        ("%n.log", "box.log"),
        ("%d", "example.com"),
        ("%%n", "%n"),
        ("%n%I.log", "box.log"),
        ("%n-%i.log", "box-0.log"),
        ("100%", "100%"),
    ],
)
def test_placeholders_are_expanded(text: str, expected: str) -> None:
    assert host_format(text, "box.example.com") == expected


def test_placeholders_for_a_worker_know_its_name() -> None:
    assert node_format("/var/run/%n-%h.pid", "w1@box") == "/var/run/w1-box.pid"


def test_an_unknown_placeholder_is_named() -> None:
    with pytest.raises(ValueError, match="Unknown format %z in 'w%z'"):
        host_format("w%z")


def test_a_pid_file_holds_the_process_id_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "worker.pid"
    with create_pidlock(path):
        assert path.read_text() == f"{os.getpid()}\n"
    assert not path.exists()


def test_a_pid_file_of_a_living_process_is_respected(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "worker.pid"
    path.write_text(f"{os.getppid()}\n")
    with pytest.raises(SystemExit) as stopped:
        create_pidlock(path)
    assert stopped.value.code == platforms.EX_CANTCREAT == 73
    told = capfd.readouterr().err
    assert f"ERROR: Pidfile ({path}) already exists." in told
    assert f"(pid: {os.getppid()})" in told


@pytest.mark.parametrize("dead", ["finished", "junk"])
def test_a_stale_or_broken_pid_file_is_taken_over(
    dead: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "worker.pid"
    if dead == "finished":
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        path.write_text(f"{gone.pid}\n")
    else:
        path.write_text("junk\n")
    with create_pidlock(path):
        assert path.read_text() == f"{os.getpid()}\n"
    assert "pidfile" in capfd.readouterr().err


def test_a_pid_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LockFailed, match="No such file or directory"):
        Pidfile(tmp_path / "missing" / "worker.pid").acquire()


def test_signals_go_by_name() -> None:
    assert platforms.signals.signum("TERM") == platforms.signals.signum("SIGTERM") == signal.SIGTERM
    assert platforms.signal_name(signal.SIGTERM) == "TERM"
    assert not platforms.signals.supported("NOSUCH")
    platforms.signals["NOSUCH"] = lambda *_: None  # a system without it: nothing happens


def test_users_and_groups_go_by_name_or_number() -> None:
    assert platforms.parse_uid("0") == platforms.parse_uid("root") == 0
    assert platforms.parse_gid("0") == 0
    with pytest.raises(KeyError, match="User does not exist: nosuchuser"):
        platforms.parse_uid("nosuchuser")
    with pytest.raises(KeyError, match="Group does not exist: nosuchgroup"):
        platforms.parse_gid("nosuchgroup")
