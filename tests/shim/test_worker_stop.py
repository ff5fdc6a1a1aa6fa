"""How workers end, and what becomes of their tasks: by signal, by kill, by a second worker."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_for

pytestmark = pytest.mark.faults


SLOW = """
import os, time
from pathlib import Path

@app.task(bind=True)
def slow(self):
    # Runs until the file is there; every start is written down.
    with open("starts", "a") as starts:
        starts.write(f"{os.getpid()}\\n")
    while not Path("go").exists():
        time.sleep(0.02)
    return self.request.delivery_info["redelivered"]
"""

GRACE = "app.conf.worker_soft_shutdown_timeout = {}\n"


@pytest.fixture
def slow(program: Any, tmp_path: Path) -> Callable[..., Any]:
    """Starts a worker that is in the middle of a slow task; gives it and the task's id."""

    def start(*options: str, more: str = "", **environment: str) -> tuple[Any, str]:
        program.add_to_tasks(SLOW + more)
        worker = program.ready_worker(*options, **environment)
        sent = program.celery("-A", "proj", "call", "proj.slow").stdout.strip()
        wait_for((tmp_path / "starts").exists)
        return worker, sent

    return start


def starts(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "starts").read_text().splitlines()]


@pytest.mark.parametrize("pool", ["solo", "threads"])
def test_term_finishes_what_runs_and_exits_with_0(
    pool: str, slow: Callable[..., Any], program: Any, tmp_path: Path
) -> None:
    worker, sent = slow("-P", pool)
    worker.send(signal.SIGTERM)
    worker.wait_for(r"^worker: Warm shutdown \(MainProcess\)$")
    (tmp_path / "go").touch()
    assert worker.exit_code() == 0
    assert f"proj.slow[{sent}] succeeded" in worker.output
    assert program.celery("-A", "proj", "result", sent).stdout == "False\n"


def test_the_first_interrupt_is_warm_the_second_cold(
    slow: Callable[..., Any], program: Any, tmp_path: Path
) -> None:
    worker, sent = slow("-P", "threads", TASKMQ_LEASE="1")
    worker.send(signal.SIGINT)
    worker.wait_for("^worker: Hitting Ctrl\\+C again will initiate cold shutdown, terminating all")
    worker.wait_for(r"^worker: Warm shutdown \(MainProcess\)$")
    worker.send(signal.SIGINT)
    worker.wait_for("^worker: Hitting Ctrl\\+C again will terminate all running tasks!$")
    worker.wait_for(r"^worker: Cold shutdown \(MainProcess\)$")
    assert worker.exit_code() == 1
    (tmp_path / "go").touch()
    program.ready_worker(TASKMQ_LEASE="1").wait_for(rf"slow\[{sent}\] succeeded in \S+ True")


def test_quit_is_cold_at_once(slow: Callable[..., Any]) -> None:
    worker, _ = slow("-P", "threads")
    assert worker.stop(signal.SIGQUIT) == 1
    assert "worker: Cold shutdown (MainProcess)" in worker.output


def test_term_can_be_made_cold(slow: Callable[..., Any]) -> None:
    worker, _ = slow("-P", "threads", REMAP_SIGTERM="SIGQUIT")
    assert worker.stop(signal.SIGTERM) == 1


def test_what_runs_has_some_time_before_a_cold_shutdown(
    slow: Callable[..., Any], program: Any, tmp_path: Path
) -> None:
    worker, sent = slow("-P", "prefork", "-c", "1", more=GRACE.format(60.0))
    worker.send(signal.SIGQUIT)
    worker.wait_for(r"Initiating Soft Shutdown, terminating in 60\.0 seconds$")
    (tmp_path / "go").touch()
    worker.wait_for(r"^worker: Cold shutdown \(MainProcess\)$")
    assert worker.exit_code() == 1
    assert f"proj.slow[{sent}] succeeded" in worker.output
    assert "Restoring" not in worker.output


def test_what_has_not_ended_in_that_time_goes_back_to_its_queue(
    slow: Callable[..., Any], program: Any, tmp_path: Path
) -> None:
    worker, sent = slow("-P", "prefork", "-c", "1", more=GRACE.format(0.2))
    assert worker.stop(signal.SIGQUIT) == 1
    assert "Restoring 1 unacknowledged message(s)" in worker.output
    (tmp_path / "go").touch()
    program.ready_worker().wait_for(rf"slow\[{sent}\] succeeded")


def test_a_second_signal_does_not_wait_for_that_time(
    slow: Callable[..., Any], program: Any
) -> None:
    worker, _ = slow("-P", "prefork", "-c", "1", more=GRACE.format(60.0))
    worker.send(signal.SIGQUIT)
    worker.wait_for("Initiating Soft Shutdown")
    assert worker.stop(signal.SIGQUIT) == 1
    assert "Waiting gracefully for cold shutdown to complete..." in worker.output


def test_an_idle_worker_has_nothing_to_wait_for_unless_told(program: Any) -> None:
    program.add_to_tasks(GRACE.format(60.0))
    worker = program.ready_worker("-P", "solo")
    assert worker.stop(signal.SIGQUIT) == 1
    assert "Soft Shutdown" not in worker.output
    program.add_to_tasks(
        GRACE.format(60.0) + "app.conf.worker_enable_soft_shutdown_on_idle = True\n"
    )
    worker = program.ready_worker("-P", "solo")
    assert worker.stop(signal.SIGQUIT) == 1
    assert "Initiating Soft Shutdown" in worker.output


def test_three_interrupts_leave_even_a_task_in_the_main_thread(slow: Callable[..., Any]) -> None:
    worker, _ = slow("-P", "solo")
    for expected in ("Warm shutdown", "Cold shutdown"):
        worker.send(signal.SIGINT)
        worker.wait_for(expected)
    assert worker.stop(signal.SIGINT) == 1


def test_a_killed_workers_task_runs_again_in_the_next_and_none_is_lost(
    slow: Callable[..., Any], program: Any, tmp_path: Path
) -> None:
    first, sent = slow("-c", "1", "-P", "threads", TASKMQ_LEASE="1")
    ids = program.ask("""
        import json; from proj import add
        print(json.dumps([add.delay(n, n).id for n in range(20)]))
    """)
    first.kill()
    (tmp_path / "go").touch()
    second = program.ready_worker("-P", "threads", TASKMQ_LEASE="1")
    results = program.ask(f"""
        import json; from proj import app
        print(json.dumps([app.AsyncResult(one).get(timeout=15) for one in {[sent, *ids]!r}]))
    """)
    assert results == [True, *(n + n for n in range(20))]
    assert starts(tmp_path) == [first.process.pid, second.process.pid]


def test_hup_starts_anew_in_the_same_process(program: Any) -> None:
    worker = program.ready_worker("-P", "solo")
    worker.send(signal.SIGHUP)
    worker.wait_for("^Restarting celery worker ")
    worker.wait_for(r" ready\.$")
    program.celery("-A", "proj", "call", "proj.add", "-a", "[1, 2]")
    worker.wait_for("succeeded")
    assert worker.stop() == 0


def test_usr1_shows_where_every_thread_is(program: Any) -> None:
    worker = program.ready_worker()
    worker.send(signal.SIGUSR1)
    worker.wait_for("most recent call first")
    assert worker.stop() == 0


def test_a_pid_file_lets_only_one_worker_in(program: Any, tmp_path: Path) -> None:
    first = program.ready_worker("--pidfile", "%n.pid", "-n", "w1@box")
    path = tmp_path / "w1.pid"
    assert path.read_text() == f"{first.process.pid}\n"
    second = program.celery("-A", "proj", "-q", "worker", "--pidfile", str(path))
    assert second.returncode == 73
    assert f"ERROR: Pidfile ({path}) already exists." in second.stderr
    assert first.stop() == 0
    assert not path.exists()


def test_detached_it_goes_on_in_the_background(program: Any, tmp_path: Path) -> None:
    pidfile, log = tmp_path / "w.pid", tmp_path / "w.log"
    options = ["-D", "-l", "INFO", "--pidfile", str(pidfile), "-f", str(log)]
    assert program.celery("-A", "proj", "worker", *options).returncode == 0
    wait_for(lambda: log.exists() and " ready." in log.read_text())
    pid = int(pidfile.read_text())
    try:
        sent = program.celery("-A", "proj", "call", "proj.add", "-a", "[1, 2]").stdout.strip()
        wait_for(lambda: f"proj.add[{sent}] succeeded" in log.read_text())
    finally:
        os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not pidfile.exists())
    assert "Traceback" not in log.read_text()
