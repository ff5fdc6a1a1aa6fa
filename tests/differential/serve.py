"""The side of the real Celery: a line of JSON with canvases in, one with their outcomes out.

A worker takes the tasks in another process; Celery's queues in Redis are empty when it is done.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import redis

from .observed import run_batch

POLL, STILL, LIMIT = 0.01, 25, 120.0
"""Between two steps of kombu's a message is in no key of Redis: hence ``STILL`` times."""


def idle(client: Any) -> bool:
    return not client.llen("celery") and not client.hlen("unacked")


def work(client: Any) -> None:
    """Wait until nothing is left to do. What is acknowledged late is there until it has ended."""
    still, deadline = 0, time.monotonic() + LIMIT
    while still < STILL and time.monotonic() < deadline:
        still = still + 1 if idle(client) else 0
        time.sleep(POLL)


def main() -> None:
    from .program import LOG, app  # the app that the environment tells of

    client = redis.Redis.from_url(app.conf.broker_url)
    log = Path(os.environ[LOG])
    for line in sys.stdin:
        outcomes = run_batch(app, json.loads(line), log, lambda: work(client))
        client.ltrim("celery", 1, 0)
        print(json.dumps(outcomes), flush=True)


if __name__ == "__main__":
    main()
