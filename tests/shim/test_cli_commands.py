"""Commands of ``celery`` that need no worker: what they print and leave behind."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from celery import Celery, _state
from celery.bin.celery import celery

pytestmark = pytest.mark.integration

Run = Callable[..., Result]


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[Celery]:
    made = Celery("default", broker="memory://", set_as_current=False)
    made.task(lambda: None, name="proj.nothing")
    monkeypatch.setattr(_state, "default_app", made)
    monkeypatch.setattr(_state._tls, "current_app", None)
    yield made
    made.close()


@pytest.fixture
def run(app: Celery) -> Run:
    def running(*words: str, **given: Any) -> Result:
        return CliRunner().invoke(celery, ["-C", *words], catch_exceptions=False, **given)

    return running


def test_purge_asks_first(app: Celery, run: Run) -> None:
    app.send_task("some.task")
    asked = run("purge", input="n\n")
    assert asked.exit_code == 1
    assert "This will remove all tasks from queue: celery.\n" in asked.output
    done = run("purge", input="y\n")
    assert done.exit_code == 0
    assert done.output.endswith("Purged 1 message from 1 known task queue.\n")
    assert run("purge", "-f").output == "No messages purged from 1 queue.\n"


def test_purge_takes_the_queues_that_are_named(app: Celery, run: Run) -> None:
    app.send_task("some.task", queue="one")
    app.send_task("some.task", queue="two")
    assert run("purge", "-f", "-X", "celery,one,two").output == ""
    told = run("purge", "-f", "-Q", "one,two", "-X", "two").output
    assert told == "Purged 1 message from 1 known task queue.\n"
    assert run("purge", "-f", "-Q", "two").output == "Purged 1 message from 1 known task queue.\n"


def test_report(run: Run) -> None:
    told = run("report")
    assert told.exit_code == 0
    assert "kombu:" in told.output
    assert "memory" in told.output


LOG = """\
[2026-12-01 10:00:00,000: INFO/MainProcess] Connected to redis://
[2026-12-01 10:00:01,000: INFO/MainProcess] Task proj.add[aaa] received
[2026-12-01 10:00:01,100: INFO/ForkPoolWorker-1] Task proj.add[aaa] succeeded in 0.1s: 3
[2026-12-01 10:00:02,000: INFO/MainProcess] Task proj.boom[bbb] received
[2026-12-01 10:00:02,100: ERROR/ForkPoolWorker-1] Task proj.boom[bbb] raised unexpected: KeyError()
Traceback (most recent call last):
KeyError
[2026-12-01 10:00:03,000: INFO/MainProcess] Task proj.add[ccc] received
"""


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("errors", [LOG.splitlines()[4]]),
        ("traces", LOG.splitlines()[4:7]),
        ("incomplete", ["Did not complete: ccc"]),
        ("debug", [LOG.splitlines()[0]]),
    ],
)
def test_logtool(run: Run, what: str, told: list[str]) -> None:
    assert run("logtool", what, "-", input=LOG).output.splitlines() == told


def test_logtool_counts(run: Run, tmp_path: Path) -> None:
    (tmp_path / "w.log").write_text(LOG)
    told = run("logtool", "stats", str(tmp_path / "w.log")).output
    for line in ("Task total: 3", "Task errors: 1", "Task success: 1", "Task completed: 2"):
        assert f"{line}\n" in told
    assert "proj.add: 2\nproj.boom: 1\n" in told


SETTINGS = (
    b'BROKER_URL = "a"\r\nCELERY_ALWAYS_EAGER = True  # BROKER_URL\r\nX = "BROKER_URL \xc3\xa9"\r\n'
)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ((), (b"broker_url", b"task_always_eager")),
        (("--django",), (b"CELERY_BROKER_URL", b"CELERY_TASK_ALWAYS_EAGER")),
    ],
)
def test_upgrade_renames_settings(
    run: Run, tmp_path: Path, options: tuple[str, ...], names: tuple[bytes, bytes]
) -> None:
    path = tmp_path / "celeryconfig.py"
    path.write_bytes(SETTINGS)
    done = run("upgrade", "settings", str(path), *options)
    assert "Changes to your setting have been made!" in done.output
    assert path.read_bytes() == (
        names[0]
        + b' = "a"\r\n'
        + names[1]
        + b' = True  # BROKER_URL\r\nX = "BROKER_URL \xc3\xa9"\r\n'
    )
    assert path.with_name("celeryconfig.py.orig").read_bytes() == SETTINGS


def test_upgrade_leaves_what_is_new(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "new.py"
    path.write_text('broker_url = "x"\n')
    assert "Does not seem to require any changes" in run("upgrade", "settings", str(path)).output
    assert [each.name for each in tmp_path.iterdir()] == ["new.py"]
    path.write_text("x = (\n")
    done = run("upgrade", "settings", str(path))
    assert done.exit_code == 1
    assert "Error: cannot read " in done.output


def test_shell_has_the_app_and_its_tasks(
    app: Celery, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}
    shell = types.ModuleType("IPython")
    shell.start_ipython = lambda argv, user_ns: seen.update(user_ns)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", shell)

    @app.task
    def named() -> None: ...

    assert run("shell", "-I").exit_code == 0
    assert seen["app"] is seen["celery"] is app
    assert {"group", "chord", "Task", "named"} <= set(seen)
    seen.clear()
    run("shell", "--ipython", "-T")
    assert "named" not in seen
    monkeypatch.setitem(sys.modules, "IPython", None)
    refused = run("shell", "-I")
    assert refused.exit_code == 2
    assert "Error: ipython is not installed" in refused.output


def test_graph_of_steps(run: Run) -> None:
    told = run("graph", "bootsteps").output
    assert told.lstrip().startswith("digraph dependencies {")
    assert '"Pool"' in told
    assert told.rstrip().endswith("}")


def test_amqp(run: Run) -> None:
    told = run("amqp", "queue.declare", "q1").output.splitlines()
    assert told[1:] == ["-> connected.", "queue:q1 messages:0 consumers:0", "OK"]
    assert run("amqp", "basic.publish", "hi", "", "q1").output.endswith("OK\n")
    got = run("amqp", "basic.get", "q1", "1").output
    assert "hi" in got
    assert "No messages in queue" in run("amqp", "basic.get", "q1").output
    refused = run("amqp", "queue.declare", "nothere", "1")
    assert refused.exit_code == 69
    assert "Error: queue.declare: " in refused.output


def test_options_of_the_app_are_taken_by_every_command(app: Celery, run: Run) -> None:
    app.user_options["preload"].add(click.Option(["--own"]))
    try:
        assert run("report", "--own", "x").exit_code == 0
        assert run("purge", "-f", "--own", "x").exit_code == 0
    finally:
        for command in celery.commands.values():
            command.params[:] = [one for one in command.params if one.name != "own"]
