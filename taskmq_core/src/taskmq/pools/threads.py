"""Threads: for work that waits more than it computes. The default.

Waiting deliveries are in one deque. Taking one out of it is atomic, which is what makes `withdraw`
safe: a slot and the owner cannot both get the same delivery. A slot that finds the deque empty
puts its own lock on the list of idle slots and blocks on it; whoever submits work releases as many
of these locks as there is work for. There is no lock that all slots share, and no wake-up without
work.

Jobs of microseconds are not worth that many threads: they would take the interpreter from each
other at every system call. Where nearly all jobs of late were such, one slot is woken for what is
submitted, and takes one after the other. An overseer, a thread as well, looks every millisecond
whether anything has ended; if not, the slot has met a long job, and all others are woken.

What several slots do at once takes longer than it would alone, so that they cannot tell whether
jobs are short. Where they may be, one slot tries: if it has to wait for something else than the
others, the next trial comes later.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from taskmq.executor import Outcome
from taskmq.transport import Delivery

from .base import Done, Execute, InProcess, came_to_nothing, run_one

__all__ = ["ThreadPool"]


SHORT = 50e-6
"""Seconds: waking a thread takes about as long as a job that is shorter."""
CERTAIN = 16
"""Short jobs that make it certain that the next are short, too; each other job counts against
four of them, so that one that was held up by chance changes nothing."""
LEAST_CERTAIN = 8
"""With so few of them left it is not: see `Brevity`."""
UNCERTAIN = 4096
"""Most jobs until the next trial."""
PATIENCE = 0.001
"""Seconds that short jobs wait behind one that turns out long, at most twice."""


class ThreadPool(InProcess):
    """``concurrency`` daemon threads.

    Daemons, because a task that never returns must not keep a process alive that was told to
    leave at once; in an orderly `stop` each of them is waited for.
    """

    runs_coroutines = False
    inline = False

    def __init__(self, concurrency: int) -> None:
        self.slots = concurrency
        self._pending: deque[Delivery] = deque()
        self._idle: deque[threading.Lock] = deque()
        self._threads: list[threading.Thread] = []
        self._stopping = False
        self._brevity = Brevity()
        self._lead: threading.Lock | None = None
        """The bell of the slot that takes short jobs while the others sleep: it is awake, and looks
        once more before it falls asleep."""
        self._last: Outcome | None = None
        self._overseer = Overseer(self._pending, self._progress, self._rouse_all)
        self._execute: Execute
        self._done: Done

    def start(self, execute: Execute, done: Done) -> None:
        self._execute, self._done = execute, done
        self._threads = [
            threading.Thread(target=self._slot, name=f"taskmq-slot-{number}", daemon=True)
            for number in range(1, self.slots + 1)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, deliveries: Sequence[Delivery]) -> None:
        some_slot_is_at_it = bool(self._pending)
        self._pending.extend(deliveries)
        if not self._brevity.is_certain:
            self._rouse(len(deliveries))
            return
        if not some_slot_is_at_it:
            self._rouse(1)
        if len(deliveries) > 1 or some_slot_is_at_it:
            self._overseer.watch()

    def unstarted(self) -> int:
        return len(self._pending)

    def withdraw(self) -> list[Delivery]:
        withdrawn: list[Delivery] = []
        while True:
            try:
                withdrawn.append(self._pending.popleft())
            except IndexError:
                return withdrawn

    def turn(self) -> None:
        """Nothing: the slots have their own threads."""

    def stop(self, timeout: float) -> bool:
        self._stopping = True
        self._rouse(self.slots)
        self._overseer.stop()
        end = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _progress(self) -> object:
        """Another object whenever a job has ended."""
        return self._last

    def _rouse(self, most: int) -> None:
        for _ in itertools.repeat(None, most):
            try:
                self._idle.pop().release()
            except IndexError:
                return

    def _rouse_all(self) -> None:
        """The lead has met a long job: another slot takes it over."""
        self._lead = None
        self._rouse(len(self._pending))

    def _slot(self) -> None:
        """The life of one slot."""
        bell = threading.Lock()
        bell.acquire()
        take, execute, done = self._pending.popleft, self._execute, self._done
        observe = self._brevity.observe
        while True:
            try:
                delivery = take()
            except IndexError:
                if self._stopping:
                    return
                if self._lead is bell:
                    self._lead = None
                self._sleep(bell)
                continue
            try:
                outcome = run_one(execute, delivery)
            except BaseException as error:  # an interrupt belongs to the main thread, not here
                outcome = came_to_nothing(delivery, error)
            done(outcome)
            self._last = outcome
            observe(outcome.runtime, self.slots - len(self._idle))
            if self._brevity.is_certain and self._lead is not bell:
                if self._lead is None:
                    self._lead = bell
                else:
                    self._overseer.watch()
                    self._sleep(bell, whatever_waits=True)

    def _sleep(self, bell: threading.Lock, *, whatever_waits: bool = False) -> None:
        """Block until there may be something to do."""
        self._idle.append(bell)
        if self._stopping or (self._pending and not whatever_waits):
            # It came between the look and the line above: perhaps nobody saw this slot idle.
            try:
                self._idle.remove(bell)
            except ValueError:
                bell.acquire()  # somebody did, and has released it or is about to
            return
        bell.acquire()


class Brevity:
    """Whether the jobs of late were so short that one slot is enough. What slots say at the same
    time may get lost, which changes little."""

    __slots__ = ("_needed", "_short", "is_certain")

    def __init__(self) -> None:
        self.is_certain = False
        self._short = 0  # up to CERTAIN while it is certain, else up to _needed
        self._needed = CERTAIN

    def observe(self, runtime: float, awake: int) -> None:
        """A job took ``runtime`` seconds, while so many slots were awake, its own included: for
        each of them it may have waited as long as for itself."""
        if runtime >= SHORT * awake:
            self._short = max(0, self._short - 4)
            if self.is_certain and self._short < LEAST_CERTAIN:
                self.is_certain = False
                self._short, self._needed = 0, min(UNCERTAIN, 2 * self._needed)
        elif not self.is_certain:
            self._short += 1
            if self._short >= self._needed:
                self.is_certain = True
                self._short = (LEAST_CERTAIN + CERTAIN) // 2
        elif self._short < CERTAIN:
            self._short += 1
            if self._short == CERTAIN:
                self._needed = CERTAIN


class Overseer:
    """Wakes all slots when nothing has ended for a while and something waits. Asleep while nothing
    does; its thread is made when it is first needed."""

    def __init__(
        self,
        pending: deque[Delivery],
        progress: Callable[[], object],
        rouse: Callable[[], None],
    ) -> None:
        self._pending = pending
        self._progress = progress
        self._rouse = rouse
        self._awake = False
        self._stopping = False
        self._orders: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def watch(self) -> None:
        """Until nothing waits. One thread calls this, or some that take turns."""
        if self._awake:
            return
        self._awake = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="taskmq-overseer", daemon=True)
            self._thread.start()
        self._orders.put(None)

    def stop(self) -> None:
        self._stopping = True
        self._orders.put(None)

    def _run(self) -> None:
        while True:
            self._orders.get()
            while self._pending and not self._stopping:
                before = self._progress()
                time.sleep(PATIENCE)
                if self._progress() is before:
                    self._rouse()
            self._awake = False
            if self._stopping:
                return
            if self._pending:  # since the look, so that nobody has ordered another
                self._orders.put(None)
