"""From operating system signals to a worker's stop."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from .runner import Worker

__all__ = ["handle_signals"]


@contextmanager
def handle_signals(worker: Worker) -> Iterator[None]:
    """While inside, SIGTERM and SIGINT stop the worker: the first gracefully, a second at once.

    Only in the main thread, where Python runs signal handlers. The trap sets a flag and rings a
    bell; everything else happens in the worker's loop. The previous handlers are put back.

    >>> with handle_signals(worker):
    ...     report = worker.run()
    """

    def trap(number: int, frame: FrameType | None) -> None:
        if worker.stopping:
            worker.stop_now()
        else:
            worker.stop()

    previous = {number: signal.signal(number, trap) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
