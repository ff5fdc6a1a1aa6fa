"""An event loop for what a program watches beside its tasks: ``worker.hub``."""

from __future__ import annotations

import threading

from kombu.asynchronous import Hub

from celery.utils.log import get_logger

__all__ = ("EventLoop",)

logger = get_logger("celery.worker.components")

PATIENCE = 2.0
"""Longest time in seconds that the end of a worker waits for what a callback does: without one,
the loop wakes every second."""


class EventLoop(Hub):
    """Kombu's, in a thread of its own: readers, writers, and functions that are called later.

    What a callback raises is logged, and the loop goes on.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # kombu's
        self._thread = threading.Thread(target=self._run, name="celery-hub", daemon=True)
        self._ended = False

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """Call nothing more, and wait for the thread, if that takes no longer than usual."""
        self._ended = True
        self.stop()  # type: ignore[no-untyped-call]  # kombu's
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        while not self._ended:
            try:
                self.run_forever()  # type: ignore[no-untyped-call]  # kombu's
            except Exception:
                logger.exception("A callback of the event loop failed")
        self.close()  # type: ignore[no-untyped-call]  # kombu's
