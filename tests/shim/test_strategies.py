"""``Task.Strategy``: tasks whose messages the program collects, as celery-batches does."""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.waiting import PATIENCE, wait_for

from celery import Celery, Task
from celery.contrib.testing.worker import start_worker
from celery.exceptions import InvalidTaskError, Reject
from celery.worker import strategy

BATCHED = """
import os
from queue import Empty, SimpleQueue

from celery.worker.request import create_request_cls
from celery.utils.imports import symbol_by_name

class Batched(app.Task):
    abstract = True
    every, interval = 3, 3600.0

    def __init__(self):
        self.buffer = SimpleQueue()
        self.timer = None

    def Strategy(self, task, app, consumer):
        kind = create_request_cls(symbol_by_name(task.Request), task, consumer.pool,
                                  consumer.hostname, consumer.event_dispatcher, app=app)
        self.pool = consumer.pool

        def handler(message, body, ack, reject, callbacks, **kw):
            assert body is None and "args" not in message.payload
            self.buffer.put(kind(message, on_ack=ack, on_reject=reject, body=message.body,
                                 headers=message.headers, decoded=False, utc=True,
                                 connection_errors=consumer.connection_errors))
            if self.timer is None:
                self.timer = consumer.timer.call_repeatedly(self.interval, self.flush)
            if self.buffer.qsize() >= self.every:
                self.flush()

        return handler

    def flush(self):
        requests = []
        while True:
            try:
                requests.append(self.buffer.get_nowait())
            except Empty:
                break
        if not requests:
            return

        def acknowledge(*_):
            for each in requests:
                each.acknowledge()

        late = bool(self.acks_late)
        self.pool.apply_async(
            do_batch, (self, [(each.id, each.args) for each in requests]),
            accept_callback=None if late else acknowledge,
            callback=acknowledge if late else None)

def do_batch(task, requests):
    return task(requests)

def note(*words):
    with open("notes", "a") as file:
        print(*words, file=file, flush=True)

def finish(requests):
    note("batch", os.getpid(), *sorted(args[0] for _, args in requests))
    for id, args in requests:
        app.backend.mark_as_done(id, args[0] * 10)
"""


def notes_of(program: Any) -> list[list[str]]:
    file = program.folder / "notes"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_messages_are_collected_by_number_and_by_time(program: Any, pool: str) -> None:
    program.add_to_tasks(
        BATCHED
        + """
@app.task(base=Batched, interval=0.2)
def collect(requests):
    finish(requests)
"""
    )
    worker = program.ready_worker("-P", pool, "-c", "2")
    answers = program.ask("""
        import json; from proj import add, collect
        results = [collect.delay(number) for number in range(7)]
        print(json.dumps([add.delay(1, 2).get(timeout=50), *(r.get(timeout=50) for r in results)]))
    """)
    assert answers == [3, *range(0, 70, 10)]
    assert worker.stop() == 0
    notes = notes_of(program)
    assert sorted(number for _, _, *batch in notes for number in batch) == list("0123456")
    assert max(len(batch) for _, _, *batch in notes) >= 2
    where = {pid for _, pid, *_ in notes}
    assert (str(worker.process.pid) in where) is (pool != "prefork")


DYING = """
@app.task(base=Batched, acks_late={late}, every={every})
def collect(requests):
    if os.path.exists("first"):
        finish(requests)
        return
    open("first", "w").close()
    note("began")
    os.kill({victim}, 9)
    import time
    time.sleep(30)
"""


@pytest.mark.parametrize("late", [None, True])
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_batch_whose_worker_dies_is_done_again(program: Any, pool: str, late: Any) -> None:
    victim = "os.getpid()" if pool == "threads" else 'int(open("worker").read())'
    program.add_to_tasks(BATCHED + DYING.format(late=late, every=3, victim=victim))
    short = {"TASKMQ_LEASE": "1"}
    dying = program.ready_worker("-P", pool, "-c", "1", **short)
    (program.folder / "worker").write_text(str(dying.process.pid))
    ask = "import json; from proj import collect; print(json.dumps(%s))"
    ids = program.ask(ask % "[collect.delay(number).id for number in range(3)]")
    wait_for(lambda: notes_of(program) == [["began"]], "the first batch")
    program.ready_worker("-P", pool, "-c", "1", **short)
    get = f"[collect.AsyncResult(id).get(timeout=50) for id in {ids}]"
    assert program.ask(ask % get) == [0, 10, 20]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_what_was_collected_and_not_done_is_there_for_the_next_worker(
    program: Any, how: str
) -> None:
    program.add_to_tasks(
        BATCHED
        + """
@app.task(base=Batched, every=1 if os.environ.get("AT_ONCE") else 100)
def collect(requests):
    finish(requests)
"""
    )
    short = {"TASKMQ_LEASE": "1"}
    first = program.ready_worker("-P", "threads", "-c", "1", **short)
    ask = "import json; from proj import add, collect; print(json.dumps(%s))"
    ids = program.ask(ask % "[collect.delay(number).id for number in range(4)]")
    assert program.ask(ask % "add.delay(1, 2).get(timeout=50)") == 3  # it has those before it, too
    if how == "stop":
        assert first.stop() == 0
    else:
        first.kill()
    program.ready_worker("-P", "threads", "-c", "1", AT_ONCE="1", **short)
    get = f"[collect.AsyncResult(id).get(timeout=50) for id in {ids}]"
    assert program.ask(ask % get) == [0, 10, 20, 30]


# -- what becomes of a message -------------------------------------------------------------------


@pytest.fixture
def app() -> Iterator[Celery]:
    made = Celery("t", broker="memory://", backend="rpc://", set_as_current=False)
    yield made
    made.close()


def test_it_is_acknowledged_rejected_or_comes_again(app: Celery) -> None:
    seen: list[str] = []

    class Sorting(Task):
        abstract = True

        def Strategy(self, task: Any, app: Any, consumer: Any) -> Any:  # noqa: N802  # Celery's
            def handler(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any) -> None:
                (what,), _, _ = message.payload
                seen.append(what)
                if what == "failed":
                    app.backend.mark_as_failure(message.headers["id"], ValueError("no"))
                if what == "invalid":
                    raise InvalidTaskError("it is")
                if what in ("rejected", "again"):
                    reject(None, (), requeue=what == "again" and seen.count("again") < 3)
                elif what == "raising" and seen.count("raising") < 2:
                    raise RuntimeError("for once")
                ack(None, ())

            return handler

    @app.task(base=Sorting, name="sort")
    def sort(what: str) -> None:
        raise AssertionError("it is not run")

    words = ("done", "failed", "rejected", "again", "raising", "invalid")
    with start_worker(app, perform_ping_check=False, pool="solo"):
        results = {word: sort.delay(word) for word in words}
        ends = {word: each.get(timeout=PATIENCE, propagate=False) for word, each in results.items()}
    states = {word: each.state for word, each in results.items()}
    assert states.pop("done") == states.pop("raising") == "SUCCESS"
    assert set(states.values()) == {"FAILURE"}
    assert {type(ends[word]) for word in ("rejected", "again", "invalid")} == {Reject}
    assert repr(ends["failed"]) == "ValueError('no')"
    assert (seen.count("again"), seen.count("raising")) == (3, 2)


def test_the_usual_strategy_runs_the_task(app: Celery) -> None:
    seen: list[str] = []

    class Watched(Task):
        abstract = True

        def Strategy(self, task: Any, app: Any, consumer: Any) -> Any:  # noqa: N802  # Celery's
            usual = strategy.default(task, app, consumer)

            def handler(message: Any, *rest: Any, **more: Any) -> None:
                seen.append(message.headers["id"])
                usual(message, *rest, **more)

            return handler

    @app.task(base=Watched, name="double")
    def double(number: int) -> int:
        return 2 * number

    with start_worker(app, perform_ping_check=False, concurrency=2):
        results = [double.delay(number) for number in range(20)]
        assert [each.get(timeout=PATIENCE) for each in results] == list(range(0, 40, 2))
    assert sorted(seen) == sorted(each.id for each in results)


def test_messages_of_protocol_1_become_those_of_protocol_2() -> None:
    message = SimpleNamespace(headers={"sentry": 1})
    body = {
        "task": "t",
        "id": "1",
        "args": [1],
        "kwargs": {"a": 2},
        "taskset": "g",
        "utc": False,
        "callbacks": ["c"],
        "errbacks": ["e"],
        "chord": "body",
        "retries": 2,
    }
    embed = {"callbacks": ["c"], "errbacks": ["e"], "chord": "body", "chain": None}
    call, headers, decoded, utc = strategy.proto1_to_proto2(message, dict(body))
    assert (call, decoded, utc) == (([1], {"a": 2}, embed), True, False)
    assert headers == {
        **body,
        "argsrepr": "[1]",
        "kwargsrepr": "{'a': 2}",
        "group": "g",
        "headers": {"sentry": 1},
    }
    call, headers, decoded, utc = strategy.hybrid_to_proto2(message, body)
    assert (call, decoded, utc) == (([1], {"a": 2}, embed), True, False)
    assert (headers["id"], headers["retries"], headers["sentry"]) == ("1", 2, 1)
    for convert in (strategy.proto1_to_proto2, strategy.hybrid_to_proto2):
        with pytest.raises(InvalidTaskError, match="must be a mapping"):
            convert(message, {"args": (), "kwargs": [1]})
