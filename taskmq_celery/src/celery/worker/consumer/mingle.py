"""The step for the exchange with other workers at the start."""

from __future__ import annotations

from threading import Thread
from typing import Any, ClassVar

from celery import bootsteps
from celery.utils.log import get_logger
from celery.worker import state
from taskmq_celery.brokers import carries_control

from .events import Events

__all__ = ("Mingle",)

logger = get_logger(__name__)

PATIENCE = 1.0
"""Seconds in which other workers are to answer."""


class Mingle(bootsteps.StartStopStep):
    """Asks the other workers, once, which tasks they were told of that are not to run, and tells
    them of its own; not with ``--without-mingle``, nor where the broker cannot broadcast.

    The worker does not wait for it: of every task that is in the store by then, the store knows
    it. What the others know counts for those that are yet to come.
    """

    label = "Mingle"
    requires = (Events,)
    compatible_transports: ClassVar[set[str]] = {"amqp", "gcpubsub", "redis"}

    def __init__(self, c: Any, without_mingle: bool = False, **kwargs: Any) -> None:
        super().__init__(c, **kwargs)
        self.enabled = not without_mingle and self.compatible_transport(c.app)

    def compatible_transport(self, app: Any) -> bool:
        """Whether the broker carries what workers say to each other to all of them."""
        if not carries_control(app.conf.broker_read_url):
            return False
        driver: str = app.connection_for_read().transport.driver_type
        return driver in self.compatible_transports

    def start(self, c: Any) -> None:
        """Begin to ask, in a thread."""
        Thread(target=self._try, args=(c,), name="celery-mingle", daemon=True).start()

    def _try(self, c: Any) -> None:
        try:
            self.sync(c)
        except Exception as error:  # whatever the broker has: the worker can do without
            logger.warning("mingle: the other workers could not be asked: %s", error)

    def sync(self, c: Any) -> None:
        """Ask, and take over what the others answer."""
        logger.info("mingle: searching for neighbors")
        replies = self.send_hello(c)
        if not replies:
            logger.info("mingle: all alone")
            return
        logger.info("mingle: sync with %s nodes", len(replies))
        for nodename, reply in replies.items():
            if reply:
                self.on_node_reply(c, nodename, reply)
        logger.info("mingle: sync complete")

    def send_hello(self, c: Any) -> dict[str, Any]:
        """What other workers answer, by their names, when they are told what this one knows."""
        with c.connect() as connection:
            asked = c.app.control.inspect(timeout=PATIENCE, connection=connection)
            replies = asked.hello(c.hostname, state.revoked._data) or {}
        return {name: reply for name, reply in replies.items() if name != c.hostname}

    def on_node_reply(self, c: Any, nodename: str, reply: dict[str, Any]) -> None:
        """An answer."""
        logger.debug("mingle: processing reply from %s", nodename)
        try:
            self.sync_with_node(c, **reply)
        except MemoryError:
            raise
        except Exception as error:
            logger.exception("mingle: sync with %s failed: %r", nodename, error)

    def sync_with_node(self, c: Any, clock: Any = None, revoked: Any = None, **kwargs: Any) -> None:
        """Take over what one worker has answered."""
        self.on_clock_event(c, clock)
        self.on_revoked_received(c, revoked)

    def on_clock_event(self, c: Any, clock: Any) -> None:
        """The other's logical clock: this one's is later from now on."""
        if clock:
            c.app.clock.adjust(clock)
        else:
            c.app.clock.forward()

    def on_revoked_received(self, c: Any, revoked: Any) -> None:
        """Ids that are not to run."""
        if revoked:
            state.merge_revoked(revoked)
