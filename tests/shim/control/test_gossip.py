"""What workers tell each other, for steps that require it."""

from __future__ import annotations

import queue
from typing import Any

import pytest
from tests import services
from tests.shim.control.working import NAME, make_app, worker_of
from tests.waiting import PATIENCE, wait_for

from celery import bootsteps

pytestmark = pytest.mark.integration


def test_workers_know_each_other_and_choose_one(redis_server: services.Redis) -> None:
    redis_server.cli("FLUSHALL")
    app = make_app(redis_server.url)
    seen: queue.SimpleQueue[tuple[str, str, str]] = queue.SimpleQueue()
    done: list[tuple[str, Any]] = []

    class Watching(bootsteps.StartStopStep):
        requires = ("celery.worker.consumer.gossip:Gossip",)

        def start(self, c: Any) -> None:
            def told(what: str) -> Any:
                return lambda worker: seen.put((c.hostname, what, worker.hostname))

            for what in ("node_join", "node_leave", "node_lost"):
                getattr(c.gossip.on, what).add(told(what))
            c.gossip.election_handlers["count"] = lambda action: done.append((c.hostname, action))

    app.steps["consumer"].add(Watching)
    other = "w2@box"
    with worker_of(app) as first:
        gossip = first.consumer.gossip
        with worker_of(app, hostname=other):
            assert seen.get(timeout=PATIENCE) == (NAME, "node_join", other)
            assert {worker.hostname for worker in gossip.state.alive_workers()} == {other}
            gossip.election("e1", "count", {"n": 1})
            wait_for(lambda: done, "the election")
            assert done == [(NAME, {"n": 1})]
        while True:
            told = seen.get(timeout=PATIENCE)
            if told == (NAME, "node_leave", other):
                break
        gossip.state.event({"type": "worker-online", "hostname": "gone@box", "timestamp": 1})
        assert seen.get(timeout=PATIENCE) == (NAME, "node_join", "gone@box")
        gossip.periodic()
        assert seen.get(timeout=PATIENCE) == (NAME, "node_lost", "gone@box")
        gossip.call_task(app.tasks["add"].s(1, 2).set(task_id="called"))
        assert app.AsyncResult("called").get(timeout=PATIENCE) == 3
    app.close()


def test_nobody_listens_who_need_not(app: Any, ask: Any) -> None:
    reply = app.control.broadcast(
        "election", {"id": "e", "topic": "t"}, reply=True, destination=[NAME], timeout=PATIENCE
    )
    assert reply == [
        {NAME: {"error": "this worker chooses nobody: no step of its program requires Gossip"}}
    ]
