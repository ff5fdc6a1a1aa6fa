"""Threads: for work that waits more than it computes. The default.

Waiting deliveries are in one deque. Taking one out of it is atomic, which is what makes `withdraw`
safe: a slot and the owner cannot both get the same delivery. A slot that finds the deque empty
puts its own lock on the list of idle slots and blocks on it; whoever submits work releases as many
of these locks as there is work for. There is no lock that all slots share, and no wake-up without
work.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Sequence

from taskmq.transport import Delivery

from .base import Done, Execute, InProcess, came_to_nothing, run_one

__all__ = ["ThreadPool"]


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
        self._pending.extend(deliveries)
        self._rouse(len(deliveries))

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
        end = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _rouse(self, most: int) -> None:
        for _ in itertools.repeat(None, most):
            try:
                self._idle.pop().release()
            except IndexError:
                return

    def _slot(self) -> None:
        """The life of one slot."""
        bell = threading.Lock()
        bell.acquire()
        take, execute, done = self._pending.popleft, self._execute, self._done
        while True:
            try:
                delivery = take()
            except IndexError:
                if self._stopping:
                    return
                self._sleep(bell)
                continue
            try:
                outcome = run_one(execute, delivery)
            except BaseException as error:  # an interrupt belongs to the main thread, not here
                outcome = came_to_nothing(delivery, error)
            done(outcome)

    def _sleep(self, bell: threading.Lock) -> None:
        """Block until there may be something to do."""
        self._idle.append(bell)
        if self._pending or self._stopping:
            # It came between the look and the line above: perhaps nobody saw this slot idle.
            try:
                self._idle.remove(bell)
            except ValueError:
                bell.acquire()  # somebody did, and has released it or is about to
            return
        bell.acquire()
