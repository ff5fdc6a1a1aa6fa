"""``celery events``."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

pytestmark = pytest.mark.integration

CAMERA = """
from celery.events.snapshot import Polaroid

class Counter(Polaroid):
    def on_shutter(self, state):
        for worker in state.alive_workers():
            print("alive:", worker.hostname, flush=True)
"""


@pytest.fixture
def watched(program: Any, redis_url: str) -> Any:
    program.environment["CELERY_BROKER_URL"] = redis_url
    program.add_to_tasks(CAMERA)
    return program


def test_dump_and_camera(watched: Any) -> None:
    dump = watched.start("events", "--dump")
    dump.wait_for("starting capture")
    camera = watched.start("events", "-c", "proj.Counter", "-F", "0.1")
    worker = watched.ready_worker("-P", "threads", "-n", "w1@box", "-E")
    dump.wait_for(r"^w1@box \[.*\] started: ")
    camera.wait_for("^alive: w1@box$")
    watched.ask("import proj; proj.add.delay(1, 2); print(1)")
    dump.wait_for(r"^w1@box \[.*\] task succeeded proj\.add\(.*\) args=\(1, 2\) kwargs=\{\}: ")
    assert worker.stop() == os.EX_OK
    for watching in (dump, camera):
        assert watching.stop(signal.SIGINT) == os.EX_OK


def test_there_is_no_screen(watched: Any) -> None:
    done = watched.celery("-A", "proj", "events")
    assert done.returncode == 2
    assert "say --dump or --camera" in done.stderr
