"""Hearing of the store's wake-ups: from whoever brings them, or else in a thread that waits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from taskmq.transport import Listener, Reserver

from .backoff import Backoff
from .inbox import Inbox

__all__ = ["Lookout"]

logger = logging.getLogger("taskmq.worker")


class Lookout:
    """Calls ``on_change`` once after each `watch`, when the store may have something new.

    A `Listener` wants clear, look, wait, in this order, from one thread at a time. The look is the
    loop's. Where the listener calls back, the store's own thread is the one that tells the loop:
    each thread in between would cost a lone job as much as its execution. Else the wait is this
    thread's: `watch` hands the listener over, the end of the wait hands it back. Meanwhile the loop
    looks without clearing, which can only make it look for nothing.
    """

    def __init__(
        self, transport: Reserver, queues: Sequence[str], on_change: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._queues: Sequence[str] = queues
        self._listened: Sequence[str] = queues
        self._swap = threading.Lock()  # held while the listener is woken, or another one comes
        self._on_change = on_change
        self._listener: Listener | None = None
        self._orders: SimpleQueue[None] = SimpleQueue()
        self._stop = threading.Event()
        self._backoff = Backoff()
        self._waiting = False
        self._thread = threading.Thread(target=self._run, name="taskmq-lookout", daemon=True)

    def start(self) -> None:
        """Raises `TransportError`."""
        self._listener = self._transport.listen(self._queues)
        self._thread.start()

    def consume(self, queues: Sequence[str]) -> None:
        """Wait for changes of these queues from now on. From any thread."""
        with self._swap:
            self._queues = queues
            if self._listener is not None:
                self._listener.wake()

    def prepare(self) -> None:
        """To be called before the loop looks."""
        if not self._waiting and self._listener is not None:
            self._listener.clear()

    def watch(self) -> None:
        """Wait for a change since the last `prepare`. No effect while it waits already."""
        if self._waiting:
            return
        self._waiting = True
        listener = self._listener
        calls_back = (
            listener is not None
            and self._listened is self._queues
            and listener.call_back(self._tell)
        )
        if not calls_back:
            self._orders.put(None)

    def wait(self, inbox: Inbox, seconds: float) -> None:
        """Wait for a change since the last `prepare`, and for whatever comes to the inbox.

        Where the listener's wait reads the store's news (it has an attribute ``attends``, which
        says whether it does now), that is the loop's own wait: no other thread has to wake for a
        lone job before the loop does."""
        listener = self._listener
        if (
            not self._waiting
            and listener is not None
            and self._listened is self._queues
            and getattr(listener, "attends", False)
        ):
            inbox.wait_beside(listener, seconds)
        else:
            self.watch()
            inbox.wait(seconds)

    def stop(self) -> None:
        """End the thread and close the listener."""
        with self._swap:
            if self._listener is None:
                return
            self._stop.set()
            self._listener.wake()
        self._orders.put(None)
        self._thread.join()
        self._listener.close()
        self._listener = None

    def _run(self) -> None:
        while True:
            self._orders.get()
            if self._stop.is_set():
                return
            if self._listened is self._queues:
                self._wait(self._listener)
            if self._listened is not self._queues:
                self._listen_anew()  # and look at once: nobody listened meanwhile
            if self._stop.is_set():
                return
            self._tell()

    def _tell(self) -> None:
        self._waiting = False
        self._on_change()

    def _listen_anew(self) -> None:
        queues = self._queues
        try:
            listener = self._transport.listen(queues)
        except Exception as error:  # the look reports what is wrong, and comes back here
            logger.debug("cannot listen to other queues yet: %s", error)
            self._stop.wait(self._backoff.next())
            return
        with self._swap:
            before, self._listener = self._listener, listener
            self._listened = queues
        if before is not None:
            before.close()

    def _wait(self, listener: Listener | None) -> None:
        try:
            if listener is not None:
                listener.wait(None)
            self._backoff.reset()
        except Exception as error:
            # Look after a while instead of waiting for a signal; the look reports what is wrong.
            if not self._backoff.failures:
                logger.warning("cannot listen to the store, looking instead: %s", error)
            self._stop.wait(self._backoff.next())
