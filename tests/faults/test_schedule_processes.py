"""Two schedulers as processes, on any store: the leader is killed, frozen, told otherwise."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.faults.schedule_ground import FOLLOWS, LEADS, Ground

EVERY_STORE = True
SLACK = float(os.environ.get("PROMISES_SLACK", "5"))
Measured = Callable[..., None]


@pytest.fixture
def ground(tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    made = Ground(tmp_path, store_url, monkeypatch)
    yield made
    made.close()


def test_a_killed_leader_is_replaced_within_ten_seconds(ground: Ground, measured: Measured) -> None:
    leader, other = ground.pair()
    ground.wait_for_ticks(3)
    leader.process.kill()
    killed = time.monotonic()
    replaced = other.wait_for(LEADS) - killed
    ground.wait_for_ticks(15)  # the late ones among them
    assert other.stop() == 0
    measured(seconds_until_replaced=round(replaced, 2), ticks=ground.check_ticks())
    assert replaced < 10 + SLACK


def test_a_frozen_leader_enqueues_nothing_twice(ground: Ground, measured: Measured) -> None:
    leader, other = ground.pair()
    ground.wait_for_ticks(3)
    leader.process.send_signal(signal.SIGSTOP)
    frozen = time.monotonic()
    replaced = other.wait_for(LEADS) - frozen
    ground.wait_for_ticks(14)
    leader.process.send_signal(signal.SIGCONT)
    leader.wait_for(FOLLOWS)
    ground.wait_for_ticks(4)
    assert leader.said(LEADS) == 1
    assert (leader.stop(), other.stop()) == (0, 0)
    measured(seconds_until_replaced=round(replaced, 2), ticks=ground.check_ticks())


def test_changes_take_effect_within_a_second(ground: Ground, measured: Measured) -> None:
    _, other = ground.pair()
    ground.wait_for_ticks(2)
    paused_at = ground.cli("schedule", "pause", "tick")
    added_at = ground.cli("schedule", "add", "now", "schedule_app.note", "--at", "-1")
    enqueued = ground.wait_for_job("now")
    last = ground.enqueued_at("tick")[-1]
    resumed_at = ground.cli("schedule", "resume", "tick")
    ground.wait_for_ticks(1)
    resumed = min(each for each in ground.enqueued_at("tick") if each > added_at)
    took = {
        "paused_after": last - paused_at,
        "added_after": enqueued - added_at,
        "resumed_after": resumed - resumed_at,
    }
    measured(**{name: round(max(0.0, seconds), 3) for name, seconds in took.items()})
    assert max(took.values()) < 1 + SLACK
    assert other.said(LEADS) == 0
