"""What a worker has beside the engine: its steps make it, start it and stop it."""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import queue
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from kombu.entity import Exchange, Queue
from kombu.messaging import Consumer as KombuConsumer
from tests.waiting import wait_for

from celery import Celery, bootsteps, signals
from celery.concurrency import solo
from celery.contrib.testing.worker import start_worker
from celery.exceptions import ImproperlyConfigured
from celery.platforms import EX_FAILURE
from celery.worker import WorkController, state
from celery.worker.components import Hub
from celery.worker.consumer import Connection, Consumer
from celery.worker.consumer.consumer import dump_body

pytestmark = pytest.mark.unit

Got = queue.SimpleQueue[Any]


# -- the worker --------------------------------------------------------------------------------


def test_there_is_a_hub_if_it_is_asked_for(app: Celery) -> None:
    got: Got = queue.SimpleQueue()

    class Watching(bootsteps.StartStopStep):
        requires = (Hub,)

        def register_with_event_loop(self, parent: Any, hub: Any) -> None:
            got.put(hub)

        def start(self, parent: Any) -> None:
            def fail() -> None:
                got.put("failed")
                raise RuntimeError("one callback")

            parent.hub.call_soon(fail)
            parent.hub.call_repeatedly(0.001, got.put, "tick")

    app.steps["worker"].add(Watching)
    with start_worker(app, perform_ping_check=False, use_eventloop=True) as worker:
        assert worker.consumer is not None
        assert got.get(timeout=10) is worker.consumer.hub
        assert got.get(timeout=10) == "failed"
        assert got.get(timeout=10) == "tick"
        thread = worker.hub._thread
    assert not thread.is_alive()


def test_there_is_no_hub_that_nobody_wants(app: Celery) -> None:
    with start_worker(app, perform_ping_check=False) as worker:
        assert worker.hub is None
        assert not worker.should_use_eventloop()


def test_a_step_that_requires_the_hub_has_one_where_tasks_run_in_children(app: Celery) -> None:
    assert not WorkController(app=app, pool="prefork").should_use_eventloop()

    class Behind(bootsteps.StartStopStep):
        requires = ("celery.worker.components:Hub",)

    app.steps["worker"].add(Behind)
    assert WorkController(app=app, pool="prefork").should_use_eventloop()
    assert not WorkController(app=app, pool="threads").should_use_eventloop()
    assert not WorkController(app=app, pool="prefork", use_eventloop=False).should_use_eventloop()


def test_the_timer_goes_on_when_a_function_raises(
    app: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    got: Got = queue.SimpleQueue()
    timer = WorkController(app=app, pool="solo").timer
    timer.call_after(0.001, lambda: 1 / 0)
    timer.call_after(0.01, got.put, ("later",))
    assert got.get(timeout=10) == "later"
    timer.stop()
    assert "Timer error: ZeroDivisionError" in caplog.text


def test_a_worker_has_what_the_settings_name(app: Celery) -> None:
    class Own(Consumer):
        pass

    class OwnTimer(WorkController):
        def prepare_args(self, **kwargs: Any) -> dict[str, Any]:
            return {**kwargs, "queues": "other"}

    app.conf.update(worker_consumer=Own, worker_timer_precision=3, task_time_limit=7)
    worker = OwnTimer(app=app, pool="solo", soft_time_limit=5)
    assert type(worker.consumer) is Own
    assert worker.timer.schedule.max_interval == 3
    assert (worker.time_limit, worker.soft_time_limit) == (7, 5)
    assert list(app.amqp.queues.consume_from) == ["other"]


def test_a_callback_instead_of_the_hook(app: Celery) -> None:
    got: Got = queue.SimpleQueue()
    worker = WorkController(app=app, pool="solo", ready_callback=got.put)
    heard: list[Any] = []
    signals.worker_ready.connect(lambda sender, **_: heard.append(sender), weak=False)
    try:
        assert worker.consumer is not None
        worker.consumer.on_ready()
        worker.consumer.on_ready()
    finally:
        signals.worker_ready.receivers.clear()
    assert got.get_nowait() is worker.consumer
    assert got.empty()
    assert heard == [worker.consumer]


def test_figures_come_from_the_steps(app: Celery) -> None:
    class Telling(bootsteps.StartStopStep):
        def info(self, obj: Any) -> dict[str, Any]:
            return {"weather": "fine"}

    app.steps["consumer"].add(Telling)
    with start_worker(app, perform_ping_check=False, prefetch_multiplier=3) as worker:
        told = worker.stats()
    assert told["weather"] == "fine"
    assert told["prefetch_count"] == 3
    assert told["pool"]["implementation"].endswith("solo:TaskPool")
    assert told["rusage"]["utime"] == pytest.approx(worker.rusage()["utime"], abs=30)
    assert told["broker"]["transport"] == "memory"
    assert "password" not in told["broker"]


def test_an_agent_lives_with_the_consumer(app: Celery) -> None:
    seen: list[str] = []

    class Agent:
        def __init__(self, connection: Any) -> None:
            seen.append(connection.transport.driver_type)

        def start(self) -> None:
            seen.append("start")

        def stop(self) -> None:
            seen.append("stop")

    app.conf.worker_agent = Agent
    with start_worker(app, perform_ping_check=False) as worker:
        assert worker.consumer is not None
        assert worker.consumer.opened is not None
    assert seen[1:] == ["start", "stop"]
    assert worker.consumer.opened is None


def test_the_receiving_side_begins_nothing_new_once_it_is_told(app: Celery) -> None:
    worker = WorkController(app=app, pool="solo")
    assert worker.consumer is not None
    assert not worker.consumer.closing
    worker.stop()
    assert worker.consumer.closing


def test_nothing_is_waited_for_where_nothing_runs(app: Celery) -> None:
    app.conf.worker_soft_shutdown_timeout = 60
    with start_worker(app, perform_ping_check=False) as worker:
        worker.wait_for_soft_shutdown()


# -- messages that a program takes itself --------------------------------------------------------


OWN = Queue("own", Exchange("own"), "own")


@pytest.fixture
def taken(app: Celery) -> Iterator[Got]:
    """A worker that takes the tasks in a queue of the broker; what its consumer does with them."""
    got: Got = queue.SimpleQueue()

    class Taking(bootsteps.ConsumerStep):
        requires = ("celery.worker.consumer:Tasks",)

        def get_consumers(self, channel: Any) -> Any:
            return [KombuConsumer(channel, queues=[OWN], on_message=self.handle, accept=["json"])]

        def start(self, c: Any) -> None:
            self.handle = c.create_task_handler()
            super().start(c)

    class Own(Consumer):
        def __init__(self, on_task_request: Any, *args: Any, **kwargs: Any) -> None:
            super().__init__(got.put, *args, **kwargs)

    app.steps["consumer"].add(Taking)
    app.conf.worker_consumer = Own
    with start_worker(app, perform_ping_check=False):
        yield got


def send(app: Celery, name: str, *args: Any, protocol: int = 2, **options: Any) -> str:
    task_id = options.pop("task_id", f"id-{name}")
    make = app.amqp.as_task_v2 if protocol == 2 else app.amqp.as_task_v1
    message = make(task_id, name, args, **options)
    with app.producer_or_acquire() as producer:
        producer.publish(
            message.body,
            exchange=OWN.exchange,
            routing_key="own",
            declare=[OWN],
            headers=message.headers,
            serializer="json",
            **message.properties,
        )
    return str(task_id)


@pytest.mark.parametrize("protocol", [1, 2])
def test_a_task_is_told_of_and_is_to_run(app: Celery, taken: Got, protocol: int) -> None:
    heard: list[Any] = []
    signals.task_received.connect(lambda request, **_: heard.append(request), weak=False)
    try:
        task_id = send(app, "t.add", 1, 2, protocol=protocol)
        request = taken.get(timeout=10)
    finally:
        signals.task_received.receivers.clear()
    assert (request.id, request.name) == (task_id, "t.add")
    assert request.args == [1, 2]
    assert heard == [request]
    assert request in state.reserved_requests
    state.task_ready(request)


def test_a_task_waits_until_it_is_due(app: Celery, taken: Got) -> None:
    due = datetime.now(timezone.utc) + timedelta(seconds=0.2)
    send(app, "t.add", 1, 2, eta=due)
    request = taken.get(timeout=10)
    assert datetime.now(timezone.utc) >= due - timedelta(milliseconds=5)
    state.task_ready(request)


def test_a_task_waits_for_its_rate(app: Celery, taken: Got) -> None:
    app.tasks["t.add"].rate_limit = "5/s"
    first, second = (send(app, "t.add", 1, 2, task_id=f"rate-{n}") for n in (1, 2))
    begun = taken.get(timeout=10)
    later = taken.get(timeout=10)
    assert [begun.id, later.id] == [first, second]
    assert later.time_start is None
    for each in (begun, later):
        state.task_ready(each)


def test_a_revoked_task_does_not_run(app: Celery, taken: Got) -> None:
    state.revoked.add("id-gone")
    try:
        send(app, "t.add", 1, 2, task_id="id-gone")
        send(app, "t.add", 1, 2, task_id="id-there")
        request = taken.get(timeout=10)
    finally:
        state.revoked.discard("id-gone")
    assert request.id == "id-there"
    state.task_ready(request)


def test_a_task_that_nobody_knows_fails(app: Celery, taken: Got) -> None:
    heard: list[Any] = []
    signals.task_unknown.connect(lambda name, **_: heard.append(name), weak=False)
    try:
        send(app, "t.nowhere", task_id="id-nowhere")
        wait_for(lambda: heard, "task_unknown")
    finally:
        signals.task_unknown.receivers.clear()
    assert heard == ["t.nowhere"]


def test_what_is_no_task_is_rejected(app: Celery, taken: Got) -> None:
    heard: list[Any] = []
    signals.task_rejected.connect(lambda exc, **_: heard.append(exc), weak=False)
    try:
        with app.producer_or_acquire() as producer:
            producer.publish({"a": 1}, exchange=OWN.exchange, routing_key="own", declare=[OWN])
        wait_for(lambda: heard, "task_rejected")
    finally:
        signals.task_rejected.receivers.clear()
    assert heard == [None]
    assert taken.empty()


def test_a_message_for_the_log_is_short() -> None:
    class Message:
        body = "x" * 3000

    shown = dump_body(Message(), None)
    assert shown.endswith(" (3000b)")
    assert len(shown) < 1100


# -- what it was made with ---------------------------------------------------------------------


def test_a_worker_has_a_queue_of_its_own(app: Celery) -> None:
    app.conf.worker_direct = True
    add, place = app.tasks["t.add"], {"exchange": "C.dq2", "routing_key": "w1@box"}
    with start_worker(app, hostname="w1@box", perform_ping_check=False) as worker:
        assert list(worker.consumed) == ["celery", "w1@box.dq2"]
        assert add.apply_async((1, 2), **place).get(timeout=10) == 3
        assert add.apply_async((3, 4), queue="w1@box.dq2").get(timeout=10) == 7
        app.conf.task_routes = {"t.add": place}
        sent: list[Any] = []
        signals.before_task_publish.connect(
            lambda routing_key, **_: sent.append(routing_key), weak=False
        )
        try:
            assert add.delay(5, 6).get(timeout=10) == 11
        finally:
            signals.before_task_publish.receivers.clear()
        assert sent == ["w1@box"]


def test_another_worker_does_not_take_what_is_for_one(app: Celery) -> None:
    app.conf.worker_direct = True
    with start_worker(app, hostname="w2@box", perform_ping_check=False) as worker:
        theirs = app.tasks["t.add"].apply_async((1, 2), exchange="C.dq2", routing_key="w1@box")
        assert app.tasks["t.add"].delay(1, 2).get(timeout=10) == 3
        assert theirs.state == "PENDING"
        assert "w1@box.dq2" not in worker.consumed


def test_a_pool_is_made_with_what_the_worker_was_told(app: Celery) -> None:
    class Own(solo.TaskPool):
        pass

    worker = WorkController(
        app=app, pool=Own, max_memory_per_child=32, worker_lost_wait=7.0, pool_restarts=True
    )
    assert type(worker.pool) is Own
    assert worker.pool.options["max_memory_per_child"] == 32
    assert worker.pool.options["lost_worker_timeout"] == 7.0
    assert worker.pool.options["allow_restart"] is True
    assert worker.pool.forking_enable is True
    assert str(worker) == worker.hostname


def test_children_begin_in_one_of_two_ways(app: Celery) -> None:
    assert WorkController(app=app, pool="solo").pool_start_method == "fork"
    assert WorkController(app=app, pool="solo", pool_start_method="spawn").pool_start_method == (
        "spawn"
    )
    with pytest.raises(ImproperlyConfigured, match="'fork' or 'spawn', not 'forkserver'"):
        WorkController(app=app, pool="solo", pool_start_method="forkserver")


def test_nobody_is_told_the_passwords_of_other_brokers(app: Celery) -> None:
    app.conf.update(broker_url="amqp://u:one@h1//;amqp://u:two@h2//")
    consumer = WorkController(app=app, pool="solo").consumer
    assert consumer is not None
    told = Connection.info(consumer.blueprint[Connection.name], consumer)["broker"]
    assert told["alternates"] == ["amqp://u:**@h1//", "amqp://u:**@h2//"]
    assert "one@" not in str(told)


def test_a_start_that_is_interrupted_ends_the_worker(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = WorkController(app=app, pool="solo")

    def interrupted(parent: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(worker.blueprint, "start", interrupted)
    worker.start()
    assert worker.exitcode == EX_FAILURE


def test_a_consumer_that_is_closed_does_not_start(app: Celery) -> None:
    worker = WorkController(app=app, pool="solo")
    assert worker.consumer is not None
    assert worker.consumer.amqheartbeat == app.conf.broker_heartbeat
    worker.consumer.blueprint.state = bootsteps.CLOSE
    worker.consumer.start()
    assert worker.consumer.init_callback is not None  # it is not ready


def test_what_waits_for_its_time_is_let_go_when_the_worker_closes(
    app: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = WorkController(app=app, pool="solo").consumer
    assert consumer is not None
    cancelled: list[str] = []

    class OwnTimer:
        def cancel(self, entry: str) -> None:
            if entry == "broken":
                raise RuntimeError("no such entry")
            cancelled.append(entry)

    class Request:
        def __init__(self, name: str) -> None:
            self.id = self.name = self._eta_timer_entry = name

    waiting, broken, reserved, runs = map(Request, ("waiting", "broken", "reserved", "runs"))
    consumer.timer = OwnTimer()
    try:
        for each in (waiting, broken):
            state.task_scheduled(each)
        state.task_reserved(reserved)
        state.task_accepted(runs)
        state.scheduled_requests.add(runs)  # its timer was faster
        consumer.on_close()
        assert sorted(cancelled) == ["runs", "waiting"]
        assert "Could not cancel the timer of broken" in caplog.text
        assert not state.scheduled_requests
        assert state.requests == {"runs": runs}
        assert runs in state.active_requests
    finally:
        state.reset_state()
