"""Schedulers as processes that come and go: stopped, restarted, with workers, without a store."""

import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from tests import services
from tests.faults.schedule_ground import APP, LEADS, TASKMQ, Ground
from tests.servers import StartService
from tests.waiting import wait_for

from taskmq.schedule import at
from taskmq.scheduler import Schedules

Measured = Callable[..., None]


@pytest.fixture
def ground(tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    made = Ground(tmp_path, store_url, monkeypatch)
    yield made
    made.close()


def without_schedules(ground: Ground) -> None:
    (ground.folder / APP.name).write_text(APP.read_text().partition("app.schedule(")[0])


def test_a_leader_that_is_stopped_is_replaced_at_once(ground: Ground, measured: Measured) -> None:
    leader, other = ground.pair()
    ground.wait_for_ticks(2)
    began = time.monotonic()
    assert leader.stop() == 0
    assert leader.said(" stopped") == 1
    replaced = other.wait_for(LEADS) - began
    ground.wait_for_ticks(4)
    other.stop()
    ground.check_ticks()
    measured(seconds_until_replaced=round(replaced, 2))


def test_an_added_schedule_wakes_a_scheduler_that_had_none(
    ground: Ground, measured: Measured
) -> None:
    without_schedules(ground)
    beat = ground.start()
    assert beat.said("ready: 0 schedules") == 1
    assert beat.said(LEADS) == 0
    past = datetime.fromtimestamp(time.time() - 1, timezone.utc)
    began = time.monotonic()
    Schedules(ground.app).add(at("schedule_app.note", past, name="now"))
    ground.wait_for_job("now")
    measured(added_after=round(time.monotonic() - began, 3))
    assert beat.said(LEADS) == 1


def test_schedules_go_on_from_worker_to_worker(ground: Ground) -> None:
    """A rolling restart: each worker leads in its turn, and one runs no scheduler at all."""
    idle = ground.start("worker --no-scheduler -Q elsewhere")
    for pool in ("threads", "processes", "solo", "asyncio"):
        worker = ground.start(f"worker -P {pool} -c 2 -Q elsewhere")
        worker.wait_for(LEADS)
        ground.wait_for_ticks(3)
        assert worker.stop() == 0
    assert idle.said(LEADS) == 0
    assert idle.stop() == 0
    ground.check_ticks()


def test_the_lead_is_given_up_before_jobs_have_ended(ground: Ground) -> None:
    """A worker that drains for a minute keeps nobody from leading."""
    app = (ground.folder / APP.name).read_text()
    body = (
        "@app.task\ndef slow() -> None:\n    import pathlib, time\n"
        "    pathlib.Path('begun').touch()\n    time.sleep(60)\n"
    )
    (ground.folder / APP.name).write_text(f"{app}\n\n{body}")
    worker = ground.start("worker -Q slow --shutdown-timeout 50")
    worker.wait_for(LEADS)
    other = ground.start()
    ground.app.task(name="schedule_app.slow", queue="slow")(lambda: None).delay()
    wait_for((ground.folder / "begun").exists, "start of the job")
    worker.process.send_signal(signal.SIGTERM)
    other.wait_for(LEADS)
    assert worker.process.poll() is None
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(20) == 130


def test_a_look_by_hand_and_a_damaged_store(ground: Ground, tmp_path: Path) -> None:
    beat = ground.start()
    ground.wait_for_ticks(1)
    assert beat.stop() == 0
    last = ground.ticks()[-1]
    wait_for(lambda: time.time() >= last + 0.5, "something that is due")
    once = subprocess.run(
        [*TASKMQ, "beat", "--once"], cwd=ground.folder, capture_output=True, text=True
    )
    assert once.returncode == 0
    assert "is the run of" in once.stderr
    assert ground.ticks()[-1] > last
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(b"garbage" * 1000)
    broken = subprocess.run(
        [*TASKMQ, "beat", "--transport", f"sqlite:///{garbage}"],
        cwd=ground.folder,
        env={"PATH": ""},
        capture_output=True,
        text=True,
    )
    assert broken.returncode == 4
    assert broken.stderr.count("\n") == 1


def test_a_store_that_is_locked_for_a_while_is_waited_for(ground: Ground) -> None:
    beat = ground.start()
    ground.wait_for_ticks(2)
    with sqlite3.connect(ground.folder / "jobs.db") as connection:
        connection.execute("BEGIN EXCLUSIVE")
        beat.wait_for("cannot look at schedules, trying until that works")
        connection.rollback()
    connection.close()
    beat.wait_for("schedules go on")
    ground.wait_for_ticks(3)
    assert beat.stop() == 0
    ground.check_ticks()


def test_a_store_that_has_lost_everything_gets_the_schedules_again(
    tmp_path: Path, start_service: StartService, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_service(services.Redis)
    ground = Ground(tmp_path, server.url, monkeypatch)
    try:
        beat = ground.start()
        ground.wait_for_ticks(2)
        server.kill()
        beat.wait_for("cannot look at schedules, trying until that works")
        server.restart()
        beat.wait_for("schedule 'tick' is not in the store any more: written again")
        ground.wait_for_ticks(2)
        assert beat.stop() == 0
    finally:
        ground.close()
