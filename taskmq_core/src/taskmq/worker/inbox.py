"""What other threads have for the worker's loop: outcomes, wake-ups, requests to stop.

The loop is woken for a batch of outcomes rather than for each one. It says how many are worth
waking up for, and the slot whose outcome completes the batch rings. Per job that is an append and
a comparison; a blocking queue would switch threads for every job.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from typing import TypeVar

from taskmq.executor import Outcome
from taskmq.records import Dropped
from taskmq.transport import Delivery, Listener, Release, Settlement

from .recall import Recall

__all__ = ["Inbox"]

T = TypeVar("T")

NEVER = sys.maxsize


class Inbox:
    """Any thread puts, one thread waits and takes.

    The flags are set before the bell rings and stay set, so whoever waits sees them afterwards.
    """

    def __init__(self) -> None:
        self.stop = False
        """Asked for a graceful end."""
        self.stop_within: float | None = None
        """Seconds that what runs still has; ``None``: as configured."""
        self.stop_now = False
        """Asked for an end that does not wait for running jobs."""
        self._outcomes: deque[Outcome] = deque()
        self._recalled: deque[tuple[Delivery, Recall]] = deque()
        self._withdrawn: deque[Release] = deque()
        self._given_back: deque[Release] = deque()
        self._dropped: deque[Dropped] = deque()
        self._settled: deque[Settlement] = deque()
        self._started: deque[Delivery] = deque()
        self.has_news = False
        """There is something else than outcomes, for `take_withdrawn`, `take_given_back` or
        `take_dropped`. Whoever takes says that there is not, before."""
        self._changed = False
        # A SimpleQueue, because its put may be called by a signal handler that interrupts its get.
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._enough = NEVER  # while nobody waits
        self._listener: Listener | None = None  # what the loop waits for, if not for the bell

    # -- any thread --------------------------------------------------------------------------

    def put(self, outcome: Outcome) -> None:
        """Add an outcome; ends the wait if there are enough of them now."""
        self._outcomes.append(outcome)
        if len(self._outcomes) >= self._enough:
            self._enough = NEVER  # the others need not ring as well
            self.ring()

    def ring(self) -> None:
        """End the wait, now or the next one. Safe from any thread and from a signal handler."""
        self._bell.put(None)
        listener = self._listener
        if listener is not None:
            listener.wake()

    def notice(self) -> None:
        """The store may have something new."""
        self._changed = True
        self.ring()

    def recall(self, deliveries: Iterable[tuple[Delivery, Recall]]) -> None:
        """These must not start any more, and why."""
        self._recalled.extend(deliveries)
        self.ring()

    def withdraw(self, releases: Iterable[Release]) -> None:
        """These were taken out of the pool; the store does not know yet."""
        self._withdrawn.extend(releases)
        self._bring()

    def give_back(self, releases: Iterable[Release]) -> None:
        """These were taken out of the pool, and the store knows."""
        self._given_back.extend(releases)
        self._bring()

    def drop(self, dropped: Iterable[Dropped]) -> None:
        """These are over, in the store, and nobody has been told."""
        self._dropped.extend(dropped)
        self._bring()

    def settle(self, settlements: Iterable[Settlement]) -> None:
        """This became of what a hook has taken."""
        self._settled.extend(settlements)
        self.ring()

    def start(self, deliveries: Iterable[Delivery]) -> None:
        """A hook has taken these, and gives them back to run."""
        self._started.extend(deliveries)
        self.ring()

    def _bring(self) -> None:
        self.has_news = True
        self.ring()

    # -- the loop ----------------------------------------------------------------------------

    def wait(self, timeout: float, enough: int = 1) -> bool:
        """Block until ``enough`` outcomes are there or somebody rings; false if it took
        ``timeout`` seconds."""
        # First say what is enough, then count: an outcome in between may ring for nothing, but
        # one that is not counted here does ring.
        self._enough = enough
        if len(self._outcomes) >= enough:
            self._enough = NEVER
            return True
        try:
            self._bell.get(timeout=timeout)
        except Empty:
            return False
        finally:
            self._enough = NEVER
        while not self._bell.empty():
            self._bell.get()
        return True

    def wait_beside(self, listener: Listener, timeout: float) -> None:
        """The same for one outcome, until the listener is woken: then the store may have something
        new. Whoever rings wakes it."""
        self._enough, self._listener = 1, listener
        try:
            if not self._outcomes and self._bell.empty() and listener.wait(timeout):
                self._changed = True
        finally:
            self._enough, self._listener = NEVER, None
        while not self._bell.empty():
            self._bell.get()

    def take(self) -> list[Outcome]:
        """All outcomes so far, in the order in which they came."""
        return _drained(self._outcomes) if self._outcomes else []

    def take_recalled(self) -> list[tuple[Delivery, Recall]]:
        """Everything that was recalled since the last call."""
        return _drained(self._recalled) if self._recalled else []

    def take_withdrawn(self) -> list[Release]:
        """What another thread took out of the pool and did not settle."""
        return _drained(self._withdrawn)

    def take_given_back(self) -> list[Release]:
        """What another thread took out of the pool and settled."""
        return _drained(self._given_back)

    def take_dropped(self) -> list[Dropped]:
        """What another thread found to be over."""
        return _drained(self._dropped)

    def take_settled(self) -> list[Settlement]:
        """What a hook has said of what it took."""
        return _drained(self._settled)

    def take_started(self) -> list[Delivery]:
        """What a hook has given back to run."""
        return _drained(self._started)

    def take_notice(self) -> bool:
        """Whether the store was said to have changed since the last call."""
        changed, self._changed = self._changed, False
        return changed

    def __len__(self) -> int:
        """Outcomes that have not been taken."""
        return len(self._outcomes)


def _drained(items: deque[T]) -> list[T]:
    """All items that are there now. Others may append meanwhile, nobody else takes."""
    take = items.popleft
    return [take() for _ in range(len(items))]
