"""Who may enqueue what is due: one scheduler of a store at a time, by a named lease."""

from __future__ import annotations

import logging
import os
import socket

from taskmq.clock import Clock
from taskmq.errors import TransportError
from taskmq.ids import new_id
from taskmq.transport import NamedLeases

__all__ = ["RENEW", "TTL", "Leadership"]

logger = logging.getLogger("taskmq.scheduler")

NAME = "scheduler"
TTL = 6.0
"""Seconds for which the lease is held: so long nobody leads after a leader was killed."""
RENEW = 1.5
"""Seconds after which it is renewed, and asked for by the others."""
MARGIN = 1.0
"""Seconds before its end from which on a leader does not rely on it."""


class Leadership:
    """The lease, as one scheduler has it.

    It is relied on for a shorter time than it lasts, counted from before it was asked for, by the
    clock that cannot be set and by the one that can: a leader that was frozen finds out before it
    does anything. (What it had begun is harmless: runs have idempotency keys.)
    """

    def __init__(self, leases: NamedLeases, clock: Clock) -> None:
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{new_id()}"
        self._leases = leases
        self._clock = clock
        self._since: tuple[float, float] | None = None

    @property
    def is_trusted(self) -> bool:
        """Whether nobody else can have the lease now."""
        return self._since is not None and self._age() < TTL - MARGIN

    def hold(self) -> bool:
        """Acquire the lease, or renew it when it is time. Raises `TransportError`."""
        if self._since is not None and self._age() < RENEW:
            return True
        asked = self._clock.monotonic(), self._clock.now()
        led = self.is_trusted
        if not self._leases.acquire(NAME, self.owner, TTL):
            if self._since is not None:
                logger.warning("another scheduler leads now")
            self._since = None
            return False
        if not led:
            logger.info("this scheduler leads")
        self._since = asked
        return self.is_trusted

    def give_up(self) -> None:
        """Let another one lead at once, if the store answers."""
        if self._since is None:
            return
        self._since = None
        try:
            self._leases.surrender(NAME, self.owner)
        except TransportError as error:
            logger.warning("cannot give up the lead, it ends by itself: %s", error)

    def _age(self) -> float:
        if self._since is None:
            return TTL
        monotonic, wall = self._since
        return max(self._clock.monotonic() - monotonic, abs(self._clock.now() - wall))
