"""What a producer and a worker ask of a store, called and timed here: no worker is between."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TypeVar

import msgspec
from tests.bench.processes import running_seconds

from taskmq.clock import SystemClock
from taskmq.codec import Payload
from taskmq.envelope import Envelope, Sealed, seal
from taskmq.ids import new_id
from taskmq.plugins import open_transport
from taskmq.transport import Ack, Delivery, Reservation

BULK, BATCH = 500, 100
MAX_BYTES = 1 << 20
BULK_BYTES = 4 << 20
"""Of one call that stores jobs, about."""
LEASE = 600.0
PATIENCE = 120.0
RESULT = Payload("json", b"null")
T = TypeVar("T")


def job(queue: str = "default", *, size: int = 0, eta: float | None = None) -> Sealed:
    """A job with so many bytes of arguments (0: some 60), to be run at once or at ``eta``."""
    text = b"x" * (size - 4) if size else b'184467,"ada@example.com","locale=en","order shipped"'
    args = b'["%s"]' % text if size else b"[%s]" % text
    return seal(
        Envelope(
            v=1,
            id=new_id(),
            task="shop.tasks.send_receipt",
            queue=queue,
            args=msgspec.Raw(args),
            eta=eta,
            enqueued_at=time.time(),
        ),
        MAX_BYTES,
    )


@dataclass(frozen=True)
class Took:
    """``wall``: seconds by the clock. ``cpu``: of processors, in client and server together, which
    other programs of the machine disturb less."""

    wall: float
    cpu: float


def _patient(url: str) -> str:
    """Measured is what a call costs, however long a busy machine lets it wait."""
    if url.startswith(("redis:", "postgresql:")):
        url += f"{'&' if '?' in url else '?'}timeout={PATIENCE:g}"
    return url


class Hands:
    """One client of a store; ``server`` is its process, if it has one of its own."""

    def __init__(self, url: str, server: int | None = None) -> None:
        self._server = server
        self.transport = open_transport(_patient(url), clock=SystemClock())
        self._held: list[Delivery] = []

    def timed(self, work: Callable[[], T]) -> tuple[Took, T]:
        """What it took, and what it gave."""
        cpu, began = self._cpu(), time.perf_counter()
        found = work()
        return Took(time.perf_counter() - began, self._cpu() - cpu), found

    def _cpu(self) -> float:
        served = running_seconds(self._server) if self._server is not None else 0.0
        return time.process_time() + served

    def submit(self, jobs: Iterable[Sealed], size: int = BULK) -> list[Took]:
        """Store jobs, so many in a call; what each call took."""
        rest = iter(jobs)
        took = []
        while batch := list(islice(rest, size)):
            took.append(self.timed(partial(self.transport.enqueue, batch))[0])
        return took

    def exchange(self, queues: Sequence[str], limit: int = BATCH) -> tuple[Took, Counter[str]]:
        """Settle what is held and reserve the next, as a worker at work does; what it took, and how
        many jobs of which queue came."""
        settlements = [Ack(delivery, RESULT) for delivery in self._held]
        wanted = Reservation(
            queues=dict.fromkeys(queues, 1), worker="bench", lease=LEASE, limit=limit
        )
        took, answer = self.timed(lambda: self.transport.exchange(settlements, wanted))
        self._held = list(answer.deliveries)
        return took, Counter(delivery.queue for delivery in self._held)

    def finish(self) -> Took:
        """Settle what is held."""
        settlements = [Ack(delivery, RESULT) for delivery in self._held]
        self._held = []
        return self.timed(lambda: self.transport.exchange(settlements))[0]

    def look(self, queues: Sequence[str]) -> Took:
        """Ask for nothing, as a worker without a free slot does."""
        wanted = Reservation(queues=dict.fromkeys(queues, 1), worker="bench", lease=LEASE, limit=0)
        return self.timed(lambda: self.transport.exchange((), wanted))[0]

    def close(self) -> None:
        self.transport.close()
