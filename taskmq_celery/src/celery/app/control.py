"""Remote control: ask workers how they are, and tell them what to do.

Questions and orders go through kombu, as Celery's do, so tools that speak with workers of Celery
speak with these. What the store can do by itself, such as revoking, needs no worker to listen.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kombu import pidbox
from kombu.matcher import match

from celery.app.configured import properly_configured
from celery.exceptions import DuplicateNodenameWarning, ImproperlyConfigured
from celery.utils.text import pluralize
from taskmq_celery import results
from taskmq_celery.brokers import carries_control
from taskmq_celery.engine import purge
from taskmq_celery.revoking import revoke_stamped

if TYPE_CHECKING:
    from .base import Celery

__all__ = ("Control", "Inspect", "flatten_reply")

TERM_SIGNAME = "SIGTERM"
"""What a task is ended with, unless told otherwise."""

NO_WAY = (
    "remote control needs a broker that kombu can broadcast through (redis://, amqp://): "
    "{}:// has none, so {!r} reaches no worker"
)

W_DUPNODE = """Received multiple replies from node {}: {}.
Each worker needs a name of its own: give it one with the option -n."""

matches: Callable[[str, str, str | None], Any] = match  # type: ignore[assignment]  # not bytes

Replies = list[dict[str, Any]]


def _check_queues(conf: Any) -> None:
    if conf.control_queue_durable and conf.control_queue_exclusive:
        raise ImproperlyConfigured(
            "control_queue_durable and control_queue_exclusive cannot both be set: an exclusive "
            "queue goes with its connection"
        )


def flatten_reply(reply: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The replies of several workers as one dict, by name. Two of one name are warned of."""
    nodes: dict[str, Any] = {}
    twice: set[str] = set()
    for each in reply:
        twice.update(name for name in each if name in nodes)
        nodes.update(each)
    if twice:
        names = W_DUPNODE.format(pluralize(len(twice), "name"), ", ".join(sorted(twice)))
        warnings.warn(DuplicateNodenameWarning(names), stacklevel=2)
    return nodes


class Mailbox(pidbox.Mailbox):
    """kombu's, publishing through the app's pool: that of a forked child is another one."""

    def __init__(self, app: Any) -> None:
        conf = app.conf
        _check_queues(conf)
        super().__init__(  # type: ignore[no-untyped-call]  # kombu's have no types
            conf.control_exchange,
            type="fanout",
            clock=app.clock,
            accept=conf.accept_content,
            serializer=conf.task_serializer,
            queue_ttl=conf.control_queue_ttl,
            queue_expires=conf.control_queue_expires,
            queue_durable=conf.control_queue_durable,
            queue_exclusive=conf.control_queue_exclusive,
            reply_queue_ttl=conf.control_queue_ttl,
            reply_queue_expires=conf.control_queue_expires,
        )
        self._app = app

    @property
    def producer_pool(self) -> Any:
        return self._app.producer_pool


class Inspect:
    """``app.control.inspect()``: questions, each answered by a dict from worker to answer, or by
    ``None`` if no worker answers in ``timeout`` seconds.

    ``destination`` are the names of the workers that are asked (all), or ``pattern`` says it with
    ``matcher`` (``glob``, ``pcre``); ``limit`` is how many answers are enough.
    """

    app: Any = None

    def __init__(
        self,
        destination: Any = None,
        timeout: float = 1.0,
        callback: Callable[[Any], Any] | None = None,
        connection: Any = None,
        app: Celery | None = None,
        limit: int | None = None,
        pattern: str | None = None,
        matcher: str | None = None,
    ) -> None:
        self.app = app or self.app
        self.destination = destination
        self.timeout = timeout
        self.callback = callback
        self.connection = connection
        self.limit = limit
        self.pattern = pattern
        self.matcher = matcher

    def _prepare(self, reply: Replies | None) -> Any:
        if not reply:
            return None
        by_node = flatten_reply(reply)
        if isinstance(self.destination, str):  # one worker was asked
            return by_node.get(self.destination)
        if self.pattern:
            return {
                node: answer
                for node, answer in by_node.items()
                if matches(node, self.pattern, self.matcher)
            }
        return by_node

    def _request(self, command: str, **arguments: Any) -> Any:
        return self._prepare(
            self.app.control.broadcast(
                command,
                arguments=arguments,
                destination=self.destination,
                callback=self.callback,
                connection=self.connection,
                limit=self.limit,
                timeout=self.timeout,
                reply=True,
                pattern=self.pattern,
                matcher=self.matcher,
            )
        )

    def report(self) -> Any:
        """Versions and settings, as text."""
        return self._request("report")

    def clock(self) -> Any:
        """The logical clock."""
        return self._request("clock")

    def active(self, safe: bool | None = None) -> Any:
        """The tasks that run; ``safe``: arguments as text."""
        return self._request("active", safe=safe)

    def scheduled(self, safe: bool | None = None) -> Any:
        """The tasks in the worker's queues that wait for their time."""
        return self._request("scheduled", **_given(safe=safe))

    def reserved(self, safe: bool | None = None) -> Any:
        """The tasks that a worker holds and has not started."""
        return self._request("reserved", **_given(safe=safe))

    def stats(self) -> Any:
        """The process, its pool and its broker, in figures."""
        return self._request("stats")

    def revoked(self) -> Any:
        """Ids of tasks that were taken out."""
        return self._request("revoked")

    def registered(self, *taskinfoitems: str) -> Any:
        """Names of the tasks that a worker knows, with these attributes of each."""
        return self._request("registered", taskinfoitems=taskinfoitems)

    registered_tasks = registered

    def ping(self, destination: Any = None) -> Any:
        """``{"ok": "pong"}``."""
        if destination:
            self.destination = destination
        return self._request("ping")

    def active_queues(self) -> Any:
        """The queues that a worker takes jobs from."""
        return self._request("active_queues")

    def query_task(self, *ids: Any) -> Any:
        """What a worker knows of these tasks: (state, information) by id."""
        several = len(ids) == 1 and isinstance(ids[0], (list, tuple))
        return self._request("query_task", ids=ids[0] if several else ids)

    def conf(self, with_defaults: bool = False) -> Any:
        """The settings; passwords and keys are masked."""
        return self._request("conf", with_defaults=with_defaults)

    def hello(self, from_node: str, revoked: Any = None) -> Any:
        """Introduce a worker to the others, with what it knows to be revoked."""
        return self._request("hello", from_node=from_node, revoked=revoked)

    def memsample(self) -> Any:
        """Take note of the memory in use; needs psutil at the worker."""
        return self._request("memsample")

    def memdump(self, samples: int = 10) -> Any:
        """What `memsample` has noted."""
        return self._request("memdump", samples=samples)

    def objgraph(self, type: str = "Request", n: int = 200, max_depth: int = 10) -> Any:
        """A picture of objects; no worker of this version draws one."""
        return self._request("objgraph", num=n, max_depth=max_depth, type=type)


class Control:
    """``app.control``. Unless ``reply=True`` nobody waits for an answer.

    Every method takes the keywords of `broadcast`. Where the broker cannot broadcast, what asks or
    tells workers raises ``NotImplementedError``; `purge` and the revoking methods work.
    """

    Mailbox = Mailbox

    def __init__(self, app: Celery | None = None) -> None:
        self.app: Any = app
        if app is not None:
            _check_queues(app.conf)

    @cached_property
    def mailbox(self) -> Any:
        """kombu's end of the line; ``mailbox(connection)`` is bound to a connection."""
        return self.Mailbox(self.app)

    @cached_property
    def inspect(self) -> Any:
        """`Inspect`, bound to the app."""
        return self.app.subclass_with_self(Inspect, reverse="control.inspect")

    # -- what the store does -----------------------------------------------------------------

    def purge(self, connection: Any = None) -> int:
        """Delete what waits in the queues of the app; how many jobs there were."""
        with properly_configured():
            return purge(self.app, list(self.app.amqp.queues.consume_from))

    discard_all = purge

    def revoke(
        self,
        task_id: str | Iterable[str],
        destination: Any = None,
        terminate: bool = False,
        signal: str = TERM_SIGNAME,
        **kwargs: Any,
    ) -> Any:
        """Take tasks out, so that no worker runs them; ``terminate``: even if they run already.

        It is stored when this returns, and holds for every worker. They are asked for a ``reply``,
        and told of tasks that are not there (yet): where the broker can broadcast, workers that
        run now do not let them start, for three hours.
        """
        ids = [task_id] if isinstance(task_id, str) else list(task_id)
        with properly_configured():
            everywhere = all(results.revoke(self.app, ids, terminate=terminate))
        asked = task_id if isinstance(task_id, str) else ids
        order = {"task_id": asked, "terminate": terminate, "signal": signal}
        return self._tell("revoke", order, destination, kwargs, anyway=not everywhere)

    def revoke_by_stamped_headers(
        self,
        headers: Mapping[str, Any],
        destination: Any = None,
        terminate: bool = False,
        signal: str = TERM_SIGNAME,
        **kwargs: Any,
    ) -> Any:
        """Take out the tasks with one of these stamps that are not finished now.

        Where the broker can broadcast, workers that run now start none that comes later, either.
        """
        with properly_configured():
            revoke_stamped(self.app, headers, terminate=terminate)
        order = {"headers": headers, "terminate": terminate, "signal": signal}
        return self._tell("revoke_by_stamped_headers", order, destination, kwargs, anyway=True)

    def terminate(
        self,
        task_id: str | Iterable[str],
        destination: Any = None,
        signal: str = TERM_SIGNAME,
        **kw: Any,
    ) -> Any:
        """Take tasks out, even if they run already."""
        return self.revoke(task_id, destination=destination, terminate=True, signal=signal, **kw)

    def _tell(
        self,
        command: str,
        order: dict[str, Any],
        destination: Any,
        options: dict[str, Any],
        *,
        anyway: bool,
    ) -> Any:
        """Tell the workers of what the store has already, for a reply or ``anyway``."""
        if not (anyway or options.get("reply")):
            return None
        if not carries_control(self.app.conf.broker_write_url):
            return None
        return self.broadcast(command, arguments=order, destination=destination, **options)

    # -- what workers do ---------------------------------------------------------------------

    def ping(self, destination: Any = None, timeout: float = 1.0, **kwargs: Any) -> Any:
        """The answers of all workers: ``[{name: {"ok": "pong"}}, …]``."""
        options = {"reply": True, "timeout": timeout, **kwargs}
        return self.broadcast("ping", arguments={}, destination=destination, **options)

    def election(self, id: str, topic: str, action: Any = None, connection: Any = None) -> Any:
        """Let one worker be chosen to do something. No worker of this version takes part."""
        order = {"id": id, "topic": topic, "action": action}
        return self.broadcast("election", arguments=order, destination=None, connection=connection)

    def rate_limit(
        self, task_name: str, rate_limit: Any, destination: Any = None, **kwargs: Any
    ) -> Any:
        """Let a task start so often at most, in each worker."""
        order = {"task_name": task_name, "rate_limit": rate_limit}
        return self.broadcast("rate_limit", arguments=order, destination=destination, **kwargs)

    def time_limit(
        self,
        task_name: str,
        soft: float | None = None,
        hard: float | None = None,
        destination: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Let a task take so many seconds at most."""
        order = {"task_name": task_name, "soft": soft, "hard": hard}
        return self.broadcast("time_limit", arguments=order, destination=destination, **kwargs)

    def add_consumer(
        self,
        queue: str,
        exchange: str | None = None,
        exchange_type: str = "direct",
        routing_key: str | None = None,
        options: Mapping[str, Any] | None = None,
        destination: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Take jobs from another queue too."""
        order = {
            "queue": queue,
            "exchange": exchange,
            "exchange_type": exchange_type,
            "routing_key": routing_key,
            **(options or {}),
        }
        return self.broadcast("add_consumer", arguments=order, destination=destination, **kwargs)

    def cancel_consumer(self, queue: str, destination: Any = None, **kwargs: Any) -> Any:
        """Take no more jobs from a queue."""
        return self.broadcast(
            "cancel_consumer", arguments={"queue": queue}, destination=destination, **kwargs
        )

    def pool_grow(self, n: int = 1, destination: Any = None, **kwargs: Any) -> Any:
        """Run so many tasks more at once."""
        return self.broadcast("pool_grow", arguments={"n": n}, destination=destination, **kwargs)

    def pool_shrink(self, n: int = 1, destination: Any = None, **kwargs: Any) -> Any:
        """Run so many tasks less at once."""
        return self.broadcast("pool_shrink", arguments={"n": n}, destination=destination, **kwargs)

    def pool_restart(
        self,
        modules: Iterable[str] | None = None,
        reload: bool = False,
        reloader: Any = None,
        destination: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Make the processes of the pool anew."""
        order = {"modules": modules, "reload": reload, "reloader": reloader}
        return self.broadcast("pool_restart", arguments=order, destination=destination, **kwargs)

    def autoscale(self, max: int, min: int, destination: Any = None, **kwargs: Any) -> Any:
        """Let the pool have between ``min`` and ``max`` processes."""
        return self.broadcast(
            "autoscale", arguments={"max": max, "min": min}, destination=destination, **kwargs
        )

    def shutdown(self, destination: Any = None, **kwargs: Any) -> Any:
        """Let workers finish what they run, and stop."""
        return self.broadcast("shutdown", arguments={}, destination=destination, **kwargs)

    def heartbeat(self, destination: Any = None, **kwargs: Any) -> Any:
        """Let workers send the event that says they live."""
        return self.broadcast("heartbeat", arguments={}, destination=destination, **kwargs)

    def enable_events(self, destination: Any = None, **kwargs: Any) -> Any:
        """Let workers send events."""
        return self.broadcast("enable_events", arguments={}, destination=destination, **kwargs)

    def disable_events(self, destination: Any = None, **kwargs: Any) -> Any:
        """Let workers send no events."""
        return self.broadcast("disable_events", arguments={}, destination=destination, **kwargs)

    def broadcast(
        self,
        command: str,
        arguments: Mapping[str, Any] | None = None,
        destination: Any = None,
        connection: Any = None,
        reply: bool = False,
        timeout: float | None = 1.0,
        limit: int | None = None,
        callback: Callable[[Any], Any] | None = None,
        channel: Any = None,
        pattern: str | None = None,
        matcher: str | None = None,
        **extra_kwargs: Any,
    ) -> Any:
        """Send a command to all workers, to those in ``destination``, or to those whose name the
        ``pattern`` matches.

        With ``reply`` the answers, ``[{name: answer}, …]``: all that come within ``timeout``
        seconds of one another, or the first ``limit``. ``callback`` is called with each.
        """
        url = self.app.conf.broker_write_url
        if not carries_control(url):
            scheme = str(url if isinstance(url, str) else url[0]).partition(":")[0]
            raise NotImplementedError(NO_WAY.format(scheme, command))
        with self.app.connection_or_acquire(connection) as open_connection:
            return self.mailbox(open_connection)._broadcast(
                command,
                {**(arguments or {}), **extra_kwargs},
                destination,
                reply,
                timeout,
                limit,
                callback,
                channel=channel,
                **_given(pattern=pattern, matcher=matcher),
            )


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
