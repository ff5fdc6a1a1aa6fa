"""What the tests of the Redis transport share."""

from __future__ import annotations

from tests import services

from taskmq.clock import SystemClock
from taskmq.envelope import Envelope, Sealed, seal
from taskmq.ids import new_id
from taskmq.transport import Reservation
from taskmq.transports.redis import RedisTransport, from_url


def open_store(url: str) -> RedisTransport:
    return from_url(url, clock=SystemClock())


def job(queue: str = "q", **fields: object) -> Sealed:
    values = {"v": 1, "id": new_id(), "task": "demo.task", "queue": queue, **fields}
    return seal(Envelope(**values), 1 << 20)  # type: ignore[arg-type]  # fields of an envelope


def wanted(limit: int = 1, **fields: object) -> Reservation:
    values = {"queues": {"q": 1}, "worker": "w", "lease": 60.0, "limit": limit, **fields}
    return Reservation(**values)  # type: ignore[arg-type]  # fields of a reservation


def commands(server: services.Redis) -> int:
    """How many commands clients have sent, this one not counted, nor those inside scripts."""
    lines = server.cli("INFO", "commandstats").splitlines()
    names = ("evalsha", "eval", "hget", "hmget", "hvals", "ping", "subscribe", "smembers")
    return sum(
        int(line.partition("calls=")[2].partition(",")[0])
        for line in lines
        if line.partition(":")[0].removeprefix("cmdstat_") in names
    )
