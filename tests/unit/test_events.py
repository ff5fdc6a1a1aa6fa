"""Events: typed values, their JSON form, and sinks that never hurt a job."""

import io
import logging
from collections.abc import Sequence

import msgspec
import pytest

from taskmq import events
from taskmq.events import CollectingSink, Emitter, Event, JobFailed, JsonLinesSink, WorkerStarted

STARTED = WorkerStarted(at=1.5, worker="w1", queues=("a", "b"), pool="solo", concurrency=1)
FAILED = JobFailed(
    at=2.5,
    job_id="J1",
    task="pay",
    queue="a",
    worker="w1",
    attempt=1,
    runtime=0.5,
    error_type="builtins.ValueError",
    error="no",
    will_retry=False,
)


def test_the_json_form_names_the_event() -> None:
    assert msgspec.json.decode(msgspec.json.encode(FAILED)) == {
        "event": "task.failed",
        "at": 2.5,
        "job_id": "J1",
        "task": "pay",
        "queue": "a",
        "trace": {},
        "worker": "w1",
        "attempt": 1,
        "runtime": 0.5,
        "error_type": "builtins.ValueError",
        "error": "no",
        "will_retry": False,
        "traceback": "",
    }


def test_each_event_has_a_name_of_its_own() -> None:
    kinds = [getattr(events, name) for name in events.__all__]
    tags = [
        str(kind.__struct_config__.tag)
        for kind in kinds
        if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
    ]
    assert len(tags) == len(set(tags)) == 14
    assert {tag.partition(".")[0] for tag in tags} == {"task", "queue", "worker", "transport"}


def test_json_lines() -> None:
    stream = io.StringIO()
    JsonLinesSink(stream).handle([STARTED, FAILED])
    first, second = stream.getvalue().splitlines()
    assert msgspec.json.decode(first, type=WorkerStarted) == STARTED
    assert msgspec.json.decode(second)["event"] == "task.failed"


def test_without_a_sink_nobody_is_active() -> None:
    emitter = Emitter()
    assert not emitter.active
    emitter.emit(STARTED)
    emitter.add(CollectingSink())
    assert emitter.active


def test_a_sink_can_be_taken_out_again() -> None:
    emitter, sink = Emitter(), CollectingSink()
    emitter.add(sink)
    emitter.remove(sink)
    emitter.emit(STARTED)
    assert (sink.events, emitter.active) == ([], False)


class BadSink:
    def handle(self, events: Sequence[Event]) -> None:
        raise OSError("disk full")


def test_a_failing_sink_is_logged_and_costs_the_others_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    emitter, good = Emitter(), CollectingSink()
    for sink in (BadSink(), good, BadSink()):
        emitter.add(sink)
    emitter.emit(STARTED, FAILED)
    assert good.events == [STARTED, FAILED]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    assert "disk full" in caplog.text
