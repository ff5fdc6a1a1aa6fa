"""The step for an agent: something of the program's that runs beside the consumer."""

from __future__ import annotations

from typing import Any

from celery import bootsteps

from .connection import Connection

__all__ = ("Agent",)


class Agent(bootsteps.StartStopStep):
    """``consumer.agent``: what the setting ``worker_agent`` names, a class or its path. It is made
    with the consumer's connection, started and stopped."""

    conditional = True
    requires = (Connection,)

    def __init__(self, c: Any, **kwargs: Any) -> None:
        super().__init__(c, **kwargs)
        self.agent_cls = c.app.conf.worker_agent
        self.enabled = bool(self.agent_cls)
        c.agent = None

    def create(self, c: Any) -> Any:
        c.agent = self.instantiate(self.agent_cls, c.connection)
        return c.agent
