"""Things to do every so often beside the loop, in one thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

__all__ = ["Ticker"]

logger = logging.getLogger("taskmq.worker")


class Ticker:
    """Calls functions at intervals (real seconds) until it is stopped. None may hurt the others:
    an exception is logged, and the function is called again at its next time."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="taskmq-ticker", daemon=True)
        self._duties: list[tuple[float, Callable[[], None]]] = []

    def every(self, interval: float, duty: Callable[[], None]) -> None:
        """Before `start`: call ``duty`` every ``interval`` seconds, first after one of them."""
        self._duties.append((interval, duty))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; waits for the duty that is being done."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        due = [time.monotonic() + interval for interval, _ in self._duties]
        while not self._stop.wait(max(0.0, min(due) - time.monotonic())):
            for number, (interval, duty) in enumerate(self._duties):
                if time.monotonic() >= due[number]:
                    _attempt(duty)
                    due[number] = time.monotonic() + interval


def _attempt(duty: Callable[[], None]) -> None:
    try:
        duty()
    except Exception:
        logger.exception("%s failed", getattr(duty, "__qualname__", duty))
