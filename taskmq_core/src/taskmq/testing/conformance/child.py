"""What the other processes of the suite do: ``child SPEC NAME ROLE [ARGUMENT ...]``."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

import msgspec

from taskmq.clock import SystemClock
from taskmq.envelope import Envelope, Sealed, seal
from taskmq.ids import new_id
from taskmq.transport import Ack, Delivery, Release, Reservation, RetryLater, Settlement, Transport

from .processes import Hold
from .subject import FAILURE, text
from .target import resolve

__all__ = ["main"]

LEASE = 60.0
LONGEST_WORK = 0.002  # long enough to let other processes in


def main(spec: str, name: str, role: str, *arguments: str) -> None:
    """Open the store and play the role."""
    transport = resolve(spec)(name, SystemClock())
    ROLES[role](transport, *arguments)
    transport.close()


def _drain(transport: Transport, number: str) -> None:
    """Reserve, settle in various ways, until nothing is ready, held or due any more."""
    choose = random.Random(int(number))
    wanted = Reservation(queues={"q": 1}, worker=f"process-{number}", lease=LEASE, limit=16)
    listener = transport.listen(["q"])
    log: list[Hold] = []
    _say("ready")
    sys.stdin.readline()
    settlements: list[Settlement] = []
    while True:
        listener.clear()
        answer = transport.exchange(settlements, wanted)
        began = time.monotonic()
        settlements = [_decide(delivery, choose.random()) for delivery in answer.deliveries]
        time.sleep(choose.random() * LONGEST_WORK)
        ended = time.monotonic()
        log += [Hold(s.delivery.job_id, began, ended, _name(s)) for s in settlements]
        if not settlements:
            if answer.next_due_at is None:
                break
            listener.wait(0.1)
    _say(msgspec.json.encode(log).decode())


def _decide(delivery: Delivery, chance: float) -> Settlement:
    if chance < 0.1:
        return Release(delivery)
    if chance < 0.2:
        return RetryLater(delivery, 0.0, FAILURE)
    return Ack(delivery)


def _name(settlement: Settlement) -> str:
    return type(settlement).__name__.lower()


def _hold(transport: Transport, limit: str, lease: str) -> None:
    """Reserve, say so, and wait to be killed."""
    wanted = Reservation(queues={"q": 1}, worker="doomed", lease=float(lease), limit=int(limit))
    held = transport.reserve(wanted)
    _say(str(len(held)))
    sys.stdin.read()


def _ack(transport: Transport) -> None:
    """Ack for ever, a few at a time, and say so after each exchange."""
    wanted = Reservation(queues={"q": 1}, worker="doomed", lease=LEASE, limit=3)
    settlements: list[Settlement] = []
    while True:
        answer = transport.exchange(settlements, wanted)
        settlements = [Ack(held, text(held.job_id)) for held in answer.deliveries]
        _say("exchanged")


def _produce(transport: Transport) -> None:
    """Enqueue for ever, and say each id once it is stored."""
    while True:
        _say(transport.enqueue([_job()])[0].job_id)


def _produce_on_demand(transport: Transport) -> None:
    """Enqueue one for every line read."""
    _say("ready")
    for _ in sys.stdin:
        transport.enqueue([_job()])


def _job() -> Sealed:
    return seal(Envelope(v=1, id=new_id(), task="demo.task", queue="q"), limit=10_000)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


ROLES: dict[str, Callable[..., None]] = {
    "ack": _ack,
    "drain": _drain,
    "hold": _hold,
    "produce": _produce,
    "produce-on-demand": _produce_on_demand,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
