"""What is known of one run of a task: the class behind ``task.request``."""

from __future__ import annotations

from typing import Any

from celery.utils.saferepr import saferepr
from taskmq_celery.running import OF_RUN, as_given

__all__ = ("Context",)

NOT_CUSTOM = frozenset({"argsrepr", "kwargsrepr", "lang", "task"})
"""What a message has beside the attributes of `Context` and is no header of the user."""


class Context:
    """``task.request``. Custom headers of the message are attributes too, beside ``headers``."""

    __module__ = "celery.app.task"  # where Celery has it, and pickles look for it

    _children: list[Any] | None = None
    _protected = 0
    args: Any = None
    callbacks: Any = None
    called_directly = True
    chain: Any = None
    chord: Any = None
    correlation_id: str | None = None
    delivery_info: Any = None
    errbacks: Any = None
    eta: Any = None
    expires: Any = None
    group: str | None = None
    group_index: int | None = None
    headers: dict[str, Any] | None = None
    hostname: str | None = None
    id: str | None = None
    ignore_result = False
    is_eager = False
    kwargs: Any = None
    logfile: str | None = None
    loglevel: Any = None
    origin: str | None = None
    parent_id: str | None = None
    properties: Any = None
    replaced_task_nesting = 0
    reply_to: str | None = None
    retries = 0
    root_id: str | None = None
    shadow: str | None = None
    soft_time_limit: float | None = None
    stamped_headers: Any = None
    stamps: Any = None
    taskset: str | None = None
    time_limit: float | None = None
    timelimit: Any = None
    utc: bool | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.update(*args, **kwargs)
        if self.headers is None:
            self.headers = self._custom_headers()

    def _custom_headers(self) -> dict[str, Any] | None:
        own = vars(self)
        if _ATTRIBUTES.issuperset(own):
            return None
        custom = {name: own[name] for name in own.keys() - _ATTRIBUTES if not name.startswith("_")}
        return custom or None

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set attributes from a mapping or from keywords. ``timelimit`` is the pair of limits."""
        changes = dict(*args, **kwargs)
        if "timelimit" in changes:
            hard, soft = changes["timelimit"] or (None, None)
            changes.setdefault("time_limit", hard)
            changes.setdefault("soft_time_limit", soft)
        vars(self).update(changes)

    def __getattr__(self, name: str) -> Any:
        # Made when somebody asks and the message did not bring it.
        if name == "argsrepr":
            return saferepr(as_given(vars(self), self.args))
        if name == "kwargsrepr":
            return saferepr(self.kwargs)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def clear(self) -> None:
        """Forget every attribute that was set."""
        vars(self).clear()

    def get(self, key: str, default: Any = None) -> Any:
        """An attribute, or ``default`` if it was never set."""
        return getattr(self, key, default)

    def __repr__(self) -> str:
        return f"<Context: {vars(self)!r}>"

    @property
    def children(self) -> list[Any]:
        """Results of the tasks that this one called; empty for a task with ``trail=False``."""
        if self._children is None:
            self._children = []
        return self._children

    def as_execution_options(self) -> dict[str, Any]:
        """Options for ``apply_async`` with which the task would run like this again."""
        limit, soft_limit = self.timelimit or (None, None)
        stamps = self.stamps or {}
        declared = {name: stamps[name] for name in self.stamped_headers or () if name in stamps}
        if self.stamped_headers is not None:
            declared["stamped_headers"] = self.stamped_headers
        return {
            **declared,
            "task_id": self.id,
            "root_id": self.root_id,
            "parent_id": self.parent_id,
            "group_id": self.group,
            "group_index": self.group_index,
            "shadow": self.shadow,
            "chord": self.chord,
            "chain": self.chain,
            "link": self.callbacks,
            "link_error": self.errbacks,
            "expires": self.expires,
            "soft_time_limit": soft_limit,
            "time_limit": limit,
            "headers": self.headers,
            "retries": self.retries,
            "reply_to": self.reply_to,
            "replaced_task_nesting": self.replaced_task_nesting,
            "origin": self.origin,
        }


_ATTRIBUTES = frozenset(dir(Context)) | NOT_CUSTOM | OF_RUN
