"""Moves task messages of a real Celery between brokers, or between queues of one.

>>> migrate_tasks(Connection("amqp://old"), Connection("redis://new"))
>>> move_by_taskmap({"proj.tasks.import": Queue("imports")})

These are messages on queues of the broker, which kombu reads and writes; jobs of the engine are in
its store.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from kombu.common import eventloop, maybe_declare
from kombu.entity import Queue
from kombu.utils.encoding import ensure_bytes

from celery.app import app_or_default
from celery.utils.nodenames import worker_direct
from celery.utils.text import str_to_list

__all__ = (
    "State",
    "StopFiltering",
    "migrate_task",
    "migrate_tasks",
    "move",
    "move_by_idmap",
    "move_by_taskmap",
    "move_direct",
    "move_direct_by_id",
    "move_task_by_id",
    "republish",
    "start_filter",
    "task_id_eq",
    "task_id_in",
)

PROGRESS = "Moving task {state.filtered}/{state.strtotal}: {body[task]}[{body[id]}]\n"
NOT_SENT_AGAIN = (
    *("application_headers", "content_type", "content_encoding", "headers"),
    *("delivery_info", "delivery_tag", "body_encoding", "cluster_id"),
)
"""Properties that are given to the producer apart, or that the broker makes."""


class StopFiltering(Exception):
    """Raised by a callback that has seen enough."""


class State:
    """How far it has come."""

    count = 0
    filtered = 0
    total_apx = 0

    @property
    def strtotal(self) -> str:
        return str(self.total_apx) if self.total_apx else "?"

    def __repr__(self) -> str:
        return f"^{self.filtered}" if self.filtered else f"{self.count}/{self.strtotal}"


def republish(
    producer: Any,
    message: Any,
    exchange: Any = None,
    routing_key: str | None = None,
    remove_props: Iterable[str] | None = None,
) -> None:
    """Publish a message once more, as it is, to where it came from or to another place."""
    headers, properties = dict(message.headers or {}), dict(message.properties or {})
    for name in remove_props or NOT_SENT_AGAIN:
        properties.pop(name, None)
    info = message.delivery_info
    producer.publish(
        ensure_bytes(message.body),
        exchange=info["exchange"] if exchange is None else exchange,
        routing_key=info["routing_key"] if routing_key is None else routing_key,
        # Compressed anew: the body has been unpacked.
        compression=headers.pop("compression", None),
        headers=headers,
        content_type=message.content_type,
        content_encoding=message.content_encoding,
        **properties,
    )


def migrate_task(producer: Any, body_: Any, message: Any, queues: Any = None) -> None:
    """Publish a message on another broker; ``queues`` renames queues."""
    renamed, info = queues or {}, message.delivery_info
    republish(
        producer,
        message,
        exchange=renamed.get(info["exchange"]),
        routing_key=renamed.get(info["routing_key"]),
    )


def filter_callback(
    callback: Callable[[Any, Any], Any], tasks: Iterable[str]
) -> Callable[[Any, Any], Any]:
    """``callback`` for messages of these tasks only."""
    wanted = frozenset(tasks)

    def filtered(body: Any, message: Any) -> Any:
        if not wanted or body["task"] in wanted:
            return callback(body, message)
        return None

    return filtered


def migrate_tasks(
    source: Any,
    dest: Any,
    migrate: Callable[..., Any] = migrate_task,
    app: Any = None,
    queues: Any = None,
    **kwargs: Any,
) -> State:
    """Copy the messages of ``source`` to ``dest``, both connections of kombu's.

    ``queues`` are the names of the queues, as text with commas or a list; ``old:new`` renames one.
    """
    app = app_or_default(app)
    names = prepare_queues(queues)
    producer = app.amqp.Producer(dest, auto_declare=False)

    def declare(queue: Any) -> None:
        new = queue(producer.channel)
        new.name = names.get(queue.name, queue.name)
        if new.routing_key == queue.name:
            new.routing_key = names.get(queue.name, new.routing_key)
        if new.exchange.name == queue.name:
            new.exchange.name = names.get(queue.name, queue.name)
        new.declare()

    return start_filter(
        app,
        source,
        partial(migrate, producer, queues=names),
        queues=names,
        on_declare_queue=declare,
        **kwargs,
    )


def prepare_queues(queues: Any) -> dict[str, str]:
    """New names of queues by their old ones."""
    if isinstance(queues, Mapping):
        return dict(queues)
    given = str_to_list(queues) if isinstance(queues, str) else list(queues or ())
    pairs = [name.partition(":")[::2] for name in given]
    return {old: new or old for old, new in pairs}


def move(
    predicate: Callable[[Any, Any], Any],
    connection: Any = None,
    exchange: Any = None,
    routing_key: str | None = None,
    source: Any = None,
    app: Any = None,
    callback: Callable[..., Any] | None = None,
    limit: int | None = None,
    transform: Callable[[Any], Any] | None = None,
    **kwargs: Any,
) -> State:
    """Move the messages for which ``predicate(body, message)`` is true to another queue.

    The queue is what the predicate gives (a kombu queue, a name, or a pair of exchange and routing
    key), after ``transform``; or else the given exchange and routing key. ``source`` are the
    queues that are looked through: all of the app if not given. At most ``limit`` are moved.
    """
    app = app_or_default(app)
    sources = [_maybe_queue(app, queue) for queue in source or []] or None
    with app.connection_or_acquire(connection, pool=False) as opened:
        producer, state = app.amqp.Producer(opened), State()

        def look(body: Any, message: Any) -> None:
            found = predicate(body, message)
            if not found:
                return
            if transform is not None:
                found = transform(found)
            if isinstance(found, Queue):
                maybe_declare(found, opened.default_channel)
                place = found.exchange.name, found.routing_key or found.name
            else:
                place = expand_dest(found, exchange, routing_key)
            republish(producer, message, exchange=place[0], routing_key=place[1])
            message.ack()
            state.filtered += 1
            if callback is not None:
                callback(state, body, message)
            if limit and state.filtered >= limit:
                raise StopFiltering

        start_filter(app, opened, look, consume_from=sources, **kwargs)
        return state


def expand_dest(ret: Any, exchange: Any, routing_key: Any) -> tuple[Any, Any]:
    """Exchange and routing key: those of the pair ``ret``, or the given ones."""
    try:
        found_exchange, found_key = ret
    except (TypeError, ValueError):
        return exchange, routing_key
    return found_exchange, found_key


def task_id_eq(task_id: str, body: Any, message: Any) -> bool:
    """Whether it is the message of this task."""
    return bool(body["id"] == task_id)


def task_id_in(ids: Iterable[str], body: Any, message: Any) -> bool:
    """Whether it is the message of one of these tasks."""
    return body["id"] in ids


def _maybe_queue(app: Any, q: Any) -> Any:
    return app.amqp.queues[q] if isinstance(q, str) else q


class Filterer:
    """Looks through the messages of queues: see `start_filter`."""

    def __init__(
        self,
        app: Any,
        conn: Any,
        filter: Callable[[Any, Any], Any],
        limit: int | None = None,
        timeout: float = 1.0,
        ack_messages: bool = False,
        tasks: Any = None,
        queues: Any = None,
        callback: Callable[..., Any] | None = None,
        forever: bool = False,
        on_declare_queue: Callable[[Any], Any] | None = None,
        consume_from: Any = None,
        state: State | None = None,
        accept: Any = None,
        **kwargs: Any,
    ) -> None:
        self.app, self.conn, self.accept = app, conn, accept
        # Where it looks.
        self.queues = prepare_queues(queues)
        sources = consume_from or list(self.queues)
        self.consume_from = [_maybe_queue(app, each) for each in sources]
        self.on_declare_queue = on_declare_queue
        # At what, and what it does with it.
        self.tasks = set(str_to_list(tasks) or [])
        self.filter, self.ack_messages, self.callback = filter, ack_messages, callback
        # For how long.
        self.timeout, self.forever, self.limit = timeout, forever, limit
        self.state = state or State()

    def start(self) -> State:
        """Look until nothing has come for ``timeout`` seconds, or for ever."""
        with self.prepare_consumer(self.create_consumer()):
            try:
                for _ in eventloop(self.conn, timeout=self.timeout, ignore_timeouts=self.forever):
                    pass
            except (TimeoutError, StopFiltering):
                pass
        return self.state

    def update_state(self, body: Any, message: Any) -> None:
        self.state.count += 1
        if self.limit and self.state.count >= self.limit:
            raise StopFiltering

    def ack_message(self, body: Any, message: Any) -> None:
        message.ack()

    def create_consumer(self) -> Any:
        return self.app.amqp.TaskConsumer(
            self.conn, queues=self.consume_from or None, accept=self.accept
        )

    def prepare_consumer(self, consumer: Any) -> Any:
        """Have the consumer call the filter, acknowledge, tell, and count, in this order."""
        calls = [self.filter, *([self.ack_message] if self.ack_messages else [])]
        if self.callback is not None:
            calls.append(partial(self.callback, self.state))
        calls.append(self.update_state)
        for call in calls:
            consumer.register_callback(filter_callback(call, self.tasks))
        self.declare_queues(consumer)
        return consumer

    def declare_queues(self, consumer: Any) -> None:
        """Count what waits, and prepare the queues of the other side."""
        for queue in consumer.queues:
            if self.queues and queue.name not in self.queues:
                continue
            if self.on_declare_queue is not None:
                self.on_declare_queue(queue)
            try:
                _, waiting, _ = queue(consumer.channel).queue_declare(passive=True)
                self.state.total_apx += waiting or 0
            except self.conn.channel_errors:  # it is not there yet
                pass


def start_filter(
    app: Any,
    conn: Any,
    filter: Callable[[Any, Any], Any],
    limit: int | None = None,
    timeout: float = 1.0,
    ack_messages: bool = False,
    tasks: Any = None,
    queues: Any = None,
    callback: Callable[..., Any] | None = None,
    forever: bool = False,
    on_declare_queue: Callable[[Any], Any] | None = None,
    consume_from: Any = None,
    state: State | None = None,
    accept: Any = None,
    **kwargs: Any,
) -> State:
    """Call ``filter(body, message)`` for the messages of queues; what it does not acknowledge
    is back when the connection is closed.

    ``tasks`` are the names of the tasks that are looked at, all if not given.
    """
    return Filterer(
        app,
        conn,
        filter,
        limit=limit,
        timeout=timeout,
        ack_messages=ack_messages,
        tasks=tasks,
        queues=queues,
        callback=callback,
        forever=forever,
        on_declare_queue=on_declare_queue,
        consume_from=consume_from,
        state=state,
        accept=accept,
        **kwargs,
    ).start()


def move_task_by_id(task_id: str, dest: Any, **kwargs: Any) -> State:
    """Move the message of one task to another queue."""
    return move_by_idmap({task_id: dest}, **kwargs)


def move_by_idmap(map: Mapping[str, Any], **kwargs: Any) -> State:
    """Move messages to queues by the ids of their tasks."""

    def where(body: Any, message: Any) -> Any:
        return map.get(message.properties["correlation_id"])

    # When all have been found there is nothing left to look for.
    return move(where, limit=len(map), **kwargs)


def move_by_taskmap(map: Mapping[str, Any], **kwargs: Any) -> State:
    """Move messages to queues by the names of their tasks."""

    def where(body: Any, message: Any) -> Any:
        return map.get(body["task"])

    return move(where, **kwargs)


def filter_status(state: State, body: Any, message: Any, **kwargs: Any) -> None:
    """A callback that prints how far it has come."""
    sys.stdout.write(PROGRESS.format(state=state, body=body))


move_direct = partial(move, transform=worker_direct)
move_direct_by_id = partial(move_task_by_id, transform=worker_direct)
move_direct_by_idmap = partial(move_by_idmap, transform=worker_direct)
move_direct_by_taskmap = partial(move_by_taskmap, transform=worker_direct)
