"""The programs for people: one runs a server, one installs what is missing."""

import signal
import subprocess
import sys
from pathlib import Path

import install_servers as servers
import pytest
from tests.services import find_program

TOP = Path(__file__).parents[2]
# Knows its package only after an update, as in a fresh container.
APT_GET = """#!/bin/sh
echo "$@" >>"{folder}/calls"
case "$*" in
*update) touch "{folder}/updated" ;;
*) test -e "{folder}/updated" || {{ echo "E: Unable to locate package" >&2; exit 100; }} ;;
esac
"""


def test_runs_a_server_until_it_is_interrupted() -> None:
    program = find_program("redis-cli")
    command = [sys.executable, "-m", "tests.services", "redis", "--option", "maxmemory=9mb"]
    with subprocess.Popen(command, cwd=TOP, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        url = running.stdout.readline().strip()
        asked = [str(program), "-u", url, "CONFIG", "GET", "maxmemory"]
        answer = subprocess.run(asked, capture_output=True, text=True, check=True)
        assert answer.stdout.split() == ["maxmemory", "9437184"]
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 0
    gone = subprocess.run([program, "-u", url, "PING"], capture_output=True, check=False)
    assert b"refused" in gone.stderr


def test_says_why_a_server_does_not_start() -> None:
    command = [sys.executable, "-m", "tests.services", "redis", "--option", "nonsense=1"]
    run = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "Bad directive" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.fixture
def missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    packages = {"here": "sh", "not-here": "no-such-program"}
    monkeypatch.setattr(servers, "PACKAGES", packages)
    monkeypatch.delenv("CI", raising=False)


@pytest.mark.usefixtures("missing_package")
def test_without_root_one_line_names_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert servers.main([]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("servers: not installed: not-here (")
    monkeypatch.setenv("CI", "true")
    assert servers.main([]) == 1


@pytest.mark.usefixtures("missing_package")
def test_root_installs_and_updates_the_lists_when_they_do_not_know_a_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program = tmp_path / "apt-get"
    program.write_text(APT_GET.format(folder=tmp_path))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(servers, "POLICY", tmp_path / "policy")
    assert servers.main([]) == 0
    assert capsys.readouterr().out == "servers: installing not-here\n"
    calls = [line.split() for line in (tmp_path / "calls").read_text().splitlines()]
    assert [call[4:] for call in calls] == [
        ["install", "--no-install-recommends", "not-here"],
        ["update"],
        ["install", "--no-install-recommends", "not-here"],
    ]
    assert not (tmp_path / "policy").exists()


def test_says_nothing_when_nothing_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(servers, "PACKAGES", {"here": "sh"})
    assert servers.main([]) == 0
    assert capsys.readouterr().out == ""
