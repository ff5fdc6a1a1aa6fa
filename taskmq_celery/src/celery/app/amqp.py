"""Queues, and task messages: from the options of a call to what is sent.

Queues are kombu's `Queue` objects, as ``task_queues`` has them; of these, the engine uses the name.
"""

from __future__ import annotations

import datetime
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from kombu import pools
from kombu.connection import Connection
from kombu.entity import Exchange, Queue
from kombu.messaging import Consumer, Producer

from celery.utils.nodenames import anon_nodename
from celery.utils.saferepr import saferepr
from celery.utils.time import maybe_iso8601

from . import routes
from .publishing import Sent, arguments_of, publish
from .republishing import _callback_publish_retry as _callback_publish_retry
from .republishing import retry_publish
from .sending import send_task_message

if TYPE_CHECKING:
    from .base import Celery

__all__ = (
    "AMQP",
    "Queues",
    "task_message",
)

INT_MIN = -2147483648

QUEUE_FORMAT = ".> {0.name:<16} exchange={0.exchange.name}({0.exchange.type}) key={0.routing_key}"


class task_message(NamedTuple):  # noqa: N801  # Celery's name
    """A message; in protocol 2, ``body`` is (args, kwargs, what comes after)."""

    headers: dict[str, Any]
    properties: dict[str, Any]
    body: Any
    sent_event: Any


class Queues(dict[str, Any]):
    """The queues of an app, by name. Reading an unknown one declares it, unless that is off."""

    def __init__(
        self,
        queues: Any = None,
        default_exchange: Any = None,
        create_missing: bool = True,
        create_missing_queue_type: str | None = None,
        create_missing_queue_exchange_type: str | None = None,
        autoexchange: Callable[[str], Any] | None = None,
        max_priority: int | None = None,
        default_routing_key: str | None = None,
    ) -> None:
        super().__init__()
        # What queues lack that are declared without it.
        self.max_priority = max_priority
        self.default_exchange, self.default_routing_key = default_exchange, default_routing_key
        # How those are made that nobody declared.
        self.create_missing = create_missing
        self.autoexchange = autoexchange or Exchange
        self.create_missing_queue_type = create_missing_queue_type
        self.create_missing_queue_exchange_type = create_missing_queue_exchange_type
        self._consume_from: dict[str, Any] | None = None
        self._deselected: set[str] = set()
        self.aliases: dict[str, Any] = {}
        if isinstance(queues, Mapping):
            queues = [_from_options(name, options) for name, options in queues.items()]
        for queue in queues or ():
            self.add(queue)
        self._known: frozenset[str] = frozenset(self)

    def __missing__(self, name: str) -> Any:
        if name in self.aliases:
            return self.aliases[name]
        if not self.create_missing:
            raise KeyError(name)
        return self.add(self.new_missing(name))

    def __setitem__(self, name: str, queue: Any) -> None:
        if self.default_exchange is not None and not (queue.exchange and queue.exchange.name):
            queue.exchange = self.default_exchange
        elif queue.exchange is None:
            queue.exchange = Exchange(queue.name)
        if not queue.routing_key:
            queue.routing_key = self.default_routing_key or queue.name
        if self.max_priority is not None:
            arguments = dict(queue.queue_arguments or {})
            arguments.setdefault("x-max-priority", self.max_priority)
            queue.queue_arguments = arguments
        if queue.alias:
            self.aliases[queue.alias] = queue
        super().__setitem__(name, queue)

    def new_missing(self, name: str) -> Any:
        """The queue that is declared for a name nobody declared.

        Raises ``ValueError`` for a queue type that RabbitMQ does not have.
        """
        kind = self.create_missing_queue_type
        if kind not in (None, "classic", "quorum"):
            raise ValueError(
                f"Invalid queue type {kind!r}. Valid types are 'classic' and 'quorum'."
            )
        exchange = self.autoexchange(name)
        if self.create_missing_queue_exchange_type:
            exchange.type = self.create_missing_queue_exchange_type
        arguments = {"x-queue-type": kind} if kind == "quorum" else None
        return Queue(name, exchange, name, queue_arguments=arguments)

    def add(self, queue: Any, **kwargs: Any) -> Any:
        """Declare a queue, given as kombu queue or as name with options."""
        if not isinstance(queue, Queue):
            queue = _from_options(queue, kwargs)
        self[queue.name] = queue
        return queue

    def add_compat(self, name: str, **options: Any) -> Any:
        """Declare a queue from the options that ``task_queues`` had before kombu's queues."""
        return self.add(_from_options(name, options))

    def select(self, include: Iterable[str] | str | None) -> None:
        """Consume from these queues only. Raises ``KeyError`` for one that may not be declared."""
        names = [include] if isinstance(include, str) else list(include or ())
        if names:
            chosen = [self[name] for name in names]
            self._consume_from = {queue.name: queue for queue in chosen}
            self._deselected = set()

    def deselect(self, exclude: Iterable[str] | str | None) -> None:
        """Do not consume from these queues."""
        names = [exclude] if isinstance(exclude, str) else list(exclude or ())
        if not names:
            return
        real = {self.aliases[name].name if name in self.aliases else name for name in names}
        if self._consume_from is None:
            # What was declared later is there for routing: it is not consumed from.
            self._deselected |= {name for name in self if name in real}
        else:
            for name in real:
                self._consume_from.pop(name, None)

    def select_add(self, queue: Any, **kwargs: Any) -> Any:
        """Declare a queue and consume from it too."""
        added = self.add(queue, **kwargs)
        if self._consume_from is not None:
            self._consume_from[added.name] = added
        self._known |= {added.name}
        self._deselected.discard(added.name)
        return added

    @property
    def consume_from(self) -> dict[str, Any]:
        """The queues that a worker of this process takes jobs from."""
        if self._consume_from is not None:
            return self._consume_from
        if not self._deselected:
            return self
        return {
            name: queue
            for name, queue in self.items()
            if name in self._known and name not in self._deselected
        }

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

    queues_cls = Queues
    argsrepr_maxsize = kwargsrepr_maxsize = 1024
    autoexchange: Any = None

    Connection = Connection
    BrokerConnection = Connection
    Consumer = Consumer
    Producer = Producer

    def __init__(self, app: Celery) -> None:
        self.app = app
        self._routed: routes.Router | None = None
        self._producer_pool: tuple[int, Any] | None = None

    @cached_property
    def queues(self) -> Queues:
        """The queues of ``task_queues``, or the default one."""
        return self.Queues(self.app.conf.task_queues)

    def Queues(  # noqa: N802  # Celery's name
        self,
        queues: Any,
        create_missing: bool | None = None,
        create_missing_queue_type: str | None = None,
        create_missing_queue_exchange_type: str | None = None,
        autoexchange: Callable[[str], Any] | None = None,
        max_priority: int | None = None,
    ) -> Queues:
        """Queues as the settings have them; without any, the default one."""
        conf, either = self.app.conf, self.app.either
        exchange = Exchange(conf.task_default_exchange, type=conf.task_default_exchange_type)
        key = conf.task_default_routing_key
        if not queues and conf.task_default_queue:
            quorum = {"x-queue-type": "quorum"}
            arguments = quorum if conf.task_default_queue_type == "quorum" else None
            queues = [Queue(conf.task_default_queue, exchange, key, queue_arguments=arguments)]
        return self.queues_cls(
            queues,
            exchange,
            either("task_create_missing_queues", create_missing),
            either("task_create_missing_queue_type", create_missing_queue_type),
            either("task_create_missing_queue_exchange_type", create_missing_queue_exchange_type),
            autoexchange or self.autoexchange,
            conf.task_queue_max_priority if max_priority is None else max_priority,
            key,
        )

    def Router(  # noqa: N802  # Celery's name
        self, queues: Any = None, create_missing: bool | None = None
    ) -> routes.Router:
        """A router for the routes of ``task_routes``."""
        return routes.Router(
            self.app.conf.task_routes,
            self.queues if queues is None else queues,
            self.app.either("task_create_missing_queues", create_missing),
            self.app,
        )

    @property
    def default_queue(self) -> Any:
        return self.queues[self.app.conf.task_default_queue]

    @property
    def default_exchange(self) -> Any:
        return self.queues.default_exchange

    @property
    def router(self) -> routes.Router:
        """The routes of ``task_routes``."""
        if self._routed is None:
            self._routed = self.Router()
        return self._routed

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
            connections = self.app.pool
            made = pools.ProducerPool(connections, limit=connections.limit)
            self._producer_pool = os.getpid(), made
        return self._producer_pool[1]

    publisher_pool = producer_pool

    def connection_pool(self, limit: int | None) -> Any:
        """Connections for publishing, at most so many at once. Of this app alone: kombu's own
        pools are shared by all apps with one broker, and closed when one of them is."""
        return self.app.connection_for_write().Pool(limit)

    def forget_producers(self) -> None:
        """Make `producer_pool` anew when it is used next."""
        self._producer_pool = None

    @cached_property
    def _event_dispatcher(self) -> Any:
        """Makes the event ``task-sent``, for whoever has a producer."""
        return self.app.events.Dispatcher(enabled=False)

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
        timezone: Any = None,  # accepted: times are sent with their zone
        origin: str | None = None,
        ignore_result: bool | None = False,
        argsrepr: str | None = None,
        kwargsrepr: str | None = None,
        stamped_headers: Any = None,
        replaced_task_nesting: int = 0,
        **options: Any,
    ) -> task_message:
        """A message of protocol 2. Raises ``TypeError`` for arguments that are no list and dict."""
        args, kwargs = arguments_of(args, kwargs)
        if argsrepr is None:
            argsrepr = self._repr(args, self.argsrepr_maxsize)
        if kwargsrepr is None:
            kwargsrepr = self._repr(kwargs, self.kwargsrepr_maxsize)
        _in_range(countdown, "countdown")
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
        sent_event = {
            "uuid": task_id,
            "root_id": root_id,
            "parent_id": parent_id,
            "name": name,
            "args": argsrepr,
            "kwargs": kwargsrepr,
            "retries": retries,
            "eta": eta,
            "expires": expires,
        }
        body = (args, kwargs, embed)
        return task_message(headers, properties, body, sent_event if create_sent_event else None)

    def as_task_v1(  # Celery's signature
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
        now: datetime.datetime | None = None,
        timezone: Any = None,
        **compat_kwargs: Any,
    ) -> task_message:
        """A message of protocol 1, which has everything in its body. For old workers only."""
        args, kwargs = arguments_of(args, kwargs)
        _in_range(countdown, "countdown")
        now = now or self.app.now()
        body: Any = {
            "task": name,
            "id": task_id,
            "args": args,
            "kwargs": kwargs,
            "group": group_id,
            "group_index": group_index,
            "retries": retries,
            "eta": _iso(now, self.moment(eta) if countdown is None else countdown),
            "expires": expires if isinstance(expires, str) else _iso(now, self.moment(expires)),
            "utc": True,
            "callbacks": callbacks,
            "errbacks": errbacks,
            "timelimit": (time_limit, soft_time_limit),
            "taskset": group_id,
            "chord": chord,
        }
        sent_event = {
            "uuid": task_id,
            "name": name,
            "args": self._repr(args, self.argsrepr_maxsize),
            "kwargs": self._repr(kwargs, self.kwargsrepr_maxsize),
            "retries": retries,
            "eta": body["eta"],
            "expires": body["expires"],
        }
        properties = {"correlation_id": task_id, "reply_to": reply_to or ""}
        return task_message({}, properties, body, sent_event if create_sent_event else None)

    def _repr(self, value: Any, longest: int) -> str:
        return saferepr(value, longest, self.app.conf.task_repr_maxlevels or sys.maxsize)

    @property
    def task_protocols(self) -> dict[int, Callable[..., task_message]]:
        """What makes messages, by version of the protocol."""
        return {1: self.as_task_v1, 2: self.as_task_v2}

    @property
    def create_task_message(self) -> Callable[..., task_message]:
        """What makes messages of the protocol that ``task_protocol`` says."""
        return self.as_task_v1 if self.app.conf.task_protocol == 1 else self.as_task_v2

    @cached_property
    def utc(self) -> bool:
        """Whether times are told in UTC: as ``enable_utc`` says, unless a program sets it."""
        return bool(self.app.conf.enable_utc)

    def send_task_message(
        self, producer: Any, name: str, message: task_message, **options: Any
    ) -> Any:
        """Publish a message with a producer of kombu's, as Celery does: for queues of the broker
        that real Celery workers consume from. See `celery.app.sending.send_task_message`."""
        return send_task_message(self, producer, name, message, **options)

    def _retry_publish(self, publish: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call what publishes for a task that has ended: see `celery.app.republishing`."""
        return retry_publish(self, publish, *args, **kwargs)

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

    @property
    def makes_usual_messages(self) -> bool:
        """Whether `as_task_v2` is that of this class."""
        return getattr(self.as_task_v2, "__func__", None) is AS_TASK_V2

    def publish(self, name: str, args: Any, kwargs: Any, options: dict[str, Any]) -> Sent:
        """Send one task, with everything that is to run after it, in one round trip. The options
        are those of `Celery.send_task`, all of them."""
        return publish(self.app, name, args, kwargs, options)


def _in_range(seconds: float | None, what: str) -> None:
    if seconds is not None and seconds < INT_MIN:
        raise ValueError(f"{what} is out of range: {seconds!r}")


AS_TASK_V2 = AMQP.as_task_v2
AMQP.header_options = frozenset(inspect.signature(AMQP.as_task_v2).parameters)


def _iso(now: datetime.datetime, when: Any) -> str | None:
    """An instant as text; a number is seconds from ``now``."""
    if isinstance(when, (int, float)):
        # In UTC: a zone's clock may be changed in between.
        utc = now.astimezone(datetime.timezone.utc) + datetime.timedelta(seconds=when)
        when = utc.astimezone(now.tzinfo)
    return when.isoformat() if when is not None else None


def utf8dict(d: Mapping[Any, Any], encoding: str = "utf-8") -> dict[str, Any]:
    """A mapping with text keys, where some may be bytes."""
    return {key.decode(encoding) if isinstance(key, bytes) else key: d[key] for key in d}
