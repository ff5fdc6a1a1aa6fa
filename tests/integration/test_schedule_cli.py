"""``taskmq schedule`` against a real store, in this process: what it prints and how it ends."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from taskmq import App
from taskmq.cli.main import main
from taskmq.control import whoami
from taskmq.envelope import load
from taskmq.records import JobFilter
from taskmq.scheduler import SCHEDULE, Scheduler

TASKS = """
from taskmq import App, Config
from taskmq.schedule import cron

app = App(Config(transport="sqlite:///jobs.db"))

@app.task(queue="email")
def send(to: str = "all", times: int = 1) -> str:
    return to

options = {"name": "nightly", "kwargs": {"to": "x"}}
app.schedule(cron("tasks.send", "30 2 * * *", tz="Europe/Paris", **options))
"""


@dataclass
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Runs a command in a directory with the tasks above, whose program has started once."""
    (tmp_path / "tasks.py").write_text(TASKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("TASKMQ_APP", "tasks")

    def once(*argv: str) -> Ran:
        code = main(argv)
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    assert once("schedule", "list").code == 0
    Scheduler(the_app(), program="tasks:app").run_once()
    yield once
    sys.modules.pop("tasks").app.close()


def the_app() -> App:
    app = sys.modules["tasks"].app
    assert isinstance(app, App)
    return app


def test_list_says_when_and_why_not(run: Run) -> None:
    ran = run("schedule", "list")
    header, line = ran.out.splitlines()
    assert header.split() == ["NAME", "TASK", "WHEN", "NEXT", "LAST", "STATE"]
    assert " ".join(line.split()[:8]) == "nightly tasks.send 30 2 * * * (Europe/Paris)"
    assert " 02:30:00 CE" in line
    run("schedule", "pause", "nightly")
    run("schedule", "add", "past", "tasks.send", "--every", "9", "--end", "2020-01-01T00:00:00Z")
    run("schedule", "add", "late", "tasks.send", "--at", "-60")
    states = {line.split()[0]: line for line in run("schedule", "list").out.splitlines()}
    assert f"paused by {whoami()} " in states["nightly"]
    assert states["past"].endswith("over")
    assert "OVERDUE for 6" in states["late"]
    assert "is there a scheduler?" in states["overdue:"]


def test_json_has_everything(run: Run) -> None:
    run("schedule", "run", "nightly")
    (document,) = run("schedule", "list", "--json").json
    assert document == run("schedule", "show", "nightly", "--json").json
    assert document["rule"] == {"type": "cron", "expression": "30 2 * * *", "tz": "Europe/Paris"}
    assert (document["name"], document["task"]) == ("nightly", "tasks.send")
    assert (document["origin"], document["program"]) == ("code", "tasks:app")
    assert document["kwargs"] == {"to": "x"}
    assert document["next_run"].endswith((":30:00+01:00", ":30:00+02:00"))
    assert len(document["runs"]) == 1


def test_show(run: Run) -> None:
    job_id = run("schedule", "run", "nightly").out.strip()
    out = run("schedule", "show", "nightly").out
    assert job_id in out
    assert "defined by tasks:app" in out
    assert "queue    email" in out


def test_add_stores_all_that_was_said(run: Run) -> None:
    ran = run(
        *("schedule", "add", "x", "tasks.send", "--cron", "0 9 * * mon", "--tz", "Asia/Tokyo"),
        *("--args", '["a"]', "--kwargs", '{"times": 2}', "-q", "slow", "--priority", "3"),
        *("--options", '{"timeout": 5}', "--jitter", "30", "--misfire", "skip", "--grace", "9"),
        *("--overlap", "queue_one", "--most", "7", "--start", "2020-01-01T00:00:00Z"),
        *("--end", "2099-01-01T00:00:00+01:00"),
    )
    assert (ran.code, ran.err) == (0, "")
    assert "next run" in ran.out
    document = run("schedule", "show", "x", "--json").json
    assert document["options"] == {"timeout": 5, "queue": "slow", "priority": 3}
    assert (document["args"], document["kwargs"]) == (["a"], {"times": 2})
    assert [document[name] for name in ("jitter", "misfire", "grace", "overlap", "most")] == [
        30,
        "skip",
        9,
        "queue_one",
        7,
    ]
    assert (document["by"], document["origin"]) == (whoami(), "added")
    job_id = run("schedule", "run", "x").out.strip()
    (job,) = the_app().transport.get([job_id])
    assert job is not None
    envelope = load(job.envelope)
    assert (envelope.queue, envelope.priority, envelope.timeout) == ("slow", 3, 5)
    assert envelope.headers[SCHEDULE] == "x"


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("show", "nihgtly"), 6, "no schedule 'nihgtly'; did you mean 'nightly'?"),
        (("run", "none"), 6, "no schedule 'none'"),
        (("pause", "none"), 6, "no schedule 'none'"),
        (("resume", "nightly"), 1, "'nightly' is not paused"),
        (("remove", "nightly"), 2, "defined by tasks:app: change it there, or pause it"),
        (("add", "nightly", "tasks.send", "--every", "9"), 2, "defined by tasks:app"),
        (("add", "x", "tasks.sned", "--every", "9"), 6, "did you mean 'tasks.send'"),
        (("add", "x", "tasks.send", "--every", "0"), 2, "must be"),
        (("add", "x", "tasks.send", "--at", "noon"), 2, "--at wants seconds or an instant"),
        (("add", "x", "tasks.send", "--every", "9", "--tz", "UTC"), 2, "--tz goes with --cron"),
        (("add", "x", "tasks.send", "--cron", "* * *"), 2, "wants 5 fields"),
        (("add", "x", "tasks.send", "--cron", "@daily", "--tz", "Mars"), 2, "'Mars' is not known"),
        (("add", "x", "tasks.send", "--every", "9", "--args", "{}"), 2, "--args must look like"),
        (("add", "x", "tasks.send", "--every", "9", "--kwargs", '{"no": 1}'), 2, "do not fit"),
        (("next",), 2, "which schedule?"),
        (("next", "nightly", "--cron", "@daily"), 2, "not both"),
        (("next", "--cron", "0 0 30 2 *"), 2, "there is no such date"),
    ],
)
def test_errors_are_one_line(run: Run, arguments: tuple[str, ...], code: int, text: str) -> None:
    ran = run("schedule", *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
    assert ran.err.startswith("taskmq: error: ")
    assert text in ran.err


def test_errors_of_usage_are_one_line(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ("add", "x", "tasks.send"),
        ("add", "x", "tasks.send", "--every", "9", "--at", "9"),
        ("add", "x", "tasks.send", "--every", "9", "--overlap", "never"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["schedule", *arguments])
        assert ended.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_replace_and_remove(run: Run) -> None:
    run("schedule", "add", "x", "tasks.send", "--every", "60")
    again = run("schedule", "add", "x", "tasks.send", "--every", "90")
    assert again.code == 2
    assert "there is a schedule 'x' already" in again.err
    assert run("schedule", "add", "x", "tasks.send", "--every", "90", "--replace").code == 0
    assert run("schedule", "show", "x", "--json").json["rule"]["seconds"] == 90
    assert run("schedule", "remove", "x").out == "schedule 'x' is taken out\n"
    assert run("schedule", "remove", "x").code == 6


def test_pause_tells_who_was_first(run: Run) -> None:
    run("schedule", "add", "x", "tasks.send", "--every", "60")
    assert run("schedule", "pause", "nightly", "x").out.count("is paused") == 2
    assert f"was paused by {whoami()} " in run("schedule", "pause", "x").out
    assert run("schedule", "resume", "nightly", "x").out.count("goes on") == 2


def test_next_of_an_expression_needs_no_store(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TASKMQ_APP")
    ran = run("schedule", "next", "--cron", "30 2 * * *", "--tz", "Europe/Paris", "-n", "3")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert len(lines) == 3
    assert all(" 02:30:00 CE" in line or " 03:00:00 CEST" in line for line in lines)


def test_next_of_a_schedule(run: Run) -> None:
    assert len(run("schedule", "next", "nightly", "-n", "3").out.splitlines()) == 3
    run("schedule", "add", "past", "tasks.send", "--at", "-60")
    assert run("schedule", "next", "past").out == "never\n"
    assert run("schedule", "next", "nightly", "-n", "2", "--json").json[0].count(":") >= 2


def test_a_store_without_an_app_is_enough_to_look_and_to_run(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TASKMQ_APP")
    store = ("--transport", "sqlite:///jobs.db")
    assert "nightly" in run("schedule", "list", *store).out
    job_id = run("schedule", "run", "nightly", *store).out.strip()
    jobs = the_app().transport.find(JobFilter(queue="email"))
    assert [job.id for job in jobs] == [job_id]
    command = [sys.executable, "-m", "taskmq", "beat", "--once", *store]  # it sets up logging
    assert subprocess.run(command, capture_output=True).returncode == 0
