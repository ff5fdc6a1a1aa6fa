"""A beat inside another program: ``celery worker -B``."""

from __future__ import annotations

import multiprocessing
from threading import Thread
from typing import Any

from celery import beat, platforms

__all__ = ("EmbeddedService",)


class _Threaded(Thread):
    """In a thread."""

    def __init__(self, app: Any, **kwargs: Any) -> None:
        super().__init__(name="Beat", daemon=True)
        self.app = app
        kwargs.setdefault("remote_control", False)
        self.service = beat.Service(app, **kwargs)

    def run(self) -> None:
        self.app.set_current()
        self.service.start()

    def stop(self) -> None:
        """Stop, and wait for it."""
        self.service.stop(wait=True)


class _Process(multiprocessing.get_context("fork").Process):  # type: ignore[misc]  # one of several
    """In a process of its own."""

    def __init__(self, app: Any, **kwargs: Any) -> None:
        super().__init__(name="Beat")
        self.app = app
        kwargs.setdefault("remote_control", False)
        self.service = beat.Service(app, **kwargs)

    def run(self) -> None:
        platforms.signals.reset("SIGTERM")
        self.app.set_default()
        self.app.set_current()
        self.service.start(embedded_process=True)

    def stop(self) -> None:
        """End it."""
        self.service.stop()
        self.terminate()
        self.join()


def EmbeddedService(  # noqa: N802  # Celery's name
    app: Any, max_interval: float | None = None, **kwargs: Any
) -> Any:
    """A beat that is not started yet, in a process, or with ``thread=True`` in a thread.

    It has ``start()`` and ``stop()``. In a thread it looks at the schedule every second at least.
    """
    if kwargs.pop("thread", False):
        return _Threaded(app, max_interval=1, **kwargs)
    return _Process(app, max_interval=max_interval, **kwargs)
