"""The step for remote control."""

from __future__ import annotations

from typing import Any

from celery import bootsteps
from celery.worker.pidbox import Pidbox
from taskmq_celery.brokers import carries_control

from .tasks import Tasks

__all__ = ("Control",)


class Control(bootsteps.StartStopStep):
    """Answers what is asked through the broker (``worker_enable_remote_control``), if that can
    broadcast."""

    requires = (Tasks,)

    def __init__(self, c: Any, **kwargs: Any) -> None:
        super().__init__(c, **kwargs)
        self.box = Pidbox(c)

    def include_if(self, c: Any) -> bool:
        conf = c.app.conf
        return bool(conf.worker_enable_remote_control) and carries_control(conf.broker_read_url)

    def start(self, parent: Any) -> None:
        self.box.start(parent)

    def close(self, c: Any) -> None:
        """From now on nothing is obeyed. In signal handlers too."""
        self.box.stop(c)

    def stop(self, parent: Any) -> None:
        self.box.shutdown(parent)

    def terminate(self, c: Any) -> None:
        self.box.shutdown(c)
