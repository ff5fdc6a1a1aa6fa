"""A scheduler that runs: leads if it can, looks when something is due or was changed."""

from __future__ import annotations

import logging
import threading
import time

from taskmq.app import App
from taskmq.errors import SchemaMismatch, StoreCorrupt, TransportError
from taskmq.transport import Listener

from .book import SCHEDULES, Book, Page
from .leader import RENEW, Leadership
from .publish import publish, restore
from .tick import Tick

__all__ = ["Scheduler"]

logger = logging.getLogger("taskmq.scheduler")

HOPELESS = (StoreCorrupt, SchemaMismatch)
"""Waiting does not mend these: they end the scheduler."""
AFTER_FAILURE = 2.0
"""Seconds after which a store that did not answer is asked again."""
PAUSE, LONGEST_PAUSE = 0.25, 0.75
"""Seconds between two looks at the schedules: a listener may wake up for what others do, often."""
SHARE = 0.02
"""What such looks may take of the time, as long as the pause is not the longest."""
IDLE = 300.0
"""Seconds after which a store without schedules is looked at, though it told of nothing new."""


class Scheduler:
    """Enqueues what the schedules of an app's store say, as long as no other scheduler does.

    Any number may run at once. `run` blocks until `stop`, which may be called from any thread and
    from a signal handler; `start` does so in a thread. `step` is one round, for those who keep
    the time themselves. While the store has no schedule, it waits to be told of one, and that is
    all that it does.

    Schedules that the app defines (`App.schedule`) are written to the store when it starts,
    whoever leads: the process that started last decides. ``program`` names the program that
    defines them; those of the same name that it had defined before, and does not any more, are
    taken out. Without a name none are.
    """

    def __init__(self, app: App, *, program: str = "") -> None:
        self.app = app
        self.program = program
        self._lead = Leadership(app.transport, app.clock)
        self._book = Book(app.transport)
        self._tick = Tick(app)
        self._listener: Listener | None = None
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._published: int | None = None
        self._pages: list[Page] = []
        self._stale = True
        self._next: float | None = None
        self._looked_at = 0.0
        self._look_took = 0.0
        self._failing = False

    @property
    def leads(self) -> bool:
        """Whether it is the one that enqueues."""
        return self._lead.is_trusted

    @property
    def schedules(self) -> int:
        """How many there were when it last looked."""
        return len(self._pages)

    def start(self) -> None:
        """Run in a thread of its own; again, if it was stopped."""
        self._stopping = False
        self._thread = threading.Thread(
            target=self._run_in_thread, name="taskmq-scheduler", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end; another one leads at once. Does not wait."""
        self._stopping = True
        listener = self._listener
        if listener is not None:
            listener.wake()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the thread that `start` began; whether it has ended."""
        if self._thread is not None:
            self._thread.join(timeout)
        return self._thread is None or not self._thread.is_alive()

    def run(self) -> None:
        """Raises `StoreCorrupt` and `SchemaMismatch`; any other trouble of the store is waited
        for."""
        try:
            while not self._stopping:
                if self._listener is not None:
                    self._listener.clear()
                wait = self.step()
                self._wait(wait)
        finally:
            self._lead.give_up()
            listener, self._listener = self._listener, None
            if listener is not None:
                listener.close()

    def run_once(self) -> bool:
        """Enqueue what is due now, unless another scheduler leads; whether this one did. Raises
        `TransportError`."""
        try:
            self._step()
            if self._pages and not self._lead.is_trusted:
                logger.info("another scheduler leads: there is nothing to do here")
            return self._lead.is_trusted
        finally:
            self._lead.give_up()

    def _wait(self, seconds: float) -> None:
        if self._stopping:
            return
        try:
            listener = self._listen()
        except TransportError as error:
            self._tell_failure(error)
            time.sleep(min(seconds, PAUSE))
            return
        if listener.wait(seconds) and not self._stopping:
            self._stale = True  # something was changed, perhaps
            time.sleep(min(seconds, max(PAUSE, min(LONGEST_PAUSE, self._look_took / SHARE))))

    def _run_in_thread(self) -> None:
        while not self._stopping:
            try:
                self.run()
            except HOPELESS as error:
                logger.error("this scheduler ends: %s", error)
                return
            except Exception:  # the worker beside it goes on, and so must the schedules
                logger.exception("the scheduler failed, and starts again")
                self._stale = True
                time.sleep(AFTER_FAILURE)

    def step(self) -> float:
        """Do what is due now; seconds until there may be something to do again."""
        try:
            wait = self._step()
        except HOPELESS:
            raise
        except TransportError as error:
            self._tell_failure(error)
            self._stale = True
            return AFTER_FAILURE
        if self._failing:
            logger.info("schedules go on")
        self._failing = False
        return wait

    def _step(self) -> float:
        self._publish()
        led = self._lead.is_trusted
        if self._stale and (led or not self._pages):
            self._look()
        if not self._pages:
            self._lead.give_up()
            return IDLE
        if not self._lead.hold():
            return RENEW
        if not led:
            self._look()
            self._next = None
        now = self.app.clock.now()
        # A clock that was put back must not leave us waiting for what was next before.
        if self._next is None or self._next <= now or now < self._looked_at:
            if not self._lead.is_trusted:
                return 0.0  # it took long to come here
            self._looked_at = now
            self._next = self._tick.take(self._pages, now) or float("inf")
        return min(RENEW, max(0.0, self._next - self.app.clock.now()))

    def _publish(self) -> None:
        if self._published != len(self.app.schedules):
            self.app.load()
            publish(self.app, self._book, self.program)
            self._published = len(self.app.schedules)
            self._stale = True
        elif self._failing:
            restore(self.app, self._book, self.program)

    def _listen(self) -> Listener:
        if self._listener is None:
            self._listener = self.app.transport.listen(kinds=[SCHEDULES])
            self._listener.wake()  # for what came before
        return self._listener

    def _look(self) -> None:
        self._stale = False
        began = time.monotonic()
        pages = self._book.changed(self._pages)
        self._look_took = time.monotonic() - began
        if pages is None:
            return
        self._next = None
        for page in pages:
            if page.broken and page not in self._pages:
                logger.error("schedule %r is left out: %s", page.name, page.broken)
        self._pages = pages

    def _tell_failure(self, error: TransportError) -> None:
        if not self._failing:
            logger.warning("cannot look at schedules, trying until that works: %s", error)
        self._failing = True
