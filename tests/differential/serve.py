"""The side of the real Celery: a line of JSON with canvases in, one with their outcomes out.

A worker takes the tasks in another process; Celery's queues in Redis are empty when it is done. Or
it hangs in one of them for ever: then the line is a dict with its slot as ``stuck``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

from .observed import run_batch

POLL, LIMIT = 0.01, 900.0
STUCK = 45.0
"""Seconds in one task, none of which takes any time, after which it will never end."""


class Stuck(Exception):
    """The worker hangs in a task of this slot."""

    def __init__(self, slot: int) -> None:
        super().__init__(slot)
        self.slot = slot


def idle(client: Any) -> bool:
    return not client.llen("celery") and not client.hlen("unacked")


def work(client: Any, log: Path, take_turn: Callable[[], Any]) -> None:
    """Wait until nothing is left to do. What is acknowledged late is there until it has ended.

    Between two steps of kombu's a message is in no key of Redis, for as long as the worker is kept
    from running. Hence ``take_turn``, which waits for a task that comes behind all others: nothing
    may have run meanwhile. Raises `Stuck`, and `SystemExit` when there still is something after
    ``LIMIT``.
    """
    deadline = time.monotonic() + LIMIT
    before, since = (0, [b""]), time.monotonic()
    while time.monotonic() < deadline:
        size = log.stat().st_size
        held = client.hkeys("unacked")
        if (size, held) != before or not held:
            before, since = (size, held), time.monotonic()
        elif time.monotonic() - since > STUCK:
            raise Stuck(slot_of(client.hget("unacked", held[0])))
        if idle(client):
            take_turn()
            if idle(client) and log.stat().st_size == size:
                return
        time.sleep(POLL)
    raise SystemExit(f"Celery still runs tasks after {LIMIT:.0f} seconds")


def slot_of(unacked: bytes) -> int:
    """The slot of a task, from what kombu keeps of its message."""
    return int(json.loads(unacked)[0]["headers"]["task"].partition(".")[0])


def main() -> None:
    from .program import LOG, TURN, app  # the app that the environment tells of

    client = redis.Redis.from_url(app.conf.broker_url)
    log = Path(os.environ[LOG])

    def take_turn() -> None:
        app.tasks[TURN].delay().get(timeout=LIMIT)

    for line in sys.stdin:
        answer: Any
        try:
            answer = run_batch(app, json.loads(line), log, lambda: work(client, log, take_turn))
        except Stuck as stuck:
            answer = {"stuck": stuck.slot}
        client.ltrim("celery", 1, 0)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
