"""``python -m taskmq`` as people run it: processes, signals, pipes, and stores that are broken."""

import ctypes
import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE, wait_for

TASKMQ = [sys.executable, "-m", "taskmq"]

TASKS = """
import time
from pathlib import Path
from taskmq import App, Config

app = App(Config(transport="sqlite:///jobs.db?busy_timeout=0.2", lease=30))

@app.task
def add(x: int, y: int) -> int:
    return x + y

@app.task(queue="email")
def send(to: str) -> None:
    if not to:
        raise ValueError("to nobody")

@app.task
def slow(seconds: float) -> None:
    Path("started").touch()
    time.sleep(seconds)
"""

Ran = subprocess.CompletedProcess[str]


class Project:
    """A directory with an app in it, and the commands run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "jobs.db"
        (folder / "tasks.py").write_text(TASKS)
        self.environ = {**os.environ, "TASKMQ_APP": "tasks:app"}
        self.processes: list[subprocess.Popen[str]] = []

    def run(self, *arguments: str, **options: Any) -> Ran:
        return subprocess.run(
            [*TASKMQ, *arguments],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            **options,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*TASKMQ, *arguments],
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def submit(self, *arguments: str) -> str:
        ran = self.run("call", *arguments)
        assert (ran.returncode, ran.stderr) == (0, "")
        return ran.stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    for process in made.processes:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE)


def error_of(ran: Ran) -> str:
    """The one line that a failed command may say."""
    assert ran.stdout == ""
    assert ran.stderr.startswith("taskmq: error: ")
    assert ran.stderr.count("\n") == 1, ran.stderr
    return ran.stderr


# -- workers -------------------------------------------------------------------------------------


def test_a_worker_until_idle(project: Project) -> None:
    for _ in range(3):
        project.submit("tasks.add", "--args", "[1, 2]")
    project.submit("tasks.send", "--args", '[""]')
    ran = project.run("worker", "--until-idle", "-Q", "default,email", "--name", "w1")
    assert (ran.returncode, ran.stdout) == (0, "")
    assert "w1 ready: queues default, email, pool threads, concurrency 4" in ran.stderr
    assert ran.stderr.count("succeeded in 0.") == 3
    assert "failed for good: builtins.ValueError: to nobody" in ran.stderr
    assert "raise ValueError" in ran.stderr
    assert ": 3 succeeded, 1 failed" in ran.stderr.splitlines()[-1]


def test_events_and_logs_as_json_lines_on_their_own_streams(project: Project) -> None:
    job_id = project.submit("tasks.add", "--args", "[1, 2]")
    ran = project.run(
        "worker", "--once", "-Q", "default", "--events", "stdout", "--log-format", "json"
    )
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [each["event"] for each in events] == [
        "worker.started",
        "task.started",
        "task.succeeded",
        "worker.stopped",
    ]
    assert events[1]["job_id"] == job_id
    lines = ran.stderr.splitlines()
    assert lines[0].startswith("taskmq: warning: tasks.send has queue 'email', which nobody serves")
    logs = [json.loads(line) for line in lines[1:]]
    (done,) = [each for each in logs if each["event"] == "task.succeeded"]
    assert (done["job_id"], done["level"], done["queue"]) == (job_id, "info", "default")


def test_a_quiet_worker_says_nothing(project: Project) -> None:
    project.submit("tasks.add", "--args", "[1, 2]")
    ran = project.run("worker", "--until-idle", "-Q", "default,email", "--log-level", "warning")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_a_variable_that_the_app_does_not_read_is_said_to_have_no_effect(project: Project) -> None:
    project.environ |= {"TASKMQ_CONCURRENCY": "7", "TASKMQ_DEFAULT_QUEUE": "default"}
    ran = project.run("worker", "--until-idle")
    warnings = [line for line in ran.stderr.splitlines() if "has no effect" in line]
    assert len(warnings) == 1
    assert warnings[0].startswith("taskmq: warning: TASKMQ_CONCURRENCY has no effect: the app sets")


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("command", ["worker", "dev"])
def test_a_signal_lets_what_runs_end(project: Project, stop: signal.Signals, command: str) -> None:
    worker = project.start(command, "-c", "1", "--pool", "threads")
    job_id = project.submit("tasks.slow", "--args", "[0.5]")
    wait_for((project.folder / "started").exists)
    worker.send_signal(stop)
    _, err = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0
    assert "1 succeeded" in err.splitlines()[-1]
    assert "state       SUCCEEDED" in project.run("inspect", job_id).stdout


def test_a_second_signal_gives_back_what_runs_and_says_so(project: Project) -> None:
    worker = project.start("worker", "-c", "1")
    project.submit("tasks.slow", "--args", "[60]")
    wait_for((project.folder / "started").exists)
    worker.send_signal(signal.SIGINT)
    time.sleep(0.2)  # two of the same in one instant would count as one
    worker.send_signal(signal.SIGINT)
    _, err = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 130
    assert "1 left running, to run again" in err
    assert "gave 1 running job back, to run again" in err
    assert "Traceback" not in err


def test_dev_serves_every_queue_that_its_tasks_name(project: Project) -> None:
    project.submit("tasks.send", "--args", '["a@b.com"]')
    ran = project.run("dev", "--until-idle")
    assert ran.returncode == 0
    assert "development: one worker on sqlite:///jobs.db" in ran.stderr
    assert "tasks.send  started" in ran.stderr
    assert ": 1 succeeded" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pool", "gevent"], "pool must be one of solo, threads"),
        (["-c", "0"], "concurrency must be a whole number >= 1, got 0"),
        (["--lease", "-1"], "lease must be > 0 seconds, got -1.0"),
        (["--shutdown-timeout", "-1"], "shutdown_timeout must be >= 0 seconds"),
    ],
)
def test_a_worker_refuses_wrong_settings(
    project: Project, arguments: list[str], message: str
) -> None:
    ran = project.run("worker", "--until-idle", "-Q", "default,email", *arguments)
    assert ran.returncode == 2
    assert message in error_of(ran)


def test_a_short_lease_brings_its_heartbeat_along(project: Project) -> None:
    ran = project.run("worker", "--until-idle", "--lease", "3")
    assert ran.returncode == 0


def test_a_worker_on_memory_warns_that_nobody_reaches_it(project: Project) -> None:
    (project.folder / "alone.py").write_text(
        "from taskmq import App, Config\napp = App(Config())\n"
    )
    ran = project.run("worker", "--until-idle", "--app", "alone:app")
    assert ran.returncode == 0
    assert "warning: the app has no tasks: every job will be parked\n" in ran.stderr
    assert "warning: memory:// is of this process alone" in ran.stderr


# -- quiet ends ----------------------------------------------------------------------------------


def test_a_reader_that_stops_reading_is_no_error(project: Project) -> None:
    status = project.start("status", "--watch", "0")
    assert status.stdout is not None
    assert status.stdout.read(1)
    status.stdout.close()
    assert status.wait(PATIENCE) == 141
    assert status.stderr is not None
    assert status.stderr.read() == ""
    status.stdout = None  # so that communicate() leaves it alone


def test_ctrl_c_is_quiet(project: Project) -> None:
    status = project.start("status", "--watch", "60")
    assert status.stdout is not None
    select.select([status.stdout], [], [], PATIENCE)
    status.send_signal(signal.SIGINT)
    _, err = status.communicate(timeout=PATIENCE)
    assert (status.returncode, err) == (130, "")


# -- stores that are broken ----------------------------------------------------------------------


@pytest.mark.parametrize("command", [["status"], ["worker", "--until-idle", "-Q", "default,email"]])
def test_a_corrupt_database(project: Project, command: list[str]) -> None:
    project.database.write_bytes(b"this is no database at all" * 100)
    ran = project.run(*command)
    assert ran.returncode == 4
    assert "jobs.db is not an SQLite file" in error_of(ran)
    assert ".recover" in ran.stderr


def test_a_truncated_database(project: Project) -> None:
    for _ in range(3):
        project.submit("tasks.add", "--args", "[1, 2]")
    with project.database.open("r+b") as file:
        file.truncate(file.seek(0, os.SEEK_END) // 2)
    ran = project.run("status")
    assert ran.returncode == 4
    assert "sqlite3" in error_of(ran)


def test_a_database_of_another_program(project: Project) -> None:
    with sqlite3.connect(project.database) as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
    connection.close()
    ran = project.run("status")
    assert ran.returncode == 2
    assert "is the database of another application and was not touched" in error_of(ran)


def test_a_locked_database(project: Project) -> None:
    project.submit("tasks.add", "--args", "[1, 2]")
    holder = sqlite3.connect(project.database)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        ran = project.run("call", "tasks.add", "--args", "[1, 2]")
    finally:
        holder.close()
    assert ran.returncode == 3
    assert "jobs.db is locked by another process" in error_of(ran)


PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2


def without_superpowers() -> None:
    """Permissions hold for root too, in the process that is started next."""
    libc = ctypes.CDLL(None)
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="drops a capability of Linux")
@pytest.mark.parametrize("mode", [0o000, 0o400])
def test_a_database_that_may_not_be_read_or_written(project: Project, mode: int) -> None:
    project.submit("tasks.add", "--args", "[1, 2]")
    project.database.chmod(mode)
    ran = project.run("status", preexec_fn=without_superpowers)
    assert ran.returncode == 3
    assert "jobs.db is not readable and writable for this user" in error_of(ran)


def test_a_directory_that_does_not_exist(project: Project) -> None:
    del project.environ["TASKMQ_APP"]
    ran = project.run("status", "--transport", "sqlite:///nowhere/jobs.db")
    assert ran.returncode == 2
    assert "there is no directory" in error_of(ran)


FULL_DISK = """
import sqlite3

real = sqlite3.connect

def connect(*args, **kwargs):
    connection = real(*args, **kwargs)
    if str(args[0]).endswith("jobs.db"):  # coverage has databases, too
        connection.execute("PRAGMA max_page_count = 30")  # SQLite's own word for a full disk
    return connection

sqlite3.connect = connect
"""


def test_a_full_disk(project: Project) -> None:
    project.submit("tasks.add", "--args", "[1, 2]")
    (project.folder / "full.py").write_text(FULL_DISK + "from tasks import app\n")
    payload = json.dumps(["x" * 100_000, 1])
    ran = project.run("call", "tasks.add", "--app", "full:app", "--args", payload)
    assert ran.returncode == 5
    assert "jobs.db is full" in error_of(ran)
    assert "default      1" in project.run("status").stdout  # what was there is still there


def test_a_message_over_the_limit(project: Project) -> None:
    project.environ["TASKMQ_TRANSPORT"] = "sqlite:///jobs.db"
    project.environ["TASKMQ_MAX_MESSAGE_BYTES"] = "1000"
    (project.folder / "small.py").write_text(
        "from taskmq import App\napp = App()\n@app.task\ndef send(to: str) -> None: ...\n"
    )
    ran = project.run("call", "small.send", "--app", "small:app", "--args", f'["{"x" * 2000}"]')
    assert ran.returncode == 8
    assert "over the limit of 1,000 (max_message_bytes)" in error_of(ran)
