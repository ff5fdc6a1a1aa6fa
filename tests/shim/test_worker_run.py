"""``celery worker`` as a process: what it prints, what it runs, which jobs it takes."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.integration

ID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
STAMP = r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: "


def test_the_banner_tells_who_it_is_and_what_it_does(program: Any) -> None:
    worker = program.ready_worker("-c", "3", "-P", "threads", "-n", "w1@%h", "-Q", "a,b")
    worker.stop()
    text = worker.output
    host = socket.gethostname()
    assert re.search(rf"w1@{host} v\d+\.\d+\.\d+", text)
    assert re.search(r"\.> app: +proj:0x[0-9a-f]+$", text, re.MULTILINE)
    assert re.search(rf"\.> transport: +{re.escape(program.url)}$", text, re.MULTILINE)
    assert re.search(r"\.> results: ", text)
    assert re.search(r"\.> concurrency: 3 \(thread\)$", text, re.MULTILINE)
    assert re.search(r"\.> task events: OFF \(enable -E", text)
    assert [re.sub(" +", " ", line.strip()) for line in worker.lines if "exchange=" in line] == [
        ".> a exchange=a(direct) key=a",
        ".> b exchange=b(direct) key=b",
    ]
    assert "[tasks]\n  . proj.add" in text
    assert f": INFO/MainProcess] w1@{host} ready." in text


def test_a_task_is_received_and_succeeds(program: Any) -> None:
    worker = program.ready_worker("-P", "solo")
    sent = program.celery("-A", "proj", "call", "proj.add", "-a", "[2, 3]").stdout.strip()
    received = worker.wait_for("received")
    assert re.search(rf"{STAMP}INFO/MainProcess\] Task proj\.add\[{sent}\] received$", received)
    ended = worker.wait_for("succeeded")
    assert re.search(rf"Task proj\.add\[{sent}\] succeeded in [\d.e-]+s: 5$", ended)
    assert program.celery("-A", "proj", "result", sent).stdout == "5\n"
    assert worker.stop() == 0


def test_failures_are_logged_with_their_traceback_and_expected_ones_without(program: Any) -> None:
    program.add_to_tasks("""
        @app.task
        def boom():
            raise ValueError("bang")

        @app.task(throws=(KeyError,))
        def expected():
            raise KeyError("gone")
    """)
    worker = program.ready_worker()
    program.celery("-A", "proj", "call", "proj.boom")
    line = worker.wait_for("boom.*raised")
    assert re.search(
        rf"ERROR/ForkPoolWorker-\d+\] Task proj\.boom\[{ID}\] raised unexpected: ValueError", line
    )
    assert worker.wait_for("Traceback").startswith("Traceback (most recent call last):")
    assert worker.wait_for("^ValueError: bang$")
    program.celery("-A", "proj", "call", "proj.expected")
    line = worker.wait_for("expected.*raised")
    assert re.search(
        rf"INFO/ForkPoolWorker-\d+\] Task proj\.expected\[{ID}\] raised expected: KeyError", line
    )
    worker.stop()
    assert worker.output.count("Traceback") == 1


def test_retries_are_logged_and_happen(program: Any) -> None:
    program.add_to_tasks("""
        @app.task(bind=True, max_retries=2)
        def flaky(self):
            if self.request.retries < 2:
                raise self.retry(countdown=0.05, exc=OSError("not yet"))
            return self.request.retries
    """)
    worker = program.ready_worker()
    result = program.ask("""
        import json; from proj import flaky
        print(json.dumps(flaky.delay().get(timeout=15)))
    """)
    worker.stop()
    assert result == 2
    retries = re.findall(r"Task proj\.flaky\[\S+\] retry: (.*)", worker.output)
    assert retries == ["Retry in 0.05s: OSError('not yet')"] * 2
    assert len(re.findall(r"flaky\[\S+\] received", worker.output)) == 3


def test_what_tasks_print_and_log_is_logged(program: Any) -> None:
    program.add_to_tasks("""
        @app.task
        def talk():
            print("printed")
            logger.info("logged")
    """)
    worker = program.ready_worker("-P", "threads")
    sent = program.celery("-A", "proj", "call", "proj.talk").stdout.strip()
    assert worker.wait_for("printed").endswith(": WARNING/MainProcess] printed")
    assert worker.wait_for("logged").endswith(f": INFO/MainProcess] proj.talk[{sent}]: logged")


def test_only_the_chosen_queues_are_worked_on(program: Any) -> None:
    worker = program.ready_worker("-Q", "a,b", "-X", "b")
    ids = program.ask("""
        import json; from proj import add
        sent = {queue: add.apply_async((1, 1), queue=queue) for queue in ("b", "celery", "a")}
        sent["a"].get(timeout=15)
        print(json.dumps({queue: result.state for queue, result in sent.items()}))
    """)
    assert ids == {"a": "SUCCESS", "b": "PENDING", "celery": "PENDING"}
    assert worker.stop() == 0


def test_a_task_that_nobody_knows_waits_for_a_worker_that_does(program: Any) -> None:
    program.write("from celery import Celery\napp = Celery('other')\n", "other.py")
    ignorant = program.ready_worker(app="other")
    sent = program.celery("-A", "proj", "call", "proj.add", "-a", "[1, 2]").stdout.strip()
    ignorant.wait_for(r"ERROR/MainProcess\] Received unregistered task of type 'proj.add'\.")
    assert ignorant.stop() == 0
    program.ready_worker().wait_for(rf"proj\.add\[{sent}\] succeeded")


def test_quiet_and_little_logging(program: Any) -> None:
    worker = program.worker("-q", "-l", "WARNING", "--pidfile", "w.pid")
    program.ask("""
        import json; from proj import add
        print(json.dumps(add.delay(1, 2).get(timeout=15)))
    """)
    assert worker.stop() == 0
    # Of root it is said that it is root; what Python shows of that is two lines.
    said = [line for line in worker.lines if line and "SecurityWarning" not in line]
    said = [line for line in said if "check_privileges(" not in line]
    assert said == ["worker: Warm shutdown (MainProcess)"]


def test_a_log_file_takes_the_log(program: Any, tmp_path: Path) -> None:
    worker = program.worker("-l", "INFO", "-n", "w1@box", "-f", "%n.log")
    program.ask("""
        import json; from proj import add
        print(json.dumps(add.delay(1, 2).get(timeout=15)))
    """)
    assert worker.stop() == 0
    assert "succeeded" in (tmp_path / "w1.log").read_text()
    assert "succeeded" not in worker.output


def test_purge_deletes_what_waits(program: Any) -> None:
    for _ in range(2):
        program.celery("-A", "proj", "call", "proj.add", "-a", "[1, 2]")
    worker = program.ready_worker("--purge")
    assert worker.stop() == 0
    assert "purge: Erased 2 messages from the queue.\n" in worker.output
    assert "received" not in worker.output


def test_pools_that_are_not_there_yet_are_said_to_be_threads(program: Any) -> None:
    worker = program.ready_worker("-P", "gevent", "-c", "2")
    assert worker.stop() == 0
    assert ".> concurrency: 2 (gevent, as threads)" in worker.output
    assert re.search(r"INFO/MainProcess\] Pool gevent: .*; tasks run in 2 threads", worker.output)


def test_options_without_meaning_are_named(program: Any) -> None:
    ignored = ["--max-tasks-per-child=5", "--time-limit=5", "--autoscale=4,1"]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-O", "fair"]
    worker = program.ready_worker("-P", "threads", "-E", *ignored, *quiet)
    assert worker.stop() == 0
    named = set(re.findall(r"Option --(\S+):", worker.output))
    assert named == {"max-tasks-per-child", "time-limit", "autoscale"}
    assert ".> task events: ON" in worker.output


def test_modules_can_be_included_and_settings_given_on_the_command_line(program: Any) -> None:
    program.write(
        """
        from proj import app
        @app.task
        def zone():
            return app.conf.timezone
        """,
        "more.py",
    )
    program.ready_worker("-I", "more", "--", "timezone=Europe/Oslo")
    sent = program.celery("-A", "proj", "call", "more.zone").stdout.strip()
    assert program.celery("-A", "proj", "result", sent).stdout == "Europe/Oslo\n"
