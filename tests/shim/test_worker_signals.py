"""What a program is told of its worker, and how it takes logging into its own hands."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from celery.apps.worker import safe_say

pytestmark = pytest.mark.integration

TELLING = """
import json
from celery import signals

NAMES = (
    *("import_modules", "celeryd_init", "worker_init", "after_setup_logger"),
    *("after_setup_task_logger", "celeryd_after_setup", "worker_process_init", "worker_ready"),
    *("task_received", "task_unknown", "worker_shutting_down", "worker_process_shutdown"),
    "worker_shutdown",
)

def listen(name):
    def receiver(signal=None, sender=None, **fields):
        told = {name: repr(value) for name, value in fields.items()}
        with open("told", "a") as file:
            file.write(json.dumps([name, repr(sender), told]) + "\\n")
    getattr(signals, name).connect(receiver, weak=False)

for name in NAMES:
    listen(name)
"""


def told(program: Any) -> list[tuple[str, str, dict[str, str]]]:
    return [json.loads(line) for line in (program.folder / "told").read_text().splitlines()]


def test_signals_of_a_workers_life_in_order(program: Any) -> None:
    program.add_to_tasks(TELLING)
    worker = program.ready_worker("-P", "solo", "-n", "w1@box")
    program.celery("-A", "proj", "call", "proj.add", "-a", "[1, 2]")
    worker.wait_for("succeeded")
    assert worker.stop() == 0
    heard = [(name, sender) for name, sender, _ in told(program)]
    assert [name for name, _ in heard] == [
        *("import_modules", "celeryd_init", "worker_init", "after_setup_logger"),
        *("after_setup_task_logger", "celeryd_after_setup", "worker_process_init", "worker_ready"),
        *("task_received", "worker_shutting_down", "worker_process_shutdown", "worker_shutdown"),
    ]
    senders = dict(heard)
    assert senders["celeryd_init"] == senders["celeryd_after_setup"] == "'w1@box'"
    assert senders["worker_init"] == "<Worker: w1@box (INIT)>"
    assert senders["worker_ready"] == "<Consumer: w1@box (running)>"
    assert senders["worker_shutdown"] == "<Worker: w1@box (terminating)>"


def test_a_received_request_tells_what_came(program: Any) -> None:
    program.add_to_tasks(TELLING)
    worker = program.ready_worker("-n", "w1@box")
    sent = program.celery("-A", "proj", "call", "proj.add", "-a", "[1, 2]").stdout.strip()
    worker.wait_for("succeeded")
    program.celery("-A", "proj", "call", "no.such")
    worker.wait_for("unregistered")
    worker.stop()
    fields = {name: fields for name, _, fields in told(program)}
    assert fields["task_received"] == {"request": f"<Request: proj.add[{sent}] [1, 2] {{}}>"}
    assert fields["task_unknown"]["name"] == "'no.such'"
    assert fields["worker_shutting_down"] == {"sig": "'SIGTERM'", "how": "'Warm'", "exitcode": "0"}


def test_what_holds_a_canvas_together_is_no_task_of_the_programs(program: Any) -> None:
    program.add_to_tasks(
        TELLING
        + """
@app.task
def total(numbers):
    return sum(numbers)

@app.task
def fail():
    raise ValueError("deliberate")

@app.task
def note(task_id):
    return "noted"
"""
    )
    worker = program.ready_worker("-P", "solo")
    ran = program.ask("""
        import json
        from celery import chord, group
        from proj import add, fail, note, total
        wide = group(add.s(n, n) for n in range(32))  # its list is gathered by a job of its own
        assert (wide | group(total.s(), total.s())).apply_async().get(timeout=60) == [992, 992]
        chord([fail.s()], total.s().on_error(note.s())).apply_async()
        print(json.dumps(True))
    """)
    assert ran
    worker.wait_for("'noted'")
    worker.stop()
    heard = [(name, fields) for name, _, fields in told(program)]
    assert "task_unknown" not in dict(heard)
    requests = [fields["request"] for name, fields in heard if name == "task_received"]
    assert len(requests) == 32 + 2 + 2
    assert all(each.startswith("<Request: proj.") for each in requests)


def test_there_is_no_process_of_a_pool_with_threads(program: Any) -> None:
    program.add_to_tasks(TELLING)
    assert program.ready_worker("-P", "threads").stop() == 0
    names = {name for name, _, _ in told(program)}
    assert not names & {"worker_process_init", "worker_process_shutdown"}
    assert "worker_shutdown" in names


def test_queues_may_be_added_when_the_worker_is_set_up(program: Any) -> None:
    program.add_to_tasks("""
        from celery.signals import celeryd_after_setup

        @celeryd_after_setup.connect
        def own_queue(sender, instance, **kwargs):
            instance.app.amqp.queues.select_add(f"{sender}.dq")
    """)
    worker = program.ready_worker("-n", "w1@box")
    program.celery("-A", "proj", "call", "proj.add", "-a", "[1, 2]", "--queue", "w1@box.dq")
    worker.wait_for("succeeded")


def test_a_program_may_configure_logging_itself(program: Any) -> None:
    program.add_to_tasks("""
        import logging
        from celery.signals import setup_logging

        @setup_logging.connect
        def own(loglevel, **kwargs):
            logging.basicConfig(format="mine %(levelname)s %(name)s %(message)s", level=loglevel)

        @app.task
        def talk():
            print("printed")
    """)
    worker = program.ready_worker()
    assert worker.lines[-1].startswith("mine INFO celery.apps.worker celery@")
    program.celery("-A", "proj", "call", "proj.talk")
    assert worker.wait_for("printed") == "printed"


def test_a_program_may_add_to_the_logging_and_choose_formats(program: Any) -> None:
    program.add_to_tasks("""
        import logging
        from celery.signals import after_setup_logger, after_setup_task_logger

        app.conf.worker_log_format = "all %(message)s"
        app.conf.worker_task_log_format = "task %(task_name)s %(message)s"

        @after_setup_logger.connect
        def add_file(logger, loglevel, **kwargs):
            logger.addHandler(logging.FileHandler("also.log"))

        @after_setup_task_logger.connect
        def add_task_file(logger, **kwargs):
            logger.addHandler(logging.FileHandler("tasks.log"))

        @app.task
        def talk():
            logger.warning("hello")
    """)
    worker = program.ready_worker()
    program.celery("-A", "proj", "call", "proj.talk")
    assert worker.wait_for("hello") == "task proj.talk hello"
    assert worker.wait_for("succeeded").startswith("all Task proj.talk[")
    assert worker.stop() == 0
    assert (program.folder / "tasks.log").read_text() == "hello\n"
    assert "succeeded" in (program.folder / "also.log").read_text()


def test_handlers_of_the_root_logger_stay_on_request(program: Any) -> None:
    program.add_to_tasks("""
        import logging
        app.conf.worker_hijack_root_logger = False
        logging.basicConfig(format="kept %(message)s")
    """)
    worker = program.ready_worker()
    assert worker.lines[-1].startswith("kept celery@")


def test_prints_are_left_alone_on_request(program: Any) -> None:
    program.add_to_tasks("""
        app.conf.worker_redirect_stdouts = False

        @app.task
        def talk():
            print("printed")
    """)
    worker = program.ready_worker()
    program.celery("-A", "proj", "call", "proj.talk")
    assert worker.wait_for("printed") == "printed"


def test_what_a_handler_says_gets_out(capfd: pytest.CaptureFixture[str]) -> None:
    safe_say("to the errors")
    safe_say("to the rest", sys.__stdout__)
    safe_say("to nobody", None)
    assert capfd.readouterr() == ("\nto the rest\n", "\nto the errors\n")
