"""Log lines as JSON, and to read at a terminal."""

import contextlib
import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from taskmq import logs
from taskmq.events import (
    Event,
    JobDeferred,
    JobDelegated,
    JobDropped,
    JobFailed,
    JobReleased,
    JobStarted,
    JobSubmitted,
    JobSucceeded,
    WorkerStopped,
)
from taskmq.logs import JsonFormatter, LogSink, PrettyFormatter

ABOUT: dict[str, Any] = {"at": 1.0, "job_id": "J1", "task": "shop.pay", "queue": "money"}
BY: dict[str, Any] = {**ABOUT, "worker": "w1"}
FAILED: dict[str, Any] = {
    **BY,
    "attempt": 2,
    "runtime": 0.1,
    "error_type": "builtins.OSError",
    "error": "no route",
    "traceback": "Traceback…\nOSError: no route\n",
}


def record(message: str = "sending", fields: dict[str, Any] | None = None) -> logging.LogRecord:
    made = logging.LogRecord("taskmq.task.shop.pay", logging.INFO, "f.py", 1, message, (), None)
    made.created = 1_700_000_000.1234
    if fields is not None:
        made.__dict__["taskmq"] = fields
    return made


def as_json(made: logging.LogRecord) -> dict[str, Any]:
    text = JsonFormatter().format(made)
    assert "\n" not in text
    line = json.loads(text)
    assert isinstance(line, dict)
    return line


def test_a_json_line_has_all_its_fields_always() -> None:
    assert as_json(record()) == {
        "ts": "2023-11-14T22:13:20.123Z",
        "level": "info",
        "event": "taskmq.task.shop.pay",
        "job_id": None,
        "task": None,
        "attempt": None,
        "worker": None,
        "queue": None,
        "msg": "sending",
    }


def test_a_json_line_of_a_task_carries_its_job_and_its_own_fields() -> None:
    line = as_json(record(fields={"job_id": "J1", "attempt": 2, "to": "a@b.com", "msg": "mine"}))
    assert list(line)[:9] == [
        "ts", "level", "event", "job_id", "task", "attempt", "worker", "queue", "msg",
    ]  # fmt: skip
    assert (line["job_id"], line["attempt"], line["to"]) == ("J1", 2, "a@b.com")
    assert (line["msg"], line["msg_"]) == ("sending", "mine")


@pytest.mark.parametrize(
    "value", [object(), "\udcff", {1: {2}}, float("nan"), {(1, 2): 3}, b"\xff"]
)
def test_any_field_can_be_written(value: Any) -> None:
    assert "odd" in as_json(record(fields={"odd": value}))


def test_a_traceback_stays_in_its_line() -> None:
    made = record()
    try:
        raise ValueError("no")
    except ValueError:
        made.exc_info = sys.exc_info()
    assert as_json(made)["exc"].endswith("ValueError: no")
    assert PrettyFormatter().format(made).endswith("ValueError: no")


def test_a_pretty_line_names_task_and_fields() -> None:
    fields = {
        "task": "shop.pay",
        "job_id": "J1",
        "attempt": 1,
        "worker": "w1",
        "queue": "q",
        "to": 5,
    }
    text = PrettyFormatter().format(record(fields=fields))
    assert text[12:] == " INFO    shop.pay  sending  job_id=J1  to=5"
    assert "attempt=2" in PrettyFormatter().format(record(fields={"attempt": 2}))
    assert " task.shop.pay  sending" in PrettyFormatter().format(record())


def test_color_only_where_it_is_wanted() -> None:
    assert "\x1b[32mINFO" in PrettyFormatter(color=True).format(record())
    assert "\x1b" not in PrettyFormatter().format(record(fields={"a": 1}))


@pytest.mark.parametrize(
    ("event", "level", "message"),
    [
        (JobSubmitted(**ABOUT), "DEBUG", "submitted"),
        (JobStarted(**BY, attempt=1), "DEBUG", "started"),
        (JobSucceeded(**BY, attempt=1, runtime=0.5), "INFO", "succeeded in 0.500 s"),
        (
            JobFailed(**FAILED, will_retry=True),
            "WARNING",
            "failed, will run again: builtins.OSError: no route",
        ),
        (
            JobFailed(**FAILED, will_retry=False),
            "ERROR",
            "failed for good: builtins.OSError: no route",
        ),
        (
            JobDeferred(**BY, reason="unknown_task", parked=True),
            "WARNING",
            "parked, this worker cannot run it: unknown_task",
        ),
        (JobDeferred(**BY, reason="deferred", parked=False), "INFO", "given back for later"),
        (
            JobDelegated(**BY, attempt=1, to="J2"),
            "INFO",
            "waits for job J2, whose result is to be its own",
        ),
        (JobDropped(**ABOUT, reason="revoked"), "WARNING", "dropped: revoked"),
    ],
)
def test_what_happens_to_jobs_is_logged(
    caplog: pytest.LogCaptureFixture, event: Event, level: str, message: str
) -> None:
    with caplog.at_level(logging.DEBUG):
        LogSink().handle([event])
    (made,) = caplog.records
    assert (made.name, made.levelname, made.getMessage()) == ("taskmq.jobs", level, message)
    line = as_json(made)
    assert (line["job_id"], line["task"], line["queue"]) == ("J1", "shop.pay", "money")
    assert line["event"].startswith("task.")


def test_a_dead_letter_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    LogSink().handle([JobFailed(**FAILED, will_retry=False)])
    (made,) = caplog.records
    assert as_json(made)["exc"] == FAILED["traceback"]
    first, *trace = PrettyFormatter().format(made).splitlines()
    assert first.endswith("no route  job_id=J1  attempt=2")
    assert trace == ["Traceback…", "OSError: no route"]


def test_what_the_worker_tells_itself_is_not_logged_twice(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        LogSink().handle(
            [
                JobDropped(**ABOUT, reason="expired"),
                JobReleased(**BY, reason="the worker stops"),
                WorkerStopped(at=1.0, worker="w1", processed=1, released=0),
            ]
        )
    assert caplog.records == []


@contextlib.contextmanager
def bare_logging() -> Iterator[None]:
    """No handler at the root (pytest has its own there), as in a new process."""
    root, engine = logging.getLogger(), logging.getLogger("taskmq")
    handlers, level, engine_level = root.handlers[:], root.level, engine.level
    root.handlers[:] = []
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        engine.setLevel(engine_level)


def test_configure_writes_to_the_stream() -> None:
    stream = io.StringIO()
    with bare_logging():
        logs.configure("warning", format="json", stream=stream)
        logging.getLogger("taskmq.worker").warning("ready")
        logging.getLogger("somebody.else").warning("hello")
        logging.getLogger("taskmq.worker").info("too quiet")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["taskmq.worker", "somebody.else"]


def test_configure_leaves_a_program_its_own_handlers() -> None:
    own, other = io.StringIO(), io.StringIO()
    with bare_logging():
        logging.getLogger().addHandler(logging.StreamHandler(own))
        logs.configure("debug", stream=other)
        logging.getLogger("taskmq.worker").debug("ready")
    assert (own.getvalue(), other.getvalue()) == ("ready\n", "")
