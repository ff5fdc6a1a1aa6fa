"""Queues, and task messages: from the options of a call to what is sent.

Queues are kombu's `Queue` objects, as ``task_queues`` has them; of these, the engine uses the name.
"""

from __future__ import annotations

import datetime
import inspect
import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from kombu import pools
from kombu.connection import Connection
from kombu.entity import Exchange, Queue
from kombu.messaging import Consumer, Producer

from celery.utils.nodenames import anon_nodename
from celery.utils.time import maybe_iso8601

from . import routes
from .publishing import publish

if TYPE_CHECKING:
    from taskmq_celery.message import Message

    from .base import Celery

__all__ = ("AMQP", "Queues", "task_message")

QUEUE_FORMAT = ".> {0.name:<16} exchange={0.exchange.name}({0.exchange.type}) key={0.routing_key}"


class task_message(NamedTuple):  # noqa: N801  # Celery's name
    """A message of protocol 2: ``body`` is (args, kwargs, what comes after)."""

    headers: dict[str, Any]
    properties: dict[str, Any]
    body: tuple[Any, Any, dict[str, Any]]
    sent_event: Any = None


class Queues(dict[str, Any]):
    """The queues of an app, by name. Reading an unknown one declares it, unless that is off."""

    def __init__(
        self,
        queues: Any = None,
        default_exchange: Any = None,
        create_missing: bool = True,
        default_routing_key: str | None = None,
    ) -> None:
        super().__init__()
        self.aliases: dict[str, Any] = {}
        self.default_exchange = default_exchange
        self.default_routing_key = default_routing_key
        self.create_missing = create_missing
        self._consume_from: dict[str, Any] | None = None
        if isinstance(queues, Mapping):
            queues = [_from_options(name, options) for name, options in queues.items()]
        for queue in queues or ():
            self.add(queue)

    def __missing__(self, name: str) -> Any:
        if name in self.aliases:
            return self.aliases[name]
        if not self.create_missing:
            raise KeyError(name)
        return self.add(self.new_missing(name))

    def new_missing(self, name: str) -> Any:
        """The queue that is declared for a name nobody declared."""
        return Queue(name, Exchange(name), name)

    def add(self, queue: Any, **kwargs: Any) -> Any:
        """Declare a queue, given as kombu queue or as name with options."""
        if not isinstance(queue, Queue):
            queue = _from_options(queue, kwargs)
        if queue.exchange is None or not queue.exchange.name:
            queue.exchange = self.default_exchange or Exchange(queue.name)
        if not queue.routing_key:
            queue.routing_key = self.default_routing_key or queue.name
        if queue.alias:
            self.aliases[queue.alias] = queue
        self[queue.name] = queue
        return queue

    def select(self, include: Iterable[str] | str | None) -> None:
        """Consume from these queues only. Raises ``KeyError`` for one that may not be declared."""
        names = [include] if isinstance(include, str) else list(include or ())
        if names:
            self._consume_from = {name: self[name] for name in names}

    def deselect(self, exclude: Iterable[str] | str | None) -> None:
        """Do not consume from these queues."""
        names = [exclude] if isinstance(exclude, str) else list(exclude or ())
        if names:
            left = {name: q for name, q in self.consume_from.items() if name not in names}
            self._consume_from = left

    def select_add(self, queue: Any, **kwargs: Any) -> Any:
        """Declare a queue and consume from it too."""
        added = self.add(queue, **kwargs)
        if self._consume_from is not None:
            self._consume_from[added.name] = added
        return added

    @property
    def consume_from(self) -> dict[str, Any]:
        """The queues that a worker of this process takes jobs from."""
        return self if self._consume_from is None else self._consume_from

    def format(self, indent: int = 0, indent_first: bool = True) -> str:
        """One line a queue, as in the worker's banner."""
        lines = [QUEUE_FORMAT.format(queue) for _, queue in sorted(self.consume_from.items())]
        text = f"\n{' ' * indent}".join(lines)
        return f"{' ' * indent}{text}" if indent_first else text


def _from_options(name: str, options: Any) -> Any:
    if isinstance(options, Queue):
        return options
    options = dict(options or {})
    exchange = options.pop("exchange", None)
    kind = options.pop("exchange_type", "direct")
    key = options.pop("binding_key", None) or options.pop("routing_key", None)
    return Queue(name, Exchange(exchange, type=kind) if exchange else None, key or "")


class AMQP:
    """``app.amqp``."""

    header_options: ClassVar[frozenset[str]]
    """The options of a call that become headers of the message."""

    Connection = Connection
    BrokerConnection = Connection
    Consumer = Consumer
    Producer = Producer

    def __init__(self, app: Celery) -> None:
        self.app = app
        self._routed: tuple[int, routes.Router] | None = None
        self._producer_pool: tuple[int, Any] | None = None

    @cached_property
    def queues(self) -> Queues:
        """The queues of ``task_queues``, or the default one."""
        conf = self.app.conf
        exchange = Exchange(conf.task_default_exchange, type=conf.task_default_exchange_type)
        made = Queues(
            conf.task_queues,
            exchange,
            conf.task_create_missing_queues,
            conf.task_default_routing_key,
        )
        if not made:
            made.add(Queue(conf.task_default_queue, exchange, conf.task_default_routing_key))
        return made

    @property
    def default_queue(self) -> Any:
        return self.queues[self.app.conf.task_default_queue]

    @property
    def default_exchange(self) -> Any:
        return self.queues.default_exchange

    @property
    def router(self) -> routes.Router:
        """The routes of ``task_routes``."""
        revision = self.app.conf.revision
        if self._routed is None or self._routed[0] != revision:
            made = routes.Router(
                self.app.conf.task_routes, self.queues, self.queues.create_missing, self.app
            )
            self._routed = revision, made
        return self._routed[1]

    @property
    def routes(self) -> list[Any]:
        return self.router.routes

    def flush_routes(self) -> None:
        """Read ``task_routes`` again."""
        self._routed = None

    # -- kombu -------------------------------------------------------------------------------

    def TaskConsumer(  # noqa: N802  # Celery's name
        self, channel: Any, queues: Any = None, accept: Any = None, **kw: Any
    ) -> Any:
        """A consumer of messages from the app's queues, or from these."""
        wanted = self.app.conf.accept_content if accept is None else accept
        chosen = queues or list(self.queues.consume_from.values())
        make: Any = self.Consumer
        return make(channel, accept=wanted, queues=chosen, **kw)

    @property
    def producer_pool(self) -> Any:
        """Producers on the connections of ``app.pool``. A forked child has its own."""
        if self._producer_pool is None or self._producer_pool[0] != os.getpid():
            producers: Any = pools.producers
            made = producers[self.app.connection_for_write()]
            made.limit = self.app.pool.limit
            self._producer_pool = os.getpid(), made
        return self._producer_pool[1]

    publisher_pool = producer_pool

    def connection_pool(self, limit: int | None) -> Any:
        """Connections for publishing, at most so many at once."""
        connections: Any = pools.connections
        pools.set_limit(limit)
        return connections[self.app.connection_for_write()]

    def forget_producers(self) -> None:
        """Make `producer_pool` anew when it is used next."""
        self._producer_pool = None

    # -- messages ----------------------------------------------------------------------------

    def as_task_v2(  # Celery's signature
        self,
        task_id: str,
        name: str,
        args: Any = None,
        kwargs: Any = None,
        countdown: float | None = None,
        eta: Any = None,
        group_id: str | None = None,
        group_index: int | None = None,
        expires: Any = None,
        retries: int = 0,
        chord: Any = None,
        callbacks: Any = None,
        errbacks: Any = None,
        reply_to: str | None = None,
        time_limit: float | None = None,
        soft_time_limit: float | None = None,
        create_sent_event: bool = False,
        root_id: str | None = None,
        parent_id: str | None = None,
        shadow: str | None = None,
        chain: Any = None,
        now: datetime.datetime | None = None,
        origin: str | None = None,
        ignore_result: bool | None = False,
        argsrepr: str | None = None,
        kwargsrepr: str | None = None,
        stamped_headers: Any = None,
        replaced_task_nesting: int = 0,
        **options: Any,
    ) -> task_message:
        """A message of protocol 2. Raises ``TypeError`` for arguments that are no list and dict."""
        args, kwargs = args or (), kwargs or {}
        if not isinstance(args, (list, tuple)):
            raise TypeError("task args must be a list or tuple")
        if not isinstance(kwargs, Mapping):
            raise TypeError("task keyword arguments must be a mapping")
        if countdown is not None or eta is not None or expires is not None:
            now = now or self.app.now()
            eta = _iso(now, self.moment(eta) if countdown is None else countdown)
            expires = _iso(now, self.moment(expires))
        headers = {
            "lang": "py",
            "task": name,
            "id": task_id,
            "shadow": shadow,
            "eta": eta,
            "expires": expires,
            "group": group_id,
            "group_index": group_index,
            "retries": retries,
            "timelimit": [time_limit, soft_time_limit],
            "root_id": root_id or task_id,
            "parent_id": parent_id,
            "argsrepr": argsrepr,
            "kwargsrepr": kwargsrepr,
            "origin": origin or anon_nodename(),
            "ignore_result": ignore_result,
            "replaced_task_nesting": replaced_task_nesting,
            "stamped_headers": stamped_headers,
            "stamps": {name: options[name] for name in stamped_headers or () if name in options},
        }
        embed = {"callbacks": callbacks, "errbacks": errbacks, "chain": chain, "chord": chord}
        properties = {"correlation_id": task_id, "reply_to": reply_to}
        return task_message(headers, properties, (args, kwargs, embed))

    create_task_message = as_task_v2

    def instant(self, when: Any, now: float) -> float | None:
        """An ``eta`` or ``expires`` (seconds from now, datetime, ISO text) as epoch seconds."""
        moment = self.moment(when)
        if moment is None:
            return None
        if isinstance(moment, datetime.datetime):
            return moment.timestamp()
        return now + float(moment)

    def moment(self, when: Any) -> Any:
        """Seconds from now as they are; anything else as an aware datetime."""
        if isinstance(when, str):
            when = maybe_iso8601(when)
        if isinstance(when, datetime.datetime) and when.tzinfo is None:
            return when.replace(tzinfo=self.app.timezone)
        return when

    def publish(self, name: str, args: Any, kwargs: Any, **options: Any) -> Message:
        """Send one task, with everything that is to run after it, in one round trip."""
        return publish(self.app, name, args, kwargs, options)


AMQP.header_options = frozenset(inspect.signature(AMQP.as_task_v2).parameters)


def _iso(now: datetime.datetime, when: Any) -> str | None:
    """An instant as text; a number is seconds from ``now``."""
    if isinstance(when, (int, float)):
        when = now + datetime.timedelta(seconds=when)
    return when.isoformat() if when is not None else None
