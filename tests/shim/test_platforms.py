"""The process: descriptors, privileges, the background."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from celery import _find_option_with_arg, platforms
from celery.exceptions import SecurityError, SecurityWarning
from celery.platforms import DaemonContext, check_privileges, detached, fd_by_path

pytestmark = pytest.mark.unit

DAEMON = """
import os, sys
from celery.platforms import detached
with detached(pidfile=sys.argv[1] + ".pid", workdir=os.path.dirname(sys.argv[1])):
    with open(sys.argv[1], "w") as out:
        out.write(f"{os.getcwd()} {os.getsid(0) != int(sys.argv[2])}")
"""


def test_descriptors_of_files(tmp_path: Path) -> None:
    path = tmp_path / "held"
    with path.open("w") as held:
        assert fd_by_path([str(path), str(tmp_path / "missing")]) == [held.fileno()]
    assert fd_by_path([str(path)]) == []


def test_the_background(tmp_path: Path) -> None:
    """What is inside runs in a session of its own; who started it goes on at once."""
    out = tmp_path / "out"
    os.mkfifo(out)
    session = str(os.getsid(0))
    subprocess.run([sys.executable, "-c", DAEMON, str(out), session], check=True, timeout=60)
    assert out.read_text() == f"{tmp_path} True"  # waits for the writer


def test_trying_out_the_background_stays_here(tmp_path: Path) -> None:
    here = Path.cwd()
    called = []
    try:
        with DaemonContext(workdir=str(tmp_path), fake=True, after_chdir=lambda: called.append(1)):
            assert Path.cwd() == tmp_path
    finally:
        os.chdir(here)
    assert called == [1]
    assert DaemonContext(umask="022").umask == 0o22
    assert DaemonContext(umask="18").umask == 18


def test_a_log_file_that_cannot_be_written_is_seen_at_once(tmp_path: Path) -> None:
    context = detached(logfile=str(tmp_path / "no" / "such.log"), fake=True)
    assert context.after_chdir is not None
    with pytest.raises(FileNotFoundError):
        context.after_chdir()


@pytest.mark.parametrize("accepted", [["pickle"], ["json", "application/x-python-serialize"]])
def test_root_may_not_unpickle(monkeypatch: pytest.MonkeyPatch, accepted: list[str]) -> None:
    for name in ("getuid", "geteuid", "getgid", "getegid"):
        monkeypatch.setattr(os, name, lambda: 0)
    monkeypatch.delenv("C_FORCE_ROOT", raising=False)
    with pytest.raises(SecurityError, match="uid=0"):
        check_privileges(accepted)
    with pytest.warns(SecurityWarning, match="better start it as another user"):
        check_privileges(["json"])
    monkeypatch.setenv("C_FORCE_ROOT", "1")
    with pytest.warns(SecurityWarning, match="better start it as another user"):
        check_privileges(accepted)


def test_others_may(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("getuid", "geteuid", "getgid", "getegid"):
        monkeypatch.setattr(os, name, lambda: 65534)
    check_privileges(["pickle"])


def test_titles_name_the_process() -> None:
    assert platforms.set_mp_process_title("celeryd", "-A proj", "a@b") == (
        "[celeryd: a@b:MainProcess] -A proj"
    )


def test_a_child_may_end_with_its_parent() -> None:
    code = (
        "from celery.platforms import set_pdeathsig; import ctypes; set_pdeathsig('TERM');"
        "got = ctypes.c_int(); ctypes.CDLL(None).prctl(2, ctypes.byref(got)); print(got.value)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert int(done.stdout) == signal.SIGTERM


def test_options_of_a_command_line() -> None:
    arguments = ["worker", "-P", "solo", "--app=proj"]
    assert _find_option_with_arg(arguments, ["-P"], ["--pool"]) == "solo"
    assert _find_option_with_arg(arguments, ["-A"], ["--app"]) == "proj"
    with pytest.raises(KeyError):
        _find_option_with_arg(arguments, ["-c"])
