"""The end of a child process: libraries send there what they have collected."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from celery.concurrency import prefork

pytestmark = pytest.mark.unit


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is called, in order."""
    seen: list[Any] = []
    monkeypatch.setattr(prefork, "process_destructor", lambda *args: seen.append(args))
    return seen


def test_what_libraries_do_after_billiards_loop_and_before_its_exit_is_done(
    told: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from billiard.pool import Worker

    def after(method: str) -> None:
        original = getattr(Worker, method)

        def patched(self: Any, *args: Any, **kwargs: Any) -> Any:
            told.append(method)
            try:
                return original(self, *args, **kwargs)
            finally:
                told.append(f"{method} is over")

        monkeypatch.setattr(Worker, method, patched)

    after("workloop")
    after("_do_exit")
    prefork.end_child(0)
    assert told == [
        "workloop",
        "workloop is over",
        "_do_exit",
        (os.getpid(), 0),
        "_do_exit is over",
    ]


def test_a_child_whose_process_never_saw_billiards_pool_does_not_import_it(
    told: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "billiard.pool", raising=False)
    prefork.end_child(3)
    assert told == [(os.getpid(), 3)]
    assert "billiard.pool" not in sys.modules


def test_a_real_child_goes_through_them(program: Any) -> None:
    program.add_to_tasks("""
        import os
        from billiard.pool import Worker
        from celery.concurrency import prefork

        def mark(owner, name):
            original = getattr(owner, name)
            def patched(*args, **kwargs):
                try:
                    return original(*args, **kwargs)
                finally:
                    open(f"{name}-{os.getpid()}", "w").close()
            setattr(owner, name, patched)

        mark(Worker, "workloop")
        mark(Worker, "_do_exit")
        mark(prefork, "process_initializer")

        @app.task
        def pid():
            return os.getpid()
    """)
    worker = program.ready_worker("-c", "1")
    child = program.ask("import json; from proj import pid; print(pid.delay().get(timeout=15))")
    assert worker.stop() == 0
    for name in ("process_initializer", "workloop", "_do_exit"):
        assert (program.folder / f"{name}-{child}").exists()


def test_a_child_that_dies_is_told_of_as_in_celery(program: Any) -> None:
    program.add_to_tasks("""
        import os

        @app.task(acks_late=False)
        def leave():
            os._exit(7)
    """)
    worker = program.ready_worker("-c", "1")
    sent = program.celery("-A", "proj", "call", "proj.leave").stdout.strip()
    told = f"Worker exited prematurely: exitcode 7 Job: {sent}."
    worker.wait_for(rf"Task handler raised error: WorkerLostError\('{told}'\)")


def test_a_task_that_exits_has_failed_and_its_child_ends(program: Any) -> None:
    program.add_to_tasks("""
        import os, sys

        @app.task
        def leave():
            sys.exit(3)

        @app.task
        def pid():
            return os.getpid()
    """)
    worker = program.ready_worker("-c", "1")
    before, failed, after = program.ask("""
        import json; from proj import leave, pid
        before, left = pid.delay().get(timeout=15), leave.delay()
        error = left.get(timeout=15, propagate=False)
        print(json.dumps([before, repr(error), pid.delay().get(timeout=15)]))
    """)
    assert failed.startswith("WorkerLostError('Worker exited prematurely: exitcode 3 Job: ")
    assert before != after
    assert worker.stop() == 0
