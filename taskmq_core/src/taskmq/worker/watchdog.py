"""Giving back what waits behind a long job, for a pool that runs jobs in the loop's own thread.

The loop does this itself where the pool has threads. Here it is inside the job, so a thread looks
on: while a turn of the pool lasts and deliveries wait behind it, it checks now and then whether
any has started since. Between turns it sleeps.
"""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue

from taskmq.errors import TransportError
from taskmq.pools import Pool
from taskmq.transport import MAX_YIELDS, Release, Reserver

from .inbox import Inbox
from .lease import LeaseKeeper

__all__ = ["Watchdog"]

logger = logging.getLogger("taskmq.worker")


class Watchdog:
    """Guards the turns of ``pool``. ``patience``: seconds after which a job counts as long."""

    def __init__(
        self,
        pool: Pool,
        transport: Reserver,
        keeper: LeaseKeeper,
        inbox: Inbox,
        *,
        patience: float,
    ) -> None:
        self._pool = pool
        self._transport = transport
        self._keeper = keeper
        self._inbox = inbox
        self._patience = patience
        self._stop = threading.Event()
        self._orders: SimpleQueue[None] = SimpleQueue()
        self._in_turn = False
        self._awake = False
        self._thread = threading.Thread(target=self._run, name="taskmq-watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._orders.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    def turn(self) -> None:
        """One turn of the pool, under guard if anything waits behind its first job."""
        if self._pool.unstarted() > 1:
            self._in_turn = True
            if not self._awake:
                self._awake = True
                self._orders.put(None)
        try:
            self._pool.turn()
        finally:
            self._in_turn = False

    def _run(self) -> None:
        while True:
            self._orders.get()
            self._watch()
            self._awake = False
            if self._stop.is_set():
                return
            if self._in_turn:  # began too late to be watched and too early to order a watch
                self._orders.put(None)

    def _watch(self) -> None:
        unstarted = -1
        while self._in_turn and not self._stop.is_set():
            before, unstarted = unstarted, self._pool.unstarted()
            if unstarted and unstarted == before:
                self.give_back()
            self._stop.wait(self._patience)

    def give_back(self) -> None:
        """Let other workers have what waits; the loop hears of it when it is back."""
        held = self._pool.withdraw()
        kept = [delivery for delivery in held if delivery.yields >= MAX_YIELDS]
        releases = [Release(delivery) for delivery in held if delivery.yields < MAX_YIELDS]
        if kept:
            self._pool.submit(kept)
        if not releases:
            return
        self._keeper.let_go(releases)
        try:
            self._transport.settle(releases)
        except TransportError as error:
            logger.debug("cannot give back yet: %s", error)
            self._inbox.withdraw(releases)
        else:
            self._inbox.give_back(releases)
