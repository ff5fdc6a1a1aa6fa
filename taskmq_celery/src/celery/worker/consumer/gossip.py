"""The step for what workers tell each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from heapq import heappush
from typing import Any, ClassVar

from kombu.messaging import Consumer

from celery import bootsteps
from celery.utils.log import get_logger
from celery.utils.objects import Bunch
from taskmq_celery.brokers import carries_control

from .mingle import Mingle

__all__ = ("Gossip",)

logger = get_logger(__name__)

MOST_REQUESTS = 1000
"""Elections that are kept in mind at once."""

GOSSIP = "celery.worker.consumer.gossip"
NAMES = {f"{GOSSIP}:Gossip", f"{GOSSIP}.Gossip", "celery.worker.consumer:Gossip"}
"""How steps name the one that they require."""


class Gossip(bootsteps.ConsumerStep):
    """``consumer.gossip``: which workers there are, and which of them is to do something.

    >>> class Resize(bootsteps.StartStopStep):
    ...     requires = ("celery.worker.consumer.gossip:Gossip",)
    ...
    ...     def start(self, c):
    ...         c.gossip.on.node_join.add(self.on_change)
    ...         c.gossip.on.node_leave.add(self.on_change)
    ...         c.gossip.on.node_lost.add(self.on_change)
    ...
    ...     def on_change(self, worker):
    ...         print(len(list(self.c.gossip.state.alive_workers())))

    It listens to what the other workers tell of themselves if a step of the program requires it;
    nothing of the worker's own does. It needs a broker that can broadcast, and ends with
    ``--without-gossip``.
    """

    label = "Gossip"
    requires = (Mingle,)
    compatible_transports: ClassVar[set[str]] = {"amqp", "redis"}

    def __init__(
        self,
        c: Any,
        without_gossip: bool = False,
        interval: float = 5.0,
        heartbeat_interval: float = 2.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(c, **kwargs)
        self.app, self.hostname = c.app, c.hostname
        self.full_hostname = f"{c.hostname}.{c.pid}"
        self.interval, self.heartbeat_interval = interval, heartbeat_interval
        self.enabled = (
            not without_gossip and self.compatible_transport(c.app) and _is_required(c.app)
        )
        c.gossip = self
        self.on: Any = Bunch(node_join=set(), node_leave=set(), node_lost=set())
        """Functions that are given the worker (`celery.events.state.Worker`) that has come, has
        gone, or is not heard of any more."""
        self.election_handlers: dict[str, Callable[[Any], Any]] = {"task": self.call_task}
        """What the worker that is chosen does, by topic, with the action that was asked for."""
        self._tref: Any = None
        self._requests: dict[str, list[tuple[int, str, str, Any]]] = defaultdict(list)
        self._replies: dict[str, set[str]] = defaultdict(set)
        if not self.enabled:
            return
        self.timer = c.timer
        self.dispatcher = c.event_dispatcher
        self.state = c.app.events.State(
            on_node_join=self.on_node_join,
            on_node_leave=self.on_node_leave,
            max_tasks_in_memory=1,
        )
        """The workers, as their events tell (`celery.events.state.State`)."""
        self.receiver: Any = None

    def compatible_transport(self, app: Any) -> bool:
        """Whether the broker carries what workers say of themselves to all of them."""
        if not carries_control(app.conf.broker_read_url):
            return False
        driver: str = app.connection_for_read().transport.driver_type
        return driver in self.compatible_transports

    # -- its life ----------------------------------------------------------------------------

    def get_consumers(self, channel: Any) -> list[Any]:
        """One, of a queue of this worker's own with what workers tell."""
        self.register_timer()
        self.receiver = self.app.events.Receiver(
            channel,
            routing_key="worker.#",
            queue_ttl=self.heartbeat_interval,
        )
        return [
            Consumer(
                channel,
                queues=[self.receiver.queue],
                on_message=lambda message: self.on_message(
                    self.receiver.event_from_message, message
                ),
                no_ack=True,
                accept=self.receiver.accept,
            )
        ]

    def _receive(self, message: Any) -> None:
        self.on_message(self.receiver.event_from_message, message)

    def start(self, c: Any) -> None:
        super().start(c)
        self.dispatcher = c.event_dispatcher

    def stop(self, c: Any) -> None:
        if self._tref is not None:
            self._tref.cancel()
        super().stop(c)

    def shutdown(self, c: Any) -> None:
        if self._tref is not None:
            self._tref.cancel()
        super().shutdown(c)

    def register_timer(self) -> None:
        """Look every `interval` seconds who is not heard of any more."""
        if self._tref is not None:
            self._tref.cancel()
        self._tref = self.timer.call_repeatedly(self.interval, self.periodic)

    def periodic(self) -> None:
        """Forget the workers that are not heard of any more, and say so."""
        for name, worker in list(self.state.workers.items()):
            if not worker.alive:
                self.state.workers.pop(name, None)
                self.on_node_lost(worker)

    # -- who is there ------------------------------------------------------------------------

    def on_message(self, prepare: Callable[[Any], Any], message: Any) -> None:
        """An event of a worker has come; ``prepare`` gives its type and itself."""
        kind = message.delivery_info["routing_key"]
        if "worker" not in kind:
            return
        _, event = prepare(message.payload)
        answer = {"worker-elect": self.on_elect, "worker-elect-ack": self.on_elect_ack}
        answer.get(event["type"], self._on_event)(event)

    def _on_event(self, event: Any) -> None:
        if event.get("hostname") == self.hostname:
            self.app.clock.forward()
        else:
            self.state.event(event)

    def on_node_join(self, worker: Any) -> None:
        logger.debug("%s joined the party", worker.hostname)
        self._tell(self.on.node_join, worker)

    def on_node_leave(self, worker: Any) -> None:
        logger.debug("%s left", worker.hostname)
        self._tell(self.on.node_leave, worker)

    def on_node_lost(self, worker: Any) -> None:
        logger.info("missed heartbeat from %s", worker.hostname)
        self._tell(self.on.node_lost, worker)

    def _tell(self, functions: set[Callable[[Any], Any]], worker: Any) -> None:
        for function in list(functions):
            try:
                function(worker)
            except Exception as error:
                logger.exception("Ignored error from handler %r: %r", function, error)

    # -- who is to do it ---------------------------------------------------------------------

    def election(self, id: str, topic: str, action: Any = None) -> None:
        """Ask all workers which of them does something: the one whose request is the first by the
        logical clock gives ``action`` to its function for the ``topic``."""
        self._replies[id] = set()
        self.dispatcher.send("worker-elect", id=id, topic=topic, action=action, cver=1)

    def on_elect(self, event: Any) -> None:
        """Somebody asks for an election: this worker has heard of it."""
        try:
            id_, topic, action = event["id"], event["topic"], event["action"]
            place = event["clock"], f"{event['hostname']}.{event['pid']}"
        except KeyError as error:
            logger.exception("election request missing field %s", error)
            return
        heappush(self._requests[id_], (*place, topic, action))
        if len(self._requests) > MOST_REQUESTS:  # others decide, and do not tell of it
            self._requests.pop(next(iter(self._requests)))
        self.dispatcher.send("worker-elect-ack", id=id_)

    def on_elect_ack(self, event: Any) -> None:
        """A worker has heard of an election. When all have, it is decided."""
        id_ = event["id"]
        if id_ not in self._replies:
            return  # not of this worker's
        self._replies[id_].add(event["hostname"])
        alive = {worker.hostname for worker in self.state.alive_workers()} | {self.hostname}
        if not alive <= self._replies[id_]:
            return
        _, leader, topic, action = self._requests.pop(id_)[0]
        del self._replies[id_]
        if leader != self.full_hostname:
            logger.info("node %s elected for %r", leader, id_)
            return
        logger.info("I won the election %r", id_)
        handler = self.election_handlers.get(topic)
        if handler is None:
            logger.error("Unknown election topic %r", topic)
        else:
            handler(action)

    def call_task(self, task: Any) -> None:
        """Call a task, given as a signature or what one is in JSON."""
        try:
            self.app.signature(task).apply_async()
        except Exception as error:
            logger.exception("Could not call task: %r", error)


def _is_required(app: Any) -> bool:
    """Whether a step of the program is behind this one."""
    for step in app.steps["consumer"]:
        needed = getattr(step, "requires", ())
        for one in (needed,) if isinstance(needed, str) else needed:
            if str(getattr(one, "name", one)) in NAMES:
                return True
    return False
