"""Whatever a user can get wrong: one line that says so, and an exit code; never a traceback."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from celery import Celery, _state
from celery.bin.celery import celery

pytestmark = pytest.mark.integration


def refused(done: subprocess.CompletedProcess[str], code: int, message: str) -> None:
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert len(lines) == 1, done.stderr
    assert re.search(message, lines[0])
    assert done.returncode == code


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[Celery]:
    """The app of a command line without ``-A``."""
    made = Celery("default", broker="memory://", set_as_current=False)
    monkeypatch.setattr(_state, "default_app", made)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["wrker"], "No such command 'wrker'"),
        (["worker", "-l", "NOPE"], "'-l' / '--loglevel': 'NOPE' is not one of 'DEBUG', 'INFO'"),
        (["worker", "-P", "nope"], "'-P' / '--pool': 'nope' is not one of 'prefork', 'eventlet'"),
        (["worker", "-P", "custom"], "needs the variable CELERY_CUSTOM_WORKER_POOL"),
        (["worker", "-c", "x"], "must be a non-negative integer or 'auto', got 'x'"),
        (["worker", "-c", "-1"], "must be a non-negative integer or 'auto', got '-1'"),
        (["worker", "--autoscale=x"], "Expected an integer. Got 'x' instead"),
        (["worker", "-n", "%z"], "Unknown format %z in 'celery@%z'"),
        (["worker", "--nope"], "No such option:? '?--nope"),
        (["call", "x", "-a", "[1"], "'-a' / '--args': Expecting ',' delimiter"),
        (["call", "x", "-a", "{}"], "{} was not an array"),
        (["call", "x", "-k", "[]"], r"\[\] was not an object"),
        (["call", "x", "--eta", "soon"], "'--eta'"),
    ],
)
def test_wrong_arguments(arguments: list[str], message: str, app: Celery) -> None:
    done = CliRunner().invoke(celery, arguments)
    assert done.exit_code == 2
    assert re.search(f"^Error: .*{message}", done.output, re.MULTILINE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--workdir", "/nonexistent"], "'--workdir': Directory '/nonexistent' does not exist"),
        (["--config", "nopeconf"], "The configuration module nopeconf was not found"),
        (["--loader", "nope.Loader"], "The loader nope.Loader was not found"),
    ],
)
def test_wrong_global_options(program: Any, options: list[str], message: str) -> None:
    refused(program.celery(*options, "-A", "proj", "call", "x"), 2, message)


@pytest.mark.parametrize("option", ["-A", "--app"])
def test_the_app_given_too_late(program: Any, option: str) -> None:
    done = program.celery("worker", option, "proj")
    refused(done, 2, f"No such option:? '?{option}")
    assert f"You are using `{option}` as an option of the worker sub-command" in done.stderr
    assert f"celery {option} celeryapp worker <...>" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--", "task.nope=1"], "no setting 'task.nope'"),
        (["--", "worker.concurrency=x"], "worker_concurrency.*'x'"),
        (["--", "result_expires=x"], "result_expires.*'x'"),
        (["-P", "custom"], "there is no pool 'no.such:Pool'"),
    ],
)
def test_wrong_settings(program: Any, arguments: list[str], message: str) -> None:
    done = program.celery(
        "-A", "proj", "worker", *arguments, CELERY_CUSTOM_WORKER_POOL="no.such:Pool"
    )
    refused(done, os.EX_CONFIG, message)


@pytest.mark.parametrize("command", [["worker"], ["call", "proj.add"]])
def test_brokers_and_backends_that_are_not_there(program: Any, command: list[str]) -> None:
    done = program.celery("-A", "proj", "-b", "sqs://", *command)
    refused(done, os.EX_CONFIG, "broker sqs:// is not supported yet: set broker_url")
    done = program.celery("-A", "proj", "--result-backend", "no-such://localhost", *command)
    refused(done, os.EX_CONFIG, "result backend 'no-such://localhost' is not there")


@pytest.mark.parametrize("command", [["worker"], ["call", "proj.add"]])
def test_a_database_that_cannot_be_opened(program: Any, command: list[str], tmp_path: Path) -> None:
    (tmp_path / "folder.db").mkdir()
    url = f"sqlite:///{tmp_path}/folder.db"
    refused(program.celery("-A", "proj", "-b", url, *command), os.EX_CONFIG, "is a directory")
    url = f"sqlite:///{tmp_path}/missing/jobs.db"
    refused(
        program.celery("-A", "proj", "-b", url, *command), os.EX_CONFIG, "there is no directory"
    )


@pytest.mark.parametrize("command", [["worker"], ["call", "proj.add"]])
def test_a_corrupt_database(program: Any, command: list[str], tmp_path: Path) -> None:
    (tmp_path / "jobs.db").write_bytes(b"no database at all" * 300)
    refused(program.celery("-A", "proj", *command), os.EX_DATAERR, "not an SQLite file.*recover")


@pytest.mark.parametrize("command", [["worker"], ["call", "proj.add", "-a", "[1,1]"]])
def test_a_locked_database(program: Any, command: list[str], tmp_path: Path) -> None:
    assert program.celery("-A", "proj", "call", "proj.add").returncode == 0
    other = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        url = f"{program.url}?busy_timeout=0.1"
        refused(
            program.celery("-A", "proj", "-b", url, *command),
            os.EX_UNAVAILABLE,
            "jobs.db is locked by another process",
        )
    finally:
        other.close()


def test_a_full_disk(program: Any) -> None:
    program.add_to_tasks("""
        import sqlite3
        real = sqlite3.connect

        def connect(*args, **kwargs):  # a disk of 100 pages
            made = real(*args, **kwargs)
            made.execute("pragma max_page_count=100")
            return made

        sqlite3.connect = connect
    """)
    large = f'["{"x" * 100_000}"]'
    outcomes = [program.celery("-A", "proj", "call", "proj.add", "-a", large) for _ in range(3)]
    assert outcomes[0].returncode == 0
    refused(outcomes[-1], os.EX_IOERR, "jobs.db is full: no space left for it; nothing was written")


def test_a_message_over_the_size_limit(program: Any) -> None:
    program.add_to_tasks("from taskmq_celery import config\nconfig.MAX_MESSAGE_BYTES = 2000\n")
    done = program.celery("-A", "proj", "call", "proj.add", "-a", f'["{"x" * 2000}"]')
    refused(done, os.EX_DATAERR, "job of task 'proj.add' is .* bytes, over the limit of 2,000")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--pidfile=/nonexistent/w.pid", "cannot create the pid file.*[Nn]o such f"),
        ("--logfile=/nonexistent/w.log", "cannot write the log file.*No such file"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--detach"]])
def test_files_that_cannot_be_written(
    program: Any, option: str, message: str, more: list[str]
) -> None:
    done = program.celery("-A", "proj", "worker", option, *more)
    refused(done, os.EX_CANTCREAT, message)


def test_a_user_that_does_not_exist(program: Any) -> None:
    done = program.celery("-A", "proj", "worker", "--uid", "nosuchuser")
    refused(done, 1, "cannot change the user: User does not exist: nosuchuser")
