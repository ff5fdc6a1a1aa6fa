"""Each command against a real store, in this process: what it prints and how it ends."""

import io
import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from taskmq import App
from taskmq.cli.main import main
from taskmq.control import whoami
from taskmq.envelope import Dependency
from taskmq.records import WorkerRecord
from taskmq.transport import Reservation
from taskmq.worker import Worker

TASKS = """
from taskmq import App, Config, Retry, current_task
from taskmq.errors import RejectJob, ReleaseJob

app = App(Config(transport="sqlite:///jobs.db", max_message_bytes=5000))

@app.task
def add(x: int, y: int = 0) -> int:
    return x + y

@app.task(queue="email")
def fail(why: str = "no") -> None:
    raise ValueError(why)

@app.task(retry=Retry(max_attempts=3, base=40, jitter=False))
def again() -> None:
    raise OSError("busy")

@app.task
def nothing() -> None: ...

@app.task
def reject() -> None:
    raise RejectJob("spam")

@app.task
def release() -> None:
    raise ReleaseJob(delay=5)
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
    """Runs a command in a directory with the tasks above."""
    (tmp_path / "tasks.py").write_text(TASKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("TASKMQ_APP", "tasks:app")

    def once(*argv: str) -> Ran:
        code = main(argv)
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    yield once
    if "tasks" in sys.modules:
        sys.modules.pop("tasks").app.close()


def the_app() -> App:
    app = sys.modules["tasks"].app
    assert isinstance(app, App)
    return app


def work() -> None:
    Worker(the_app(), queues=["default", "email"]).run_until_idle(10)


def submitted(run: Run, *argv: str) -> str:
    ran = run("call", *argv)
    assert (ran.code, ran.err) == (0, "")
    return ran.out.strip()


# -- call ----------------------------------------------------------------------------------------


def test_call_prints_the_id_alone(run: Run) -> None:
    job_id = submitted(run, "tasks.add", "--args", "[2, 3]")
    assert len(job_id) == 26
    assert the_app().result(job_id).state == "QUEUED"


def test_call_takes_every_option(run: Run) -> None:
    job_id = submitted(
        run,
        *("tasks.add", "--kwargs", '{"x": 1}', "--queue", "other", "--eta", "60"),
        *("--expires", "2030-01-31T09:00:00Z", "--priority", "-3", "--key", "order-42"),
    )
    document = run("inspect", job_id, "--json").json["job"]
    assert (document["queue"], document["priority"]) == ("other", -3)
    assert document["expires_at"] == 1_896_080_400.0
    assert document["envelope"]["key"] == "order-42"
    assert document["visible_at"] - document["enqueued_at"] == pytest.approx(60, abs=5)
    ran = run("call", "tasks.add", "--kwargs", '{"x": 1}', "--key", "order-42")
    assert (ran.code, ran.out.strip()) == (0, job_id)
    assert "has that key already; nothing new was stored" in ran.err


def test_call_waits_and_prints_the_result(run: Run, run_worker: Callable[..., Any]) -> None:
    submitted(run, "tasks.nothing")
    run_worker(the_app(), queues=["default", "email"])
    ran = run("call", "tasks.add", "--args", "[2, 3]", "--wait")
    assert (ran.code, ran.out) == (0, "5\n")
    assert run("call", "tasks.nothing", "--timeout", "10").out == "null\n"
    ran = run("call", "tasks.fail", "--args", '["broken\\nline"]', "--wait")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.endswith("taskmq: error: builtins.ValueError: broken line\n")


def test_call_that_waits_in_vain_says_why(run: Run) -> None:
    ran = run("call", "tasks.add", "--args", "[1]", "--timeout", "0")
    assert ran.code == 7
    assert ran.err.endswith("is QUEUED after 0 s: no worker is running\n")


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["tasks.ad"], 6, "no task 'tasks.ad'; did you mean 'tasks.add'? (the app has: tasks.add,"),
        (
            ["tasks.add"],
            2,
            "the arguments do not fit: tasks.add(x: int, y: int = 0) -> int: missing",
        ),
        (["tasks.add", "--args", "{}"], 2, '--args must look like [1, "a"], got'),
        (
            ["tasks.add", "--args", "[1]", "--priority", "10"],
            2,
            "priority must be between -9 and 9",
        ),
        (["tasks.add", "--args", "[1]", "--eta", "soon"], 2, "--eta wants seconds or an instant"),
        (["tasks.add", "--args", "[1]", "--queue", " "], 2, "queue must be a name"),
        (["tasks.add", "--args", f'["{"x" * 6000}"]'], 8, "over the limit of 5,000"),
    ],
)
def test_call_refuses_in_one_line(run: Run, argv: list[str], code: int, message: str) -> None:
    ran = run("call", *argv)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith("taskmq: error: ")
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_call_with_a_key_of_another_job_is_refused(run: Run) -> None:
    submitted(run, "tasks.add", "--args", "[1]", "--key", "k")
    assert run("call", "tasks.add", "--args", "[2]", "--key", "k").code == 8


@pytest.mark.parametrize(
    ("argv", "code", "out", "err"),
    [
        (["tasks.add", "--args", "[2, 3]"], 0, "5\n", ""),
        (["tasks.nothing"], 0, "null\n", ""),
        (["tasks.fail"], 1, "", "it failed; a worker would make it a dead letter (error)"),
        (["tasks.again"], 1, "", "attempt 1 failed; a worker would try again in 40.0 s"),
        (["tasks.reject"], 1, "", "a worker would make it a dead letter (spam)"),
        (["tasks.release"], 1, "", "it gave itself back for 5.0 s"),
    ],
)
def test_call_local_runs_it_here_and_stores_nothing(
    run: Run, argv: list[str], code: int, out: str, err: str
) -> None:
    ran = run("call", *argv, "--local")
    assert (ran.code, ran.out) == (code, out)
    assert err in ran.err
    assert the_app().transport.stats() == []


def test_call_local_shows_the_traceback_of_the_task(run: Run) -> None:
    err = run("call", "tasks.fail", "--local").err
    assert err.startswith("Traceback (most recent call last):\n")
    assert "raise ValueError(why)" in err


# -- status --------------------------------------------------------------------------------------


def register(name: str, **fields: Any) -> None:
    now = the_app().clock.now()
    record = {
        "queues": ("default",),
        "pool": "threads",
        "concurrency": 4,
        "started_at": now,
        "heartbeat_at": now,
        "heartbeat_interval": 10.0,
        **fields,
    }
    the_app().transport.register(WorkerRecord(id=name, **record))


def test_status_of_an_empty_store(run: Run) -> None:
    ran = run("status")
    assert ran.code == 0
    assert "Store  sqlite:///jobs.db\n  durable, shared by processes\n" in ran.out
    assert "limitation" in ran.out
    assert "Workers  0 live\n  none\n" in ran.out
    assert "Queues\n  none\n" in ran.out
    assert "\x1b" not in ran.out


def test_status_shows_workers_queues_and_priorities(run: Run) -> None:
    submitted(run, "tasks.add", "--args", "[1]")
    submitted(run, "tasks.add", "--args", "[1]", "--priority", "5")
    submitted(run, "tasks.add", "--args", "[1]", "--eta", "60", "--queue", "later")
    register("w1", running=3, processed=1200)
    register("w2", heartbeat_at=the_app().clock.now() - 300)
    out = run("status", "--by-priority").out
    assert "Workers  1 live, 1 stale" in out
    lines = [line.split() for line in out.splitlines()]
    assert next(x for x in lines if "w1" in x)[:5] == ["w1", "default", "threads", "3/4", "1200"]
    assert next(x for x in lines if "w2" in x)[-1] == "STALE"
    assert ["later", "0", "1", "0", "0", "0", "0"] in lines
    assert ["default", "5", "1"] in lines
    assert ["default", "0", "1"] in lines


def test_status_tells_what_is_parked_and_why(run: Run) -> None:
    submitted(run, "tasks.nothing")
    other = App(the_app().config)
    stranger = other.task(name="stranger.task")(print)
    handles = [stranger.delay() for _ in range(3)]
    work()
    out = run("status").out
    assert "Parked until a worker can run them" in out
    assert "  unknown_task  stranger.task  default     3\n" in out
    assert f"more about the first: taskmq inspect {handles[0].id}" in out
    assert run("status", "--json").json["parked"] == [
        {"reason": "unknown_task", "task": "stranger.task", "queue": "default", "jobs": 3}
    ]
    other.close()


def test_status_as_json(run: Run) -> None:
    submitted(run, "tasks.add", "--args", "[1]", "--priority", "2")
    register("w1")
    document = run("status", "--json").json
    assert document["store"]["durable"] is True
    assert document["workers"][0]["id"] == "w1"
    assert document["workers"][0]["stale"] is False
    (queue,) = document["queues"]
    assert (queue["queue"], queue["ready"], queue["ready_by_priority"]) == ("default", 1, {"2": 1})


def test_status_counts_held_jobs_and_inspect_says_what_holds_one(run: Run) -> None:
    run("status")  # which imports the app
    app = the_app()

    @app.task(name="limited", concurrency_key="user:{user}", concurrency_limit=3)
    def limited(user: int) -> None: ...

    jobs = limited.submit_many([(7,) for _ in range(5)])
    wanted = Reservation(queues={"default": 1}, worker="w", lease=60.0, limit=9)
    assert len(app.transport.reserve(wanted)) == 3
    lines = [line.split() for line in run("status").out.splitlines()]
    assert ["NAME", "READY", "DELAYED", "PARKED", "HELD", "WAITING", "RUNNING"] in [
        line[:7] for line in lines
    ]
    assert ["default", "0", "0", "0", "2", "0", "3", "0"] in lines
    assert "held: 3 of 3 running for key user:7" in run("inspect", jobs[4].id).out
    app.close()


def test_status_of_a_store_without_an_app(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted(run, "tasks.add", "--args", "[1]")
    monkeypatch.delenv("TASKMQ_APP")
    assert "default      1" in run("status", "--transport", "sqlite:///jobs.db").out
    monkeypatch.setenv("TASKMQ_TRANSPORT", "sqlite:///jobs.db")
    assert "default      1" in run("status").out
    assert "this process" in run("status", "--transport", "memory://").out


# -- inspect -------------------------------------------------------------------------------------


def test_inspect_a_waiting_job(run: Run) -> None:
    job_id = submitted(run, "tasks.add", "--args", "[1, 2]", "--eta", "3600", "--priority", "4")
    out = run("inspect", job_id).out
    assert out.startswith(f"{job_id}  tasks.add\n")
    assert "  queue       default, priority 4\n" in out
    assert "  args        [1,2]\n" in out
    assert "How it stands\n  it is delayed for another 60 min\n  no worker is running\n" in out


def test_inspect_a_job_whose_bytes_are_damaged(run: Run) -> None:
    job_id = submitted(run, "tasks.add", "--args", "[1]")
    the_app().close()
    with sqlite3.connect("jobs.db") as connection:
        connection.execute("UPDATE jobs SET envelope = ?", (b"garbage",))
    connection.close()
    work()
    out = run("dlq", "show", job_id).out
    assert "  dead        malformed\n" in out
    assert "raw bytes   b'garbage'" in out
    assert run("inspect", job_id, "--json").json["job"]["envelope"] == "garbage"


def test_inspect_a_finished_job(run: Run) -> None:
    job_id = submitted(run, "tasks.add", "--args", "[1, 2]")
    work()
    out = run("inspect", job_id).out
    assert "  result      3\n" in out
    assert "How it ended\n  it succeeded 0." in out


def test_inspect_a_job_that_waits_for_another(run: Run) -> None:
    first = submitted(run, "tasks.add", "--args", "[1]", "--eta", "60")
    app = the_app()
    call = app.tasks["tasks.add"].call(5)
    second = app.submit(type(call)(call.task, call.args, after=(Dependency(first, 0),)))
    out = run("inspect", second.id).out
    assert "it waits for 1 of the jobs that it depends on" in out
    assert f"{first} (tasks.add) is QUEUED" in out


def test_inspect_as_json_has_stable_codes(run: Run) -> None:
    job_id = submitted(run, "tasks.add", "--args", "[1]")
    document = run("inspect", job_id, "--json").json
    assert [finding["code"] for finding in document["findings"]] == ["no_worker"]
    assert document["job"]["envelope"]["args"] == [1]
    assert document["job"]["state"] == "QUEUED"


def test_inspect_an_unknown_job(run: Run) -> None:
    ran = run("inspect", "NOBODY")
    assert (ran.code, ran.out) == (6, "")
    assert ran.err.startswith("taskmq: error: no job NOBODY: the store knows no such job")


# -- dead letters --------------------------------------------------------------------------------


def dead(run: Run, *whys: str) -> list[str]:
    ids = [submitted(run, "tasks.fail", "--args", json.dumps([why])) for why in whys]
    work()
    return ids


def test_dlq_list(run: Run) -> None:
    assert run("dlq", "list").out == "  none\n"
    first, second = dead(run, "one", "two " * 50)
    lines = run("dlq", "list", "--queue", "email").out.splitlines()
    assert lines[0].split() == ["ID", "TASK", "QUEUE", "REASON", "DIED", "ERROR"]
    assert lines[1].split()[:4] == [first, "tasks.fail", "email", "error"]
    assert lines[1].endswith("builtins.ValueError: one")
    assert lines[2].endswith("…")
    assert run("dlq", "list", "--queue", "other").out == "  none\n"
    assert run("dlq", "list", "--limit", "1").out.endswith("(the first 1; --limit shows more)\n")
    assert [each["id"] for each in run("dlq", "list", "--json").json] == [first, second]


def test_dlq_show(run: Run) -> None:
    (job_id,) = dead(run, "one")
    out = run("dlq", "show", job_id).out
    assert '  args        ["one"]\n' in out
    assert "  dead        error\n" in out
    assert "Last traceback\n  Traceback (most recent call last):" in out
    assert "  dead         1  " in out  # the history
    assert run("dlq", "show", job_id, "--json").json["dead_reason"] == "error"
    assert run("dlq", "show", "NOBODY").code == 6


def test_dlq_replay_one_by_one(run: Run) -> None:
    first, second = dead(run, "one", "two")
    ran = run("dlq", "replay", first, second, "--queue", "other")
    assert ran.out == f"{first} queued again\n{second} queued again\n"
    assert run("inspect", first, "--json").json["job"]["queue"] == "other"
    ran = run("dlq", "replay", first)
    assert (ran.code, ran.err) == (6, f"taskmq: error: no dead letter {first}\n")


def test_dlq_replay_with_new_arguments(run: Run) -> None:
    (job_id,) = dead(run, "one")
    run("dlq", "replay", job_id, "--args", "[]", "--kwargs", '{"why": "three"}')
    envelope = run("inspect", job_id, "--json").json["job"]["envelope"]
    assert (envelope["args"], envelope["kwargs"]) == ([], {"why": "three"})


def test_dlq_replay_all_that_match(run: Run) -> None:
    dead(run, "one", "two")
    assert run("dlq", "replay", "--all", "--queue", "other").out == "0 jobs queued again\n"
    assert run("dlq", "replay", "--all", "--task", "tasks.fail").out == "2 jobs queued again\n"
    assert run("dlq", "list").out == "  none\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["replay"], "name the dead letters to replay, or pass --all"),
        (["replay", "J1", "--all"], "name the dead letters to replay, or pass --all"),
        (["replay", "--all", "--args", "[1]"], "change one dead letter: name it"),
        (["replay", "J1", "J2", "--args", "[1]"], "change one dead letter: name only that"),
        (["replay", "J1", "--task", "t"], "--task selects among all"),
        (["replay", "J1", "--args", "{}"], "--args must look like"),
        (["purge"], "which dead letters? pass --queue, --task or --all"),
        (["purge", "--all", "--queue", "q"], "--all takes no --queue or --task"),
        (["purge", "--all"], "this deletes jobs for good: pass --yes"),
    ],
)
def test_dlq_refuses_what_is_not_clear(
    run: Run, argv: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    ran = run("dlq", *argv)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_dlq_purge(run: Run) -> None:
    dead(run, "one", "two")
    assert run("dlq", "purge", "--queue", "other", "--yes").out == "0 dead letters deleted\n"
    assert run("dlq", "purge", "--task", "tasks.fail", "--yes").out == "2 dead letters deleted\n"


# -- purge ---------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("answer", "code", "left"),
    [("y\n", 0, 0), ("YES\n", 0, 0), ("n\n", 1, 2), ("\n", 1, 2), ("", 1, 2)],
)
def test_purge_asks_at_a_terminal(
    run: Run, answer: str, code: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(run, "tasks.add", "--args", "[1]")
    submitted(run, "tasks.add", "--args", "[1]", "--eta", "60")
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    ran = run("purge", "--queue", "default")
    assert ran.code == code
    assert "Delete 2 waiting jobs of queue 'default'? [y/N] " in ran.err
    assert sum(each.ready + each.delayed for each in the_app().transport.stats()) == left
    assert ran.out == ("2 jobs deleted\n" if code == 0 else "")


def test_purge_of_a_queue_that_is_not_there(run: Run) -> None:
    assert run("purge", "--queue", "nowhere", "--yes").out == "0 jobs deleted\n"


# -- what all commands share ---------------------------------------------------------------------


def test_a_misspelt_variable_is_told_before_anything_is_done(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKMQ_CONCURENCY", "8")
    ran = run("status")
    assert ran.code == 2
    assert "TASKMQ_CONCURENCY sets nothing; did you mean 'TASKMQ_CONCURRENCY'?" in ran.err


@pytest.mark.parametrize("how", ["option", "variable"])
def test_a_traceback_is_shown_on_request(
    run: Run, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "variable":
        monkeypatch.setenv("TASKMQ_DEBUG", "1")
    ran = run("inspect", "NOBODY", *(["--traceback"] if how == "option" else []))
    assert ran.code == 6
    assert ran.err.startswith("Traceback (most recent call last):")
    assert ran.err.splitlines()[-1].startswith("taskmq: error: no job NOBODY")


def test_an_unexpected_error_is_one_line_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted(run, "tasks.nothing")
    monkeypatch.setattr(the_app(), "_transport", object())
    ran = run("status")
    assert ran.code == 70
    assert ran.err.startswith("taskmq: error: unexpected AttributeError: ")
    monkeypatch.setattr(the_app(), "_transport", None)


# -- pause, resume, revoke -----------------------------------------------------------------------


def test_a_paused_queue_is_told_everywhere(run: Run) -> None:
    job_id = submitted(run, "tasks.fail")
    ran = run("pause", "email", "--reason", "the provider is down")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "queue 'email' is paused; to go on: taskmq resume email\n"
    work()
    status = run("status")
    assert "Paused queues" in status.out
    assert "the provider is down" in status.out
    (paused,) = run("status", "--json").json["paused"]
    assert (paused["queue"], paused["reason"]) == ("email", "the provider is down")
    findings = run("inspect", job_id, "--json").json["findings"]
    assert findings[0]["code"] == "paused"
    assert f"was paused by {paused['by']}" in run("pause", "email").out
    assert run("resume", "email").out == "queue 'email' goes on\n"
    assert "Paused" not in run("status").out


def test_pausing_a_queue_that_nothing_names_says_so(run: Run) -> None:
    ran = run("pause", "emial")
    assert (ran.code, ran.err) == (
        0,
        "taskmq: warning: no job, worker or task names that queue yet; did you mean 'email'?\n",
    )
    ran = run("resume", "email")
    assert (ran.code, ran.out) == (1, "")
    assert "queue 'email' is not paused (paused are: emial)" in ran.err


def test_revoke_by_id(run: Run) -> None:
    job_id = submitted(run, "tasks.add", "--args", "[1]")
    assert (ran := run("revoke", job_id)).code == 0
    assert ran.out == f"{job_id} revoked\n"
    assert the_app().result(job_id).state == "REVOKED"
    ran = run("revoke", job_id, "NOBODY", "--terminate")
    assert (ran.code, ran.out.count("is finished or unknown")) == (1, 2)


def test_revoke_by_what_jobs_are(run: Run) -> None:
    for number in range(3):
        submitted(run, "tasks.add", "--args", f"[{number}]", "--key", f"k{number}")
    submitted(run, "tasks.nothing", "--queue", "other")
    assert run("revoke", "--key", "k0", "--yes").out == "1 job revoked\n"
    assert run("revoke", "--task", "tasks.add", "--queue", "other", "--yes").out == (
        "0 jobs revoked\n"
    )
    assert run("revoke", "--task", "tasks.add", "--yes").out == "2 jobs revoked\n"
    assert run("revoke", "--queue", "other", "--yes").out == "1 job revoked\n"
    assert run("revoke", "--workflow", "w", "--yes").out == "0 jobs revoked\n"


def test_what_was_revoked_is_listed_with_who_and_when(run: Run) -> None:
    first = submitted(run, "tasks.add", "--args", "[1]", "--key", "k")
    second = submitted(run, "tasks.add", "--args", "[2]")
    third = submitted(run, "tasks.nothing", "--queue", "other")
    assert run("revoked").out == "  none\n"
    run("revoke", first)
    the_app().result(second).revoke(by="alice")
    the_app().revoke(queue="other", by="bob")
    lines = run("revoked").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [first, second, third]
    assert whoami() in lines[1]
    assert all(line.endswith(" ago") for line in lines[1:])
    assert run("revoked", "--limit", "1").out.endswith("(the first 1; --limit shows more)\n")
    for selection, jobs in (
        (("--task", "tasks.add"), [first, second]),
        (("--queue", "other"), [third]),
        (("--key", "k"), [first]),
        (("--workflow", "w"), []),
    ):
        assert [job["id"] for job in run("revoked", *selection, "--json").json] == jobs
    told = run("inspect", second).out
    assert "by alice, " in told
    assert "it was revoked by alice" in told


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "name the jobs, or pass --task, --queue, --key or --workflow"),
        (["J1", "--task", "t"], "name the jobs, or pass --task"),
        (["--task", "t"], "this takes jobs out for good: pass --yes"),
    ],
)
def test_revoke_refuses_what_is_not_clear(
    run: Run, argv: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    ran = run("revoke", *argv)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1
