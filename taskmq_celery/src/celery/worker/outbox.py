"""Where a process puts what it has to tell, and the thread that sends it.

Whoever tells something never waits for the broker: tasks, signal handlers, the worker itself.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from celery.utils.log import get_logger

__all__ = ("Outbox",)

logger = get_logger(__name__)

LINGER = 0.1
"""Seconds that the first event of a batch waits for others."""
MOST_TOGETHER = 500
IDLE = 3600.0
MOST_KEPT = 20_000
"""Events of one process that wait for a broker; what comes then is lost, and counted."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0

Told = tuple[str, dict[str, Any]]


class Beat:
    """Something that is done again and again."""

    def __init__(self, secs: float, fun: Callable[..., Any], args: Sequence[Any]) -> None:
        self.secs, self.fun, self.args = secs, fun, args
        self.due = time.monotonic() + secs
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Outbox:
    """Sends batches with ``send``, in the order in which events were put, from its own thread.

    ``send`` may raise anything: the batch is sent again, later and later. ``forget`` is called
    before that, to open connections anew.
    """

    def __init__(
        self, send: Callable[[Sequence[Told]], None], forget: Callable[[], None], name: str
    ) -> None:
        self._send, self._forget = send, forget
        self._queue: queue.SimpleQueue[Told | None] = queue.SimpleQueue()
        self._beats: list[Beat] = []
        self._lost = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, told: Told) -> None:
        """Have an event sent, some time."""
        if self._queue.qsize() < MOST_KEPT:
            self._queue.put(told)
        else:
            self._lost += 1

    def call_repeatedly(
        self, secs: float, fun: Callable[..., Any], args: Sequence[Any] = (), **_: Any
    ) -> Beat:
        """Call a function every so many seconds, in the thread that sends."""
        beat = Beat(secs, fun, args)
        self._beats.append(beat)
        self._wake()  # it may wait for longer than that
        return beat

    def cancel(self, beat: Beat) -> None:
        """Call that no more."""
        beat.cancel()

    def close(self, patience: float) -> None:
        """Send what is there, in ``patience`` seconds at most, and end."""
        self._closing.set()
        self._wake()
        self._thread.join(patience)

    def _wake(self) -> None:
        self._queue.put(None)

    # -- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        while not (self._closing.is_set() and self._queue.empty()):
            batch = self._gathered()
            if batch:
                self._deliver(batch)
            self._call_beats()
        self._forget()

    def _gathered(self) -> list[Told]:
        """What there is, once there is something; nothing, if it is time for a beat."""
        batch: list[Told] = []
        until = self._next_beat()
        while len(batch) < MOST_TOGETHER:
            try:
                told = self._queue.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            if told is None:
                break
            if not batch:
                until = min(until, time.monotonic() + LINGER)
            batch.append(told)
        return batch

    def _next_beat(self) -> float:
        self._beats = [beat for beat in self._beats if not beat.cancelled]
        return min((beat.due for beat in self._beats), default=time.monotonic() + IDLE)

    def _call_beats(self) -> None:
        now = time.monotonic()
        for beat in self._beats:
            if beat.due <= now and not beat.cancelled:
                beat.due = now + beat.secs
                try:
                    beat.fun(*beat.args)
                except Exception:
                    logger.exception("Events: %r failed", beat.fun)

    def _deliver(self, batch: Sequence[Told]) -> None:
        pause = FIRST_PAUSE
        while not self._sent(batch, pause):
            if self._closing.is_set():
                logger.warning("Events: the last %d are lost", len(batch))
                return
            self._closing.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        if self._lost:
            lost, self._lost = self._lost, 0
            logger.warning("Events: %d were lost while the broker was away", lost)

    def _sent(self, batch: Sequence[Told], pause: float) -> bool:
        try:
            self._send(batch)
        except Exception as error:  # whatever it is: the next connection may be better
            self._forget()
            why = " ".join(str(error).split()) or type(error).__name__
            logger.warning("Events: %s; they are kept, trying again in %.1f s", why, pause)
            return False
        return True
