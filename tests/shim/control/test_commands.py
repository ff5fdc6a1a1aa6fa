"""``celery status``, ``inspect`` and ``control``: what is printed of a worker's answers, and the
exit code. The texts are those of Celery 5.7."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.shim.control.working import NAME
from tests.waiting import PATIENCE

from celery import _state
from celery.bin.celery import celery
from celery.platforms import EX_UNAVAILABLE

pytestmark = pytest.mark.integration

Run = Callable[..., Result]
NOBODY = "Error: No nodes replied within time constraint\n"


@pytest.fixture
def run(app: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command against the worker; the answer of one is enough."""
    monkeypatch.setattr(_state, "default_app", app)
    monkeypatch.setattr(_state._tls, "current_app", None)
    broadcast = app.control.broadcast
    monkeypatch.setattr(
        app.control, "broadcast", lambda *args, **given: broadcast(*args, **{**given, "limit": 1})
    )

    def running(*words: str) -> Result:
        return CliRunner().invoke(celery, ["-C", *words], catch_exceptions=False)

    return running


def asked(command: str) -> list[str]:
    return [command, "-d", NAME, "-t", str(PATIENCE)]


def test_status(run: Run) -> None:
    done = run(*asked("status"))
    assert (done.exit_code, done.output) == (0, f"->  {NAME}: OK\n\n1 node online.\n")
    done = run(*asked("status"), "--json")
    assert done.output == f'{{"{NAME}": {{"ok": "pong"}}}}\n\n1 node online.\n'


def test_inspect(run: Run) -> None:
    done = run(*asked("inspect"), "ping")
    assert (done.exit_code, done.output) == (0, f"->  {NAME}: OK\n        pong\n\n1 node online.\n")
    assert run(*asked("inspect"), "active").output.splitlines()[1] == "    - empty -"
    assert "\n    * hold" in run(*asked("inspect"), "registered").output
    assert run("-q", *asked("inspect"), "ping").output == f" {NAME}: OK\n        pong\n"
    told = run(*asked("inspect"), "stats", "--json").output
    assert json.loads(told)[NAME]["pool"]["max-concurrency"] >= 1


def test_control(run: Run) -> None:
    done = run(*asked("control"), "heartbeat")
    assert done.exit_code == 0
    assert done.output.startswith(f"->  {NAME}: OK\n")
    revoked = run(*asked("control"), "revoke", "one", "two", "--json")
    assert json.loads(revoked.output)[0][NAME]["ok"].endswith(" flagged as revoked")
    short = run(*asked("control"), "rate_limit", "only-the-name")
    assert (short.exit_code, short.output.splitlines()[0]) == (0, f"->  {NAME}: ERROR")


@pytest.mark.parametrize("words", [["status"], ["inspect", "ping"], ["control", "heartbeat"]])
def test_nobody_answers(run: Run, words: list[str]) -> None:
    done = run(words[0], "-d", "other@box", "-t", "0.1", *words[1:])
    assert (done.exit_code, done.output) == (EX_UNAVAILABLE, NOBODY)


@pytest.mark.parametrize("kind", ["inspect", "control"])
def test_what_is_no_command(run: Run, kind: str) -> None:
    other = {"inspect": "shutdown", "control": "ping"}[kind]
    for command in ("nope", other):
        done = run(kind, command)
        assert done.exit_code == 2
        assert (
            f"Error: Command {command} not recognized. Available {kind} commands: " in done.output
        )
    assert "Error: Missing argument 'COMMAND'." in run(kind).output


def test_arguments_that_do_not_fit(run: Run) -> None:
    done = run("control", "pool_grow", "1", "2", "3")
    assert done.exit_code == 2
    assert "Error: Command 'pool_grow' takes arguments: [N=1]" in done.output
    done = run("control", "pool_grow", "x")
    assert done.exit_code == 2
    assert "Error: Command 'pool_grow': n: invalid literal for int()" in done.output


def test_lists(run: Run) -> None:
    told = run("inspect", "--list")
    assert told.exit_code == 0
    assert told.output.startswith("Inspect Commands:\n  active ")
    assert "\n  hello" not in told.output
    assert "\n  shutdown " in run("control", "--list").output
