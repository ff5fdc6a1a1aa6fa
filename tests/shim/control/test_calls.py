"""What ``app.control`` sends: programs replace `Control.broadcast`, and read its keywords."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from celery import Celery
from celery.app.control import Inspect
from celery.exceptions import ImproperlyConfigured

pytestmark = pytest.mark.unit


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> tuple[Celery, list[Any]]:
    """An app, and what its control has broadcast."""
    app = Celery("t", broker="memory://", set_as_current=False)
    sent: list[Any] = []
    monkeypatch.setattr(app.control, "broadcast", lambda name, **said: sent.append((name, said)))
    return app, sent


@pytest.mark.parametrize(
    ("call", "name", "arguments"),
    [
        (lambda c: c.rate_limit("t.a", "1/m", "w"), "rate_limit", ["task_name", "rate_limit"]),
        (lambda c: c.time_limit("t.a", 1, 2, "w"), "time_limit", ["task_name", "soft", "hard"]),
        (lambda c: c.pool_grow(2, "w"), "pool_grow", ["n"]),
        (lambda c: c.autoscale(4, 2, "w"), "autoscale", ["max", "min"]),
        (lambda c: c.cancel_consumer("q", "w"), "cancel_consumer", ["queue"]),
        (lambda c: c.shutdown("w"), "shutdown", []),
        (lambda c: c.ping("w"), "ping", []),
    ],
)
def test_everything_is_sent_by_keyword(
    sent: tuple[Celery, list[Any]], call: Callable[[Any], Any], name: str, arguments: list[str]
) -> None:
    app, told = sent
    call(app.control)
    ((command, said),) = told
    assert (command, said["destination"], list(said["arguments"])) == (name, "w", arguments)


def test_revoking_says_what_the_caller_said(sent: tuple[Celery, list[Any]]) -> None:
    app, told = sent
    app.control.revoke("not-there-yet", signal="SIGKILL")
    ((_, said),) = told
    assert said["arguments"] == {
        "task_id": "not-there-yet",
        "terminate": False,
        "signal": "SIGKILL",
    }


def test_one_worker_by_name_answers_for_itself() -> None:
    app = Celery("t", broker="memory://", set_as_current=False)
    replies = [{"w1": {"ok": "pong"}}, {"w2": {"ok": "pong"}}]
    assert Inspect(destination="w1", app=app)._prepare(replies) == {"ok": "pong"}
    assert Inspect(destination=["w1"], app=app)._prepare(replies[:1]) == replies[0]


def test_queues_cannot_be_both_durable_and_exclusive() -> None:
    app = Celery("t", broker="memory://", set_as_current=False)
    app.conf.update(control_queue_durable=True, control_queue_exclusive=True)
    with pytest.raises(ImproperlyConfigured, match="exclusive"):
        _ = app.control
