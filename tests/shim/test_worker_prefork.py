"""Tasks in child processes: limits, replacement, what is told there."""

from __future__ import annotations

import re
from typing import Any


def test_a_soft_limit_can_be_caught_and_a_hard_one_ends_the_task(program: Any) -> None:
    program.add_to_tasks("""
        import logging
        import time
        from celery import Task
        from celery.exceptions import SoftTimeLimitExceeded
        from celery.signals import task_failure
        from celery.worker.request import Request

        log = logging.getLogger("ends")

        @app.task(soft_time_limit=0.1, time_limit=10)
        def patient():
            try:
                time.sleep(30)
            except SoftTimeLimitExceeded:
                return "cleaned up"

        class Telling(Request):
            def on_timeout(self, soft, timeout):
                super().on_timeout(soft, timeout)
                log.warning("limit of %s: %s", timeout, self.task.name)

        class Heard(Task):
            Request = Telling

            def on_failure(self, exc, task_id, args, kwargs, einfo):
                log.warning("hook: %r", exc)

        @task_failure.connect
        def on_signal(sender, exception, **kwargs):
            log.warning("signal: %r", exception)

        @app.task(base=Heard)
        def endless():
            while True:
                pass
    """)
    worker = program.ready_worker("-c", "1")
    answers = program.ask("""
        import json; from proj import add, patient, endless
        soft = patient.delay().get(timeout=15)
        hard = endless.apply_async(time_limit=0.2)
        error = hard.get(timeout=15, propagate=False)
        print(json.dumps([soft, hard.state, type(error).__name__, error.args, hard.id,
                          add.delay(1, 2).get(timeout=15)]))
    """)
    assert worker.stop() == 0
    assert answers[:4] == ["cleaned up", "FAILURE", "TimeLimitExceeded", [0.2]]
    assert answers[5] == 3
    line = f"Hard time limit (0.2s) exceeded for proj.endless[{answers[4]}]"
    assert re.search(rf"ERROR/MainProcess\] {re.escape(line)}", worker.output)
    told = re.findall(r"WARNING/MainProcess\] (hook.*|signal.*|limit of.*)", worker.output)
    assert told == [
        "hook: TimeLimitExceeded(0.2)",
        "signal: TimeLimitExceeded(0.2)",
        "limit of 0.2: proj.endless",
    ]


def test_a_call_by_name_has_the_limits_of_the_worker(program: Any) -> None:
    program.add_to_tasks("""
        import time

        @app.task(time_limit=0.2)
        def short():
            time.sleep(60)

        @app.task
        def plain():
            time.sleep(60)
    """)
    worker = program.ready_worker("-c", "1", "--soft-time-limit", "0.3")
    answers = program.ask("""
        import json
        from celery import Celery
        from proj import app
        calls = Celery("other", broker=app.conf.broker_url, backend="rpc://").send_task
        errors = [calls(f"proj.{name}").get(timeout=50, propagate=False)
                  for name in ("short", "plain")]
        print(json.dumps([repr(error) for error in errors]))
    """)
    assert worker.stop() == 0
    assert answers == ["TimeLimitExceeded(0.2)", "SoftTimeLimitExceeded()"]


def test_every_child_is_told_when_it_begins_and_ends(program: Any) -> None:
    program.add_to_tasks("""
        import os
        from celery.signals import worker_process_init, worker_process_shutdown

        @worker_process_init.connect(sender="w1@box")
        def begin(**kwargs):
            open(f"begun-{os.getpid()}", "w").close()

        @worker_process_shutdown.connect(sender="w1@box")
        def end(pid, exitcode, **kwargs):
            open(f"ended-{pid}-{exitcode}", "w").close()

        @worker_process_init.connect(sender="another@box")
        def never(**kwargs):
            os._exit(1)

        @app.task
        def pid():
            return os.getpid()
    """)
    worker = program.ready_worker("-n", "w1@box", "-c", "1", "--max-tasks-per-child=2")
    pids = program.ask("""
        import json; from proj import pid
        print(json.dumps([pid.delay().get(timeout=15) for _ in range(4)]))
    """)
    assert worker.stop() == 0
    assert worker.process.pid not in pids
    assert pids[0] == pids[1] != pids[2] == pids[3]
    for one in set(pids):
        assert (program.folder / f"begun-{one}").exists()
        assert (program.folder / f"ended-{one}-0").exists()


def test_terminate_kills_what_runs(program: Any) -> None:
    program.add_to_tasks("""
        import time

        @app.task
        def sleep():
            open("sleeps", "w").close()
            time.sleep(60)
    """)
    worker = program.ready_worker("-c", "1")
    state = program.ask("""
        import json, os, time; from proj import add, sleep
        result = sleep.delay()
        while not os.path.exists("sleeps"):
            time.sleep(0.01)
        result.revoke(terminate=True)
        while not result.ready():
            time.sleep(0.01)
        print(json.dumps([result.state, add.delay(1, 2).get(timeout=15)]))
    """)
    assert worker.stop() == 0
    assert state == ["REVOKED", 3]


def test_a_broker_in_memory_keeps_tasks_in_the_workers_process(program: Any) -> None:
    worker = program.ready_worker("-c", "2", CELERY_BROKER_URL="memory://")
    assert worker.stop() == 0
    assert "the broker is of this process alone; tasks run in threads" in worker.output
