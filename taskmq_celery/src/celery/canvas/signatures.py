"""The call of a task as a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy, deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from kombu.utils.functional import maybe_list, reprcall
from kombu.utils.uuid import uuid

from celery._state import current_app
from taskmq_celery.graph import ids_of

from .stamping import merged_stamps

if TYPE_CHECKING:
    from celery.app.base import Celery

__all__ = ("Signature", "maybe_signature", "signature", "task_name_from")

KEPT = ("group_id", "group_index")
"""Options that stay as they are once they are set."""


class _Item:
    """An attribute that is an item of the dict, or of its ``options``."""

    def __init__(self, *path: str) -> None:
        self.path = path

    def __get__(self, signature: Any, owner: type) -> Any:
        if signature is None:
            return self
        found = signature
        for name in self.path:
            found = found.get(name) if found is not None else None
        return found

    def __set__(self, signature: Any, value: Any) -> None:
        *parents, name = self.path
        target = signature
        for parent in parents:
            target = target[parent]
        target[name] = value


class Signature(dict[str, Any]):
    """The call of a task: its name, arguments and options.

    Arguments given when it is applied come before its own, unless it is ``immutable``.
    """

    TYPES: ClassVar[dict[str, Any]] = {}
    _app: Any = None
    _type: Any = None
    retry_changes: Mapping[str, Any] | None = None

    id = _Item("options", "task_id")
    parent_id = _Item("options", "parent_id")
    root_id = _Item("options", "root_id")
    task = _Item("task")
    args = _Item("args")
    kwargs = _Item("kwargs")
    options = _Item("options")
    subtask_type = _Item("subtask_type")
    immutable = _Item("immutable")

    @classmethod
    def register_type(cls, name: str | None = None) -> Any:
        """A decorator: signatures with this ``subtask_type`` are of the decorated class."""

        def register(subclass: type[Signature]) -> type[Signature]:
            cls.TYPES[name or subclass.__name__] = subclass
            return subclass

        return register

    @classmethod
    def from_dict(cls, d: Mapping[str, Any], app: Celery | None = None) -> Signature:
        """A signature from what one became in a message."""
        kind = d.get("subtask_type")
        known = cls.TYPES.get(kind) if kind else None
        if known is not None and cls is Signature:
            made: Signature = known.from_dict(d, app=app)
            return made
        return Signature(d, app=app)

    def __init__(
        self,
        task: Any = None,
        args: Any = None,
        kwargs: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        type: Any = None,
        subtask_type: str | None = None,
        immutable: bool = False,
        app: Celery | None = None,
        **ex: Any,
    ) -> None:
        self._app = app
        if isinstance(task, dict):
            super().__init__(task)
            return
        if not isinstance(task, str) and task is not None:
            self._type, task = task, task.name
        else:
            self._type = type
        super().__init__(
            task=task,
            args=tuple(args or ()),
            kwargs=dict(kwargs or {}),
            options={**(options or {}), **ex},
            subtask_type=subtask_type,
            immutable=immutable,
        )

    # -- what it is bound to -----------------------------------------------------------------

    @property
    def name(self) -> Any:
        """The name of the task."""
        return self["task"]

    @property
    def app(self) -> Celery:
        return self._own_app()

    def _own_app(self, *others: Any) -> Celery:
        """Its app, else the first one of ``others``, else the current one."""
        known = next((each for each in (self._app, *others) if each is not None), None)
        app: Celery = current_app if known is None else known
        return app

    @property
    def type(self) -> Any:
        """The task. Raises `NotRegistered` for one that is not known here."""
        return self._type or self.app.tasks[self["task"]]

    @type.setter
    def type(self, task: Any) -> None:
        self._type = task

    @property
    def AsyncResult(self) -> Any:  # noqa: N802  # Celery's name
        known = self._known_task()
        return self.app.AsyncResult if known is None else known.AsyncResult

    def _known_task(self) -> Any:
        return self._type or self.app.tasks.get(self["task"])

    # -- calling -----------------------------------------------------------------------------

    def __call__(self, *partial_args: Any, **partial_kwargs: Any) -> Any:
        """Run the task here and now, as a function."""
        args, kwargs, _ = self._merge(partial_args, partial_kwargs, None)
        return self.type(*args, **kwargs)

    def delay(self, *partial_args: Any, **partial_kwargs: Any) -> Any:
        """`apply_async` with these arguments."""
        return self.apply_async(partial_args, partial_kwargs)

    def apply(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Run the task here and now; gives an `EagerResult`."""
        args, kwargs, options = self._merge(args, kwargs, options)
        return self.type.apply(args, kwargs, **options)

    def apply_async(
        self, args: Any = None, kwargs: Any = None, route_name: str | None = None, **options: Any
    ) -> Any:
        """Call the task in a worker; see `Task.apply_async`."""
        args, kwargs, options = self._merge(args, kwargs, options)
        if route_name is not None:
            options = {**options, "route_name": route_name}
        return self._apply_async(args, kwargs, **options)

    @property
    def _apply_async(self) -> Callable[..., Any]:
        task = self._known_task()
        if task is None:
            return partial(self.app.send_task, self["task"])
        apply_async: Callable[..., Any] = task.apply_async
        return apply_async

    def _merge(
        self,
        args: Any = None,
        kwargs: Any = None,
        options: Any = None,
        force: bool = False,
    ) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """Arguments and options of a call: what is given comes before what is stored."""
        own = self["options"]
        if options:
            given = {k: v for k, v in options.items() if k not in KEPT or k not in own}
            own = {**own, **{k: v for k, v in given.items() if v is not None or k not in own}}
        if self["immutable"] and not force:
            return self["args"], self["kwargs"], own
        merged = (*(args or ()), *self["args"]) if args else self["args"]
        return merged, {**self["kwargs"], **(kwargs or {})} if kwargs else self["kwargs"], own

    def freeze(
        self,
        _id: str | None = None,
        group_id: str | None = None,
        chord: Any = None,
        root_id: str | None = None,
        parent_id: str | None = None,
        group_index: int | None = None,
    ) -> Any:
        """Give it the id under which it will run, if it has none; gives the result to come."""
        options = self["options"]
        task_id = options.get("task_id") or _id or uuid()
        options["task_id"] = task_id
        given = {"root_id": root_id, "parent_id": parent_id, "chord": chord}
        options.update({name: value for name, value in given.items() if value})
        if group_id:
            options.setdefault("group_id", group_id)
        if group_index is not None:
            options["group_index"] = group_index
        return self.AsyncResult(task_id)

    _freeze = freeze

    def _take_your_time(self) -> None:
        """Where tasks come from a generator, freeze them as they are taken from it."""

    def _ids_in_use(self) -> list[str]:
        """Ids that were given to tasks before, and under which they may have run."""
        return list(ids_of(self))

    # -- changing ----------------------------------------------------------------------------

    def clone(self, args: Any = None, kwargs: Any = None, **opts: Any) -> Any:
        """A copy, with further arguments and options; ``app`` is its app. What its keywords hold is
        not copied."""
        app = opts.pop("app", None)
        if args or kwargs or opts:
            args, kwargs, options = self._merge(args, kwargs, opts)
        else:
            args, kwargs, options = self["args"], self["kwargs"], self["options"]
        made = Signature.from_dict(
            {
                "task": self["task"],
                "args": tuple(args),
                "kwargs": dict(kwargs),
                "options": deepcopy(options),
                "subtask_type": self["subtask_type"],
                "immutable": self.get("immutable", False),
            },
            app=app or self._app,
        )
        made._type = self._type
        return made

    partial = clone

    def replace(self, args: Any = None, kwargs: Any = None, options: Any = None) -> Any:
        """A copy with other arguments or options."""
        made = self.clone()
        for name, value in (("args", args), ("kwargs", kwargs), ("options", options)):
            if value is not None:
                made[name] = value
        return made

    def set(self, immutable: bool | None = None, **options: Any) -> Any:
        """Change options, and give itself back."""
        if immutable is not None:
            self.set_immutable(immutable)
        self["options"].update(options)
        return self

    def set_immutable(self, immutable: bool) -> None:
        """Whether it takes no arguments from the task before."""
        self["immutable"] = immutable

    def _with_list_option(self, key: str) -> list[Any]:
        values = self["options"].get(key)
        if not isinstance(values, list):
            self["options"][key] = values = maybe_list(values) or []
        found: list[Any] = values
        return found

    def append_to_list_option(self, key: str, value: Any) -> Any:
        """Add to an option that is a list, unless it is there."""
        values = self._with_list_option(key)
        if value not in values:
            values.append(value)
        return value

    def extend_list_option(self, key: str, value: Any) -> None:
        """Add several to an option that is a list."""
        self._with_list_option(key).extend(maybe_list(value) or [])

    def link(self, callback: Any) -> Any:
        """Run ``callback`` after this task succeeded, with its result; gives the callback back."""
        return self.append_to_list_option("link", callback)

    def link_error(self, errback: Any) -> Any:
        """Run ``errback`` after this task failed; gives the error callback back."""
        return self.append_to_list_option("link_error", errback)

    def on_error(self, errback: Any) -> Any:
        """`link_error`, but gives itself back."""
        self.link_error(errback)
        return self

    def flatten_links(self) -> list[Any]:
        """This, and everything linked to it."""
        found: list[Any] = [self]
        for link in maybe_list(self["options"].get("link")) or []:
            found += link.flatten_links()
        return found

    # -- stamping ----------------------------------------------------------------------------

    def stamp(self, visitor: Any = None, append_stamps: bool = False, **headers: Any) -> Any:
        """Mark the task, and what is linked to it, with headers that stay with them: those given,
        and what ``visitor.on_signature`` says. A stamp that is there already stays unless
        ``append_stamps``: then both are kept, as a list."""
        self.stamp_links(visitor, append_stamps, **headers)
        said = None if visitor is None else visitor.on_signature(self, **headers) or {}
        return self.set(**self._stamp_headers(said, append_stamps, **headers))

    def _stamp_headers(
        self,
        visitor_headers: dict[str, Any] | None = None,
        append_stamps: bool = False,
        self_headers: bool = True,
        **headers: Any,
    ) -> dict[str, Any]:
        """``headers`` with what a visitor said and, with ``self_headers``, the stamps it has."""
        return merged_stamps(
            headers, visitor_headers, self["options"] if self_headers else None, append_stamps
        )

    def stamp_links(self, visitor: Any, append_stamps: bool = False, **headers: Any) -> None:
        """Stamp what is linked to it: ``visitor.on_callback`` and ``on_errback`` are asked."""
        for option, ask in (("link", "on_callback"), ("link_error", "on_errback")):
            for place in maybe_list(self["options"].get(option)) or []:
                link = maybe_signature(place, app=self._app)
                said = None if visitor is None else getattr(visitor, ask)(link, **headers) or {}
                passed = self._stamp_headers(said, append_stamps, False, **headers)
                link.stamp(visitor, append_stamps, **passed)
                if link is not place and isinstance(place, dict):
                    place["options"] = link["options"]  # it was a plain dict, and stays where it is

    # -- one after the other -----------------------------------------------------------------

    def __or__(self, other: Any) -> Any:
        kinds = self.TYPES
        if isinstance(other, kinds["chain"]):
            return self._chained(self, *other.unchain_tasks())
        if isinstance(other, kinds["group"]):
            other._look()
            return self._chained(self, other._unrolled())
        if isinstance(other, Signature):
            return self._chained(self, other)
        return NotImplemented

    def _chained(self, *steps: Any) -> Any:
        """A chain of exactly these steps."""
        return self.TYPES["chain"](list(steps), app=self._app)

    def __ior__(self, other: Any) -> Any:  # a dict's merges
        return self.__or__(other)

    def __invert__(self) -> Any:
        """``~signature``: call it and wait for the result."""
        return self.apply_async().get()

    def election(self) -> Any:
        """Let the workers choose one of them, which runs it."""
        task = self.type
        app = task.app
        result = self.freeze()
        app.control.election(result.id, "task", self.clone(task_id=result.id, app=app))
        return result

    # -- as a value --------------------------------------------------------------------------

    def reprcall(self, *args: Any, **kwargs: Any) -> str:
        """How it would look if it was called with these arguments."""
        merged_args, merged_kwargs, _ = self._merge(args, kwargs, None, force=True)
        return str(reprcall(self["task"], merged_args, merged_kwargs))

    def __repr__(self) -> str:
        return self.reprcall()

    def __json__(self) -> dict[str, Any]:
        return dict(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Of the signature and what is linked to it. What a task is called with stays the caller's,
        as in `clone`: it may be a generator."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made  # it may be linked to itself
        vars(made).update(vars(self))
        for name, value in self.items():
            arguments = name in ("args", "kwargs") and not self.get("subtask_type")
            made[name] = copy(value) if arguments else deepcopy(value, memo)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return signature, (dict(self),)


def signature(varies: Any, *args: Any, **kwargs: Any) -> Any:
    """A signature of a task, of a task's name, or from a dict.

    >>> signature("tasks.add", args=(2, 2), countdown=10)
    """
    if isinstance(varies, Signature):
        return varies.clone(app=kwargs.get("app"))
    if isinstance(varies, Mapping):
        return Signature.from_dict(varies, app=kwargs.get("app"))
    return Signature(varies, *args, **kwargs)


def maybe_signature(d: Any, app: Celery | None = None, clone: bool = False) -> Any:
    """A signature from a dict; a signature, or ``None``, as it is."""
    if d is None:
        return None
    if isinstance(d, Signature):
        found = d.clone() if clone else d
    elif isinstance(d, Mapping):
        found = signature(d)
    else:
        return d
    if app is not None:
        found._app = app
    return found


def task_name_from(task: Any) -> str:
    """The name of a task, or the name itself."""
    return str(getattr(task, "name", task))


for _part in (Signature, signature, maybe_signature):
    _part.__module__ = "celery.canvas"  # where their users know them, and pickles look
