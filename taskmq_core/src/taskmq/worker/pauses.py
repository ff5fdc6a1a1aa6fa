"""Queues and workflows that are paused while a worker holds jobs of them that have not started."""

from __future__ import annotations

import logging

from taskmq.control import paused_workflows
from taskmq.envelope import load
from taskmq.errors import MessageError, TransportError
from taskmq.pools import Pool
from taskmq.transport import Delivery, Transport

from .lease import LeaseKeeper

__all__ = ["Pauses"]

logger = logging.getLogger("taskmq.worker")


class Pauses:
    """Recalls what waits for a slot of ``pool`` and belongs to a paused queue or workflow."""

    def __init__(self, transport: Transport, pool: Pool, keeper: LeaseKeeper) -> None:
        self._transport = transport
        self._pool = pool
        self._keeper = keeper

    def look(self) -> None:
        """To be called once or twice a second. Two reads, however many jobs there are, and none
        while nothing waits."""
        if not self._pool.unstarted():
            return
        try:
            queues = {pause.queue for pause in self._transport.paused()}
            workflows = {pause.workflow for pause in paused_workflows(self._transport)}
        except TransportError as error:
            logger.debug("cannot look what is paused: %s", error)
            return
        if queues:
            self._keeper.recall_unstarted(lambda delivery: delivery.queue in queues)
        if workflows:
            self._keeper.recall_unstarted(lambda delivery: _workflow_of(delivery) in workflows)


def _workflow_of(delivery: Delivery) -> str | None:
    try:
        return load(delivery.envelope).workflow
    except MessageError:
        return None
