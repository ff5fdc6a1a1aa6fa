"""Faults on purpose: a store that fails exactly where a test says, or at random by a seed.

    plan = FaultPlan(FailAfter("enqueue"), FailBefore("exchange", nth=3))
    transport = FaultyTransport(store, plan)

The first ``enqueue`` happens and its caller is told that it did not; the third ``exchange`` does
not happen. Everything else goes through.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from taskmq.errors import TransportUnavailable
from taskmq.transport import (
    Delivery,
    Exchange,
    LeaseStatus,
    Listener,
    Reservation,
    Settled,
    Settlement,
    Transport,
)

from .wrapper import TransportWrapper

__all__ = [
    "Delay",
    "FailAfter",
    "FailBefore",
    "Fault",
    "FaultPlan",
    "FaultyTransport",
    "LoseLeases",
    "LoseWakeup",
    "Plan",
    "RandomFaults",
]

R = TypeVar("R")

EXTEND, WAIT = "extend", "wait"
UNRELIABLE = ("enqueue", "exchange", "settle", "reserve", "extend", "register", "unpark")
"""What `RandomFaults` breaks unless told otherwise: what producers and workers live on."""


@dataclass(frozen=True)
class Fault:
    """Something that happens to the ``nth`` call of an operation (from 1), and to ``times`` calls
    in a row from there on. Operations are named as the methods of the transport."""

    operation: str
    nth: int = 1
    times: int = 1

    def strikes(self, call: int) -> bool:
        """Whether it happens to this call."""
        return self.nth <= call < self.nth + self.times


@dataclass(frozen=True)
class FailBefore(Fault):
    """The caller sees `TransportUnavailable`; the store was not reached."""


@dataclass(frozen=True)
class FailAfter(Fault):
    """The store did it, durably; the answer is lost and the caller sees `TransportUnavailable`."""


@dataclass(frozen=True)
class Delay(Fault):
    """The call takes ``seconds`` longer."""

    seconds: float = 1.0


@dataclass(frozen=True)
class LoseLeases(Fault):
    """The nth ``extend`` finds every lease lost, and they stay lost: nothing is settled for them.
    In the store they run until their time is up, as if another worker had the jobs."""

    operation: str = EXTEND


@dataclass(frozen=True)
class LoseWakeup(Fault):
    """The nth signal that would end a listener's ``wait`` is swallowed."""

    operation: str = WAIT


class Plan(Protocol):
    """Decides what happens to each call. Safe to use from several threads."""

    def strike(self, operation: str) -> Fault | None:
        """One more call of ``operation``: the fault that happens to it, if any."""


class FaultPlan:
    """Faults that were written down. ``struck`` are those that happened, in order."""

    def __init__(self, *faults: Fault) -> None:
        self.struck: list[Fault] = []
        self._faults = faults
        self._calls: Counter[str] = Counter()
        self._lock = threading.Lock()

    def strike(self, operation: str) -> Fault | None:
        with self._lock:
            self._calls[operation] += 1
            call = self._calls[operation]
            for fault in self._faults:
                if fault.operation == operation and fault.strikes(call):
                    self.struck.append(fault)
                    return fault
        return None

    def calls(self, operation: str) -> int:
        """How often an operation was called so far."""
        with self._lock:
            return self._calls[operation]


class RandomFaults:
    """Each call of ``operations`` fails with probability ``rate``, before or after the store did
    it. The same seed and the same calls give the same faults. ``rate`` may be changed at any time:
    0 ends the trouble."""

    def __init__(
        self, seed: int, *, rate: float = 0.05, operations: Collection[str] = UNRELIABLE
    ) -> None:
        self.rate = rate
        self.struck: list[Fault] = []
        self._operations = frozenset(operations)
        self._calls: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def strike(self, operation: str) -> Fault | None:
        with self._lock:
            self._calls[operation] += 1
            if operation not in self._operations or self._random.random() >= self.rate:
                return None
            kind = self._random.choice((FailBefore, FailAfter))
            fault = kind(operation, nth=self._calls[operation])
            self.struck.append(fault)
            return fault


class FaultyTransport(TransportWrapper):
    """A transport with the faults of a plan.

    ``sleep`` spends the seconds of a `Delay`; give it ``clock.advance`` of a frozen clock.
    """

    def __init__(
        self, inner: Transport, plan: Plan, *, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        super().__init__(inner)
        self._plan = plan
        self._sleep = sleep
        self._lost: set[tuple[str, int]] = set()

    def around(self, operation: str, call: Callable[[], R]) -> R:
        return self._suffer(self._plan.strike(operation), operation, call)

    def _suffer(self, fault: Fault | None, operation: str, call: Callable[[], R]) -> R:
        if isinstance(fault, Delay):
            self._sleep(fault.seconds)
        elif isinstance(fault, FailBefore):
            raise TransportUnavailable(f"injected fault: {operation} did not reach the store")
        result = call()
        if isinstance(fault, FailAfter):
            raise TransportUnavailable(f"injected fault: the answer to {operation} was lost")
        return result

    # -- leases that are lost ------------------------------------------------------------------

    def extend(self, deliveries: Sequence[Delivery], lease: float) -> list[LeaseStatus]:
        fault = self._plan.strike(EXTEND)
        if isinstance(fault, LoseLeases):
            self._lost.update(_key(delivery) for delivery in deliveries)
        held = [delivery for delivery in deliveries if _key(delivery) not in self._lost]
        answers = self._suffer(fault, EXTEND, lambda: self.inner.extend(held, lease))
        return self._fill_in(deliveries, answers, LeaseStatus.LOST)

    def check(self, deliveries: Sequence[Delivery]) -> list[LeaseStatus]:
        held = [delivery for delivery in deliveries if _key(delivery) not in self._lost]
        return self._fill_in(deliveries, super().check(held), LeaseStatus.LOST)

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        if not self._lost:
            return super().exchange(settlements, reservation)
        answer = super().exchange(self._current(settlements), reservation)
        return msgspec.structs.replace(answer, settled=self._settled(settlements, answer.settled))

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        return self._settled(settlements, super().settle(self._current(settlements)))

    def _current(self, settlements: Sequence[Settlement]) -> list[Settlement]:
        return [each for each in settlements if _key(each.delivery) not in self._lost]

    def _settled(
        self, settlements: Sequence[Settlement], answers: Sequence[Settled]
    ) -> list[Settled]:
        return self._fill_in([each.delivery for each in settlements], answers, Settled.LEASE_LOST)

    def _fill_in(self, deliveries: Sequence[Delivery], answers: Sequence[R], lost: R) -> list[R]:
        """Answers for all deliveries from those for the ones that are not lost."""
        rest = iter(answers)
        return [lost if _key(each) in self._lost else next(rest) for each in deliveries]

    # -- wake-ups that are lost ----------------------------------------------------------------

    def listen(
        self, queues: Sequence[str] = (), jobs: Sequence[str] = (), kinds: Sequence[str] = ()
    ) -> Listener:
        return _FaultyListener(super().listen(queues, jobs, kinds), self._plan)


class _FaultyListener:
    """A listener that misses what the plan says. Its owner's own ``wake`` always gets through."""

    def __init__(self, inner: Listener, plan: Plan) -> None:
        self._inner = inner
        self._plan = plan
        self._woken = False

    def clear(self) -> None:
        self._woken = False
        self._inner.clear()

    def wait(self, timeout: float | None) -> bool:
        end = None if timeout is None else time.monotonic() + timeout
        while self._inner.wait(None if end is None else max(0.0, end - time.monotonic())):
            if self._woken or not isinstance(self._plan.strike(WAIT), LoseWakeup):
                return True
            self._inner.clear()
            if self._woken:  # by its owner, between the look above and the clear
                return True
        return False

    def call_back(self, on_change: Callable[[], None]) -> bool:
        return False  # what is lost is lost on its way through a wait

    def wake(self) -> None:
        self._woken = True
        self._inner.wake()

    def close(self) -> None:
        self._inner.close()


def _key(delivery: Delivery) -> tuple[str, int]:
    return delivery.job_id, delivery.token
