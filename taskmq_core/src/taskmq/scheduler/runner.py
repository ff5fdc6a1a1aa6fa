"""A scheduler that runs: leads if it can, looks when something is due or was changed."""

from __future__ import annotations

import logging
import threading

import msgspec

from taskmq.app import App
from taskmq.errors import SchemaMismatch, StoreCorrupt, TransportError
from taskmq.transport import Listener

from .book import SCHEDULES, Book, Entry, Page
from .leader import RENEW, Leadership
from .tick import Tick

__all__ = ["Scheduler"]

logger = logging.getLogger("taskmq.scheduler")

HOPELESS = (StoreCorrupt, SchemaMismatch)
"""Waiting does not mend these: they end the scheduler."""
AFTER_FAILURE = 2.0
"""Seconds after which a store that did not answer is asked again."""


class Scheduler:
    """Enqueues what the schedules of an app's store say, as long as no other scheduler does.

    Any number may run at once. `run` blocks until `stop`, which may be called from any thread and
    from a signal handler; `start` does so in a thread. `step` is one round, for those who keep
    the time themselves.

    Schedules that the app defines (`App.schedule`) are written to the store by whoever begins to
    lead; those that it had defined before, and does not any more, are taken out.
    """

    def __init__(self, app: App) -> None:
        self.app = app
        self._lead = Leadership(app.transport, app.clock)
        self._book = Book(app.transport)
        self._tick = Tick(app)
        self._listener: Listener | None = None
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._pages: list[Page] | None = None
        self._next: float | None = None
        self._failing = False

    @property
    def leads(self) -> bool:
        """Whether it is the one that enqueues."""
        return self._lead.is_trusted

    def start(self) -> None:
        """Run in a thread of its own. Raises `TransportError`."""
        self._listen()
        self._thread = threading.Thread(target=self.run, name="taskmq-scheduler", daemon=True)
        self._thread.start()

    def stop(self, timeout: float | None = None) -> None:
        """Ask it to end; another one leads at once. Waits for a thread that `start` began."""
        self._stopping = True
        if self._listener is not None:
            self._listener.wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def run(self) -> None:
        """Raises `StoreCorrupt` and `SchemaMismatch`; any other trouble of the store is waited
        for."""
        try:
            listener = self._listen()
            while not self._stopping:
                listener.clear()
                wait = self.step()
                if listener.wait(wait) and not self._stopping:
                    self._pages = None  # something was changed
        finally:
            self._lead.give_up()
            if self._listener is not None:
                self._listener.close()

    def step(self) -> float:
        """Do what is due now; seconds until there may be something to do again."""
        try:
            wait = self._step()
        except HOPELESS:
            raise
        except TransportError as error:
            if not self._failing:
                logger.warning("the store does not answer, trying until it does: %s", error)
            self._failing = True
            self._pages = None
            return AFTER_FAILURE
        if self._failing:
            logger.info("the store answers again")
        self._failing = False
        return wait

    def _step(self) -> float:
        led = self._lead.is_trusted
        if not self._lead.hold():
            self._pages = None
            return RENEW
        if not led:
            self._publish()
            self._pages = None
        if self._pages is None:
            self._pages = self._read()
            self._next = None
        now = self.app.clock.now()
        if self._next is None or self._next <= now:
            if not self._lead.is_trusted:
                return 0.0  # it took long to come here
            self._next = self._tick.take(self._pages, now) or float("inf")
        return min(RENEW, max(0.0, self._next - self.app.clock.now()))

    def _listen(self) -> Listener:
        if self._listener is None:
            self._listener = self.app.transport.listen(kinds=[SCHEDULES])
        return self._listener

    def _read(self) -> list[Page]:
        pages = self._book.pages()
        for page in pages:
            if page.broken:
                logger.error("schedule %r is left out: %s", page.name, page.broken)
        return pages

    # -- the schedules of the program --------------------------------------------------------

    def _publish(self) -> None:
        """Let the store have what the program defines."""
        self.app.load()
        defined = {schedule.name: schedule for schedule in self.app.schedules}
        if not defined:
            return
        known = {page.name: page for page in self._book.pages()}
        for name, schedule in defined.items():
            page = known.get(name)
            if page is None:
                entry = Entry(schedule=schedule, at=self.app.clock.now())
                self._book.write(name, entry, None)
            elif page.entry is not None and page.entry.origin != "code":
                logger.error("schedule %r was added by hand; the program's own is left out", name)
            elif page.entry is None or page.entry.schedule != schedule:
                old = page.entry or Entry(schedule=schedule)
                entry = msgspec.structs.replace(
                    old, schedule=schedule, at=self.app.clock.now(), disabled=""
                )
                self._book.write(name, entry, page.revision)
        for name, page in known.items():
            if name not in defined and page.entry is not None and page.entry.origin == "code":
                logger.info("schedule %r is not defined any more", name)
                if self._book.write(name, None, page.revision):
                    self._book.forget(name)
