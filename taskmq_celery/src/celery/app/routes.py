"""``task_routes``: which queue a task goes to.

>>> app.conf.task_routes = {"feeds.*": {"queue": "feeds"}, re.compile("^video"): "video"}

A route is a mapping of names, glob patterns or compiled patterns; a list of pairs; a function
``(name, args, kwargs, options, task=None, **kw)``; or the name of one. The first that answers
decides. Options of the call go before those of the route.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from celery.exceptions import QueueNotFound
from celery.local import maybe_evaluate
from celery.utils.imports import symbol_by_name

if TYPE_CHECKING:
    from .amqp import Queues

PLACES = ("exchange", "routing_key")
"""Options that say where a message goes, as ``queue`` does."""

__all__ = ("MapRoute", "Router", "expand_router_string", "prepare")


class MapRoute:
    """Routes by name or pattern, exact names first."""

    def __init__(self, map: Any) -> None:
        pairs = map.items() if isinstance(map, Mapping) else map
        self.map: dict[str, Any] = {}
        self.patterns: list[tuple[re.Pattern[str], Any]] = []
        for name, route in pairs:
            if isinstance(name, re.Pattern):
                self.patterns.append((name, route))
            elif "*" in name:
                self.patterns.append((re.compile(fnmatch.translate(name)), route))
            else:
                self.map[name] = route

    def __call__(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if name in self.map:
            return _as_options(self.map[name])
        for pattern, route in self.patterns:
            if pattern.match(name):
                return _as_options(route)
        return None


class Router:
    """Applies the routes of an app."""

    def __init__(
        self,
        routes: Any = None,
        queues: Queues | None = None,
        create_missing: bool = False,
        app: Any = None,
    ) -> None:
        self.routes = prepare(routes)
        self.queues: Any = {} if queues is None else queues
        self.create_missing = create_missing
        self.app = app

    def route(
        self,
        options: Mapping[str, Any],
        name: str,
        args: Any = (),
        kwargs: Any = None,
        task_type: Any = None,
    ) -> dict[str, Any]:
        """``options`` with what the route of the task adds; ``queue`` becomes a kombu queue.

        Raises `QueueNotFound` for a queue that is not declared if none are made on demand.
        """
        found = dict(options)
        if not found.get("queue") and self.routes:
            routed = self.query_router_for(name, args, kwargs, found, task_type)
            given = {key: value for key, value in found.items() if value is not None}
            found = {**found, **routed, **given}
        if self.app is not None and not any(found.get(key) for key in ("queue", *PLACES)):
            found["queue"] = self.app.conf.task_default_queue
        return self.expand_destination(found)

    def query_router_for(
        self, name: str, args: Any, kwargs: Any, options: Any, task_type: Any
    ) -> dict[str, Any]:
        """What the first route that answers says."""
        return self.lookup_route(name, args, kwargs, options, task_type) or {}

    def lookup_route(
        self,
        name: str,
        args: Any = None,
        kwargs: Any = None,
        options: Any = None,
        task_type: Any = None,
    ) -> dict[str, Any] | None:
        """What the first route that answers says; ``None`` if none does."""
        for router in self.routes:
            answer = self.query_router(router, name, args, kwargs or {}, options, task_type)
            if answer is not None:
                return _as_options(answer)
        return None

    def query_router(
        self, router: Any, task: str, args: Any, kwargs: Any, options: Any, task_type: Any
    ) -> Any:
        """What one router says: a function, or an object with ``route_for_task``."""
        router = maybe_evaluate(router)
        if hasattr(router, "route_for_task"):  # as routers were before Celery 4
            return router.route_for_task(task, args, kwargs)
        return router(task, args, kwargs, options, task=task_type)

    def expand_destination(self, route: Any) -> dict[str, Any]:
        """A route with its queue as a kombu queue, and what that queue was declared with."""
        found = _as_options(route)
        queue = found.pop("queue", None)
        if not queue:
            return found
        if isinstance(queue, str):
            try:
                queue = self.queues[queue]
            except KeyError:
                raise QueueNotFound(f"Queue {queue!r} missing from task_queues") from None
        return {**found, "queue": queue}


def _as_options(route: Any) -> dict[str, Any]:
    return (
        {"queue": route}
        if isinstance(route, str) or not isinstance(route, Mapping)
        else dict(route)
    )


def expand_router_string(router: Any) -> Any:
    """A router from its name; of a class, an instance."""
    found = symbol_by_name(router)
    return found() if isinstance(found, type) else found


def prepare(routes: Any) -> list[Any]:
    """Functions, from everything that ``task_routes`` may hold."""
    if routes is None:
        return []
    if isinstance(routes, Mapping):
        return [MapRoute(routes)]
    if _are_pairs(routes):
        return [MapRoute(routes)]
    if not isinstance(routes, (list, tuple)):
        return [_prepared(routes)]
    return [_prepared(each) for each in routes]


def _are_pairs(routes: Any) -> bool:
    return (
        isinstance(routes, Iterable)
        and not isinstance(routes, str)
        and all(isinstance(each, (list, tuple)) and len(each) == 2 for each in routes)
    )


def _prepared(route: Any) -> Any:
    if isinstance(route, str):
        return expand_router_string(route)
    if isinstance(route, Mapping) or _are_pairs(route):
        return MapRoute(route)
    return route
