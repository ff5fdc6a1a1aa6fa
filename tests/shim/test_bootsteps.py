"""Steps of the program's own: ordered, made with the worker, started and stopped with it."""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import queue
from typing import Any

import pytest
from tests.shim.own_queue import OwnQueue

from celery import Celery, bootsteps
from celery.contrib.testing.worker import start_worker

pytestmark = pytest.mark.unit


class Parent:
    def __init__(self) -> None:
        self.steps: list[Any] = []
        self.seen: list[str] = []


class Noting(bootsteps.StartStopStep):
    def start(self, parent: Any) -> None:
        parent.seen.append(f"start {self.alias}")

    def stop(self, parent: Any) -> None:
        parent.seen.append(f"stop {self.alias}")

    def terminate(self, parent: Any) -> None:
        parent.seen.append(f"terminate {self.alias}")


class First(Noting):
    pass


class Second(Noting):
    requires = (First,)


class Third(Noting):
    requires = (f"{__name__}:Second",)


class Behind(Noting):
    last = True


class Disabled(Noting):
    requires = (First,)
    enabled = False


def blueprint(*steps: Any, **options: Any) -> tuple[bootsteps.Blueprint, Parent]:
    parent = Parent()
    made = bootsteps.Blueprint(steps=steps, name="Test")
    return made.apply(parent, **options), parent


def test_steps_start_behind_what_they_require_and_stop_the_other_way_round() -> None:
    made, parent = blueprint(Behind, Third, Disabled)
    made.start(parent)
    assert parent.seen == [f"start {name}" for name in ("First", "Second", "Third", "Behind")]
    assert made.human_state() == "running"
    parent.seen.clear()
    made.stop(parent)
    assert parent.seen == [f"stop {name}" for name in ("Behind", "Third", "Second", "First")]
    made.stop(parent)
    assert len(parent.seen) == 4
    made.join(timeout=0)
    assert isinstance(made[First.name], First)


def test_there_may_be_no_time_to_stop() -> None:
    made, parent = blueprint(First)
    made.start(parent)
    made.stop(parent, terminate=True)
    assert parent.seen == ["start First", "terminate First"]


def test_what_has_not_started_is_not_stopped() -> None:
    class Broken(Noting):
        requires = (First,)

        def start(self, parent: Any) -> None:
            raise OSError("no port")

    class Later(Noting):
        requires = (Broken,)

    made, parent = blueprint(Later)
    with pytest.raises(OSError, match="no port"):
        made.start(parent)
    made.stop(parent)
    assert parent.seen == ["start First", "stop Broken", "stop First"]


def test_steps_that_require_each_other_are_refused() -> None:
    class A(Noting):
        pass

    class B(Noting):
        requires = (A,)

    A.requires = (B,)
    with pytest.raises(ValueError, match=r"steps of Test require each other: .*A"):
        blueprint(A)


def test_a_service_that_is_created_is_started_and_stopped() -> None:
    seen: list[Any] = []

    class Service:
        def start(self) -> None:
            seen.append("start")

        def stop(self) -> None:
            seen.append("stop")

    class WithService(bootsteps.StartStopStep):
        def __init__(self, parent: Any, port: int = 0, **options: Any) -> None:
            seen.append((port, options))

        def create(self, parent: Any) -> Any:
            return Service()

    made, parent = blueprint(WithService, port=7, other=1)
    made.start(parent)
    made.stop(parent, terminate=True)
    assert seen == [(7, {"other": 1}), "start", "stop"]


def test_steps_of_the_program_live_with_its_worker(app: Celery) -> None:
    seen: list[Any] = []
    ticks: queue.SimpleQueue[str] = queue.SimpleQueue()

    class OfWorker(bootsteps.StartStopStep):
        requires = ("celery.worker.components:Timer", "celery.worker.components:Pool")

        def __init__(self, parent: Any, **options: Any) -> None:
            seen.append(("made", options["concurrency"]))

        def start(self, parent: Any) -> None:
            seen.append(("start", parent.hostname == parent.consumer.hostname))
            parent.timer.call_repeatedly(0.001, ticks.put, ("tick",), priority=10)

        def stop(self, parent: Any) -> None:
            seen.append(("stop", parent.state_name))

    class OfConsumer(bootsteps.StartStopStep):
        requires = ("celery.worker.consumer.connection:Connection",)

        def start(self, parent: Any) -> None:
            seen.append(("consumer", parent.app is app))

        def stop(self, parent: Any) -> None:
            seen.append("consumer stops")

    app.steps["worker"].add(OfWorker)
    app.steps["consumer"].add(OfConsumer)
    with start_worker(app, perform_ping_check=False, concurrency=1):
        assert app.tasks["t.add"].delay(1, 2).get(timeout=10) == 3
        assert ticks.get(timeout=10) == "tick"
    assert seen[:3] == [("made", 1), ("start", True), ("consumer", True)]
    assert seen[3] == "consumer stops"
    assert seen[4][0] == "stop"


def test_a_consumer_step_gets_messages_of_its_own(app: Celery) -> None:
    own = OwnQueue()
    app.steps["consumer"].add(own.step)
    with start_worker(app, perform_ping_check=False, concurrency=1):
        own.publish(app, {"a": 1})
        assert own.got.get(timeout=10) == {"a": 1}


def test_a_step_that_cannot_start_ends_the_worker(program: Any) -> None:
    program.add_to_tasks("""
        from celery import bootsteps

        class Broken(bootsteps.StartStopStep):
            def start(self, parent):
                raise OSError("no port")

        app.steps["worker"].add(Broken)
    """)
    worker = program.worker("-P", "solo")
    worker.wait_for(r"Unrecoverable error: OSError\('no port'\)")
    assert worker.process.wait(timeout=20) == 1


def test_two_blueprints_in_one_graph() -> None:
    (outer, _), (inner, _) = blueprint(First, Behind), blueprint(Second)
    outer.connect_with(inner)
    assert {First, Second, Behind} <= set(outer.graph)
    assert Second in outer.graph[Behind]


def test_a_drawing_marks_the_last_step_and_those_on_condition() -> None:
    draw = bootsteps.StepFormatter()
    labels = [draw.label(step) for step in (First, Behind)]
    assert labels == ["First", f"{draw.blueprint_prefix}Behind"]
    assert 'arrowhead="none"' in draw.edge(Behind, First)
    assert 'arrowhead="none"' not in draw.edge(First, Second)


def test_a_restart_can_be_told_to_raise() -> None:
    class Failing(Noting):
        def stop(self, parent: Any) -> None:
            raise OSError("stuck")

    made, parent = blueprint(Failing)
    made.start(parent)
    made.restart(parent)
    with pytest.raises(OSError, match="stuck"):
        made.restart(parent, propagate=True)
    made.shutdown_complete.set()
    made.join(timeout=1)
