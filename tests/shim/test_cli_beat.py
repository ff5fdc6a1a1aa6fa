"""``celery beat``, and ``celery worker -B``."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

pytestmark = pytest.mark.integration

TICKING = """
from celery.beat import Scheduler

app.conf.beat_schedule = {"tick": {"task": "proj.tick", "schedule": 0.05}}

@app.task
def tick():
    logger.warning("ticked")

class Own(Scheduler):
    max_interval = 7

    def setup_schedule(self):
        self.add(name="mine", task="proj.tick", schedule=0.05)

    @property
    def info(self):
        return "    . kept -> in memory"
"""


@pytest.fixture
def ticking(program: Any) -> Any:
    program.add_to_tasks(TICKING)
    return program


def test_beat_sends_what_workers_run(ticking: Any) -> None:
    beat = ticking.beat("-s", "kept")
    beat.wait_for(r"Scheduler: Sending due task tick \(proj\.tick\)")
    worker = ticking.ready_worker("-P", "threads")
    worker.wait_for("ticked")
    assert beat.stop(signal.SIGTERM) == os.EX_OK
    assert worker.stop() == os.EX_OK
    assert "celery beat v" in beat.lines[0]
    banner = "\n".join(beat.lines[1:11])
    assert "    . scheduler -> celery.beat.PersistentScheduler\n    . db -> kept\n" in banner
    assert list(ticking.folder.glob("kept*"))


def test_a_scheduler_of_ones_own(ticking: Any) -> None:
    beat = ticking.beat("-S", "proj:Own", "--pidfile", "beat.pid")
    beat.wait_for(r"Sending due task mine \(proj\.tick\)")
    assert (ticking.folder / "beat.pid").read_text().strip() == str(beat.process.pid)
    assert beat.stop(signal.SIGINT) == os.EX_OK
    assert "    . scheduler -> proj.Own\n    . kept -> in memory\n" in beat.output
    assert "    . maxinterval -> 7.00 seconds (7s)" in beat.output
    assert not (ticking.folder / "beat.pid").exists()


def test_a_scheduler_that_is_not_there(ticking: Any) -> None:
    done = ticking.celery("-A", "proj", "beat", "-S", "proj:Nosuch")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: there is no scheduler 'proj:Nosuch': ")
    assert len(done.stderr.splitlines()) == 1


def test_a_worker_with_a_beat_in_it(ticking: Any) -> None:
    worker = ticking.ready_worker("-P", "threads", "-B", "-s", "kept")
    worker.wait_for("ticked")
    assert worker.stop() == os.EX_OK
    assert "beat: Shutting down..." in worker.output
    assert list(ticking.folder.glob("kept*"))


def test_beat_answers_that_it_lives(ticking: Any, redis_url: str) -> None:
    ticking.environment["CELERY_BROKER_URL"] = redis_url
    beat = ticking.beat("--enable-remote-control", "-n", "b@box")
    beat.wait_for("Sending due task")
    code = """
        import json
        from proj import app
        print(json.dumps(app.control.ping(["b@box"], timeout=20, limit=1)))
    """
    assert ticking.ask(code) == [{"b@box": {"ok": "pong"}}]
    assert beat.stop() == os.EX_OK
