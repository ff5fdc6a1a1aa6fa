"""Queues that are paused while a worker holds jobs of them that have not started."""

from __future__ import annotations

import logging

from taskmq.errors import TransportError
from taskmq.pools import Pool
from taskmq.transport import QueueControl

from .lease import LeaseKeeper

__all__ = ["Pauses"]

logger = logging.getLogger("taskmq.worker")


class Pauses:
    """Recalls what waits for a slot of ``pool`` and belongs to a paused queue."""

    def __init__(self, transport: QueueControl, pool: Pool, keeper: LeaseKeeper) -> None:
        self._transport = transport
        self._pool = pool
        self._keeper = keeper

    def look(self) -> None:
        """To be called once or twice a second. One read, however many jobs there are, and none
        while nothing waits."""
        if not self._pool.unstarted():
            return
        try:
            paused = {pause.queue for pause in self._transport.paused()}
        except TransportError as error:
            logger.debug("cannot look which queues are paused: %s", error)
            return
        if paused:
            self._keeper.recall_unstarted(paused)
