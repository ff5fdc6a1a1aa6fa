"""`celery.worker.state`: what is known of requests, and the file of what is revoked."""

from __future__ import annotations

import shelve
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from celery.exceptions import ImproperlyConfigured
from celery.worker import state

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    state.reset_state()
    yield
    state.reset_state()


def request(name: str = "t.add") -> Any:
    return Named(id=f"id of {name}", name=name)


class Named:
    """What a worker counts of a request: it is in sets, by itself."""

    def __init__(self, id: str, name: str) -> None:
        self.id, self.name = id, name


def test_a_request_on_its_way_through_a_worker() -> None:
    one = request()
    state.task_scheduled(one)
    assert one in state.scheduled_requests
    state.task_reserved(one)
    assert one in state.reserved_requests
    assert one not in state.scheduled_requests
    state.task_accepted(one)
    assert one in state.active_requests
    assert (state.total_count["t.add"], state.all_total_count[0]) == (1, 1)
    state.task_ready(one, successful=True)
    left = state.reserved_requests, state.active_requests, state.requests
    assert not any(left)


def test_what_runs_by_now_is_not_waiting_for_its_time() -> None:
    one = request()
    state.task_accepted(one)
    state.task_scheduled(one)
    assert not state.scheduled_requests


def test_what_is_revoked_outlives_the_worker(tmp_path: Path) -> None:
    file = str(tmp_path / "revoked.db")
    state.revoked.add("gone")
    state.Persistent(state, file).save()
    state.reset_state()
    clock = SimpleNamespace(adjust=lambda value: value + 1, forward=lambda: 42)
    kept = state.Persistent(state, file, clock)
    assert "gone" in state.revoked
    assert state.revoked.as_dict()["gone"] <= time.monotonic()
    kept.save()
    with shelve.open(file) as db:  # noqa: S301  # of this test
        assert db["clock"] == 42
        assert isinstance(db["zrevoked"], bytes)


@pytest.mark.parametrize(("text", "kind"), [("often", "int"), ("1.5", "int")])
def test_a_number_in_the_environment_that_is_none(
    monkeypatch: pytest.MonkeyPatch, text: str, kind: str
) -> None:
    monkeypatch.setenv("A_NUMBER", text)
    with pytest.raises(ImproperlyConfigured, match=f"A_NUMBER: expected {kind}, got '{text}'"):
        state.from_environment("A_NUMBER", 3)
    assert state.from_environment("NO_NUMBER", 3.5) == 3.5
