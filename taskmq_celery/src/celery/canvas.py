"""Signatures: calls of tasks as values, and how they follow each other.

>>> add.s(2, 2) | mul.s(8)          # a chain: what add returns is the first argument of mul
>>> add.apply_async((2, 2), link=mul.s(8))

A signature is a dict, and survives serialization as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from kombu.utils.functional import maybe_list, reprcall
from kombu.utils.uuid import uuid

from celery._state import current_app

if TYPE_CHECKING:
    from celery.app.base import Celery

__all__ = ("Signature", "chain", "maybe_signature", "maybe_subtask", "signature", "subtask")

FIELDS = ("task", "args", "kwargs", "options", "subtask_type", "immutable")


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

    TYPES: ClassVar[dict[str, type[Signature]]] = {}
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
        if kind and cls is Signature:
            try:
                return cls.TYPES[kind].from_dict(d, app=app)
            except KeyError:
                raise NotImplementedError(
                    f"signatures of type {kind!r} are not supported yet"
                ) from None
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
        app: Celery = self._app or current_app._get_current_object()
        return app

    @property
    def type(self) -> Any:
        """The task. Raises `NotRegistered` for one that is not known here."""
        return self._type or self.app.tasks[self["task"]]

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
            options["route_name"] = route_name
        task = self._known_task()
        send = partial(self.app.send_task, self["task"]) if task is None else task.apply_async
        return send(args, kwargs, **options)

    def _merge(
        self, args: Any = None, kwargs: Any = None, options: Any = None, force: bool = False
    ) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        merged = {**self["options"], **(options or {})}
        if self["immutable"] and not force:
            return tuple(self["args"]), dict(self["kwargs"]), merged
        return (
            (*(args or ()), *self["args"]),
            {**self["kwargs"], **(kwargs or {})},
            merged,
        )

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
        task_id = options.setdefault("task_id", _id or uuid())
        given = {"root_id": root_id, "parent_id": parent_id, "group_id": group_id}
        options.update({name: value for name, value in given.items() if value is not None})
        return self.AsyncResult(task_id)

    # -- changing ----------------------------------------------------------------------------

    def clone(self, args: Any = None, kwargs: Any = None, **opts: Any) -> Signature:
        """A copy, with further arguments and options."""
        args, kwargs, options = self._merge(args, kwargs, opts)
        made = Signature.from_dict(
            {
                "task": self["task"],
                "args": args,
                "kwargs": kwargs,
                "options": deepcopy(options),
                "subtask_type": self["subtask_type"],
                "immutable": self["immutable"],
            },
            app=self._app,
        )
        made._type = self._type
        return made

    partial = clone

    def replace(self, args: Any = None, kwargs: Any = None, options: Any = None) -> Signature:
        """A copy with other arguments or options."""
        made = self.clone()
        for name, value in (("args", args), ("kwargs", kwargs), ("options", options)):
            if value is not None:
                made[name] = value
        return made

    def set(self, immutable: bool | None = None, **options: Any) -> Signature:
        """Change options, and give itself back."""
        if immutable is not None:
            self.set_immutable(immutable)
        self["options"].update(options)
        return self

    def set_immutable(self, immutable: bool) -> None:
        """Whether it takes no arguments from the task before."""
        self["immutable"] = immutable

    def append_to_list_option(self, key: str, value: Any) -> Any:
        """Add to an option that is a list, unless it is there."""
        values = self["options"][key] = maybe_list(self["options"].get(key)) or []
        if value not in values:
            values.append(value)
        return value

    def link(self, callback: Any) -> Any:
        """Run ``callback`` after this task succeeded, with its result; gives the callback back."""
        return self.append_to_list_option("link", callback)

    def link_error(self, errback: Any) -> Any:
        """Run ``errback`` after this task failed; gives the error callback back."""
        return self.append_to_list_option("link_error", errback)

    def on_error(self, errback: Any) -> Signature:
        """`link_error`, but gives itself back."""
        self.link_error(errback)
        return self

    def flatten_links(self) -> list[Any]:
        """This, and everything linked to it."""
        found = [self]
        for link in maybe_list(self["options"].get("link")) or []:
            found += link.flatten_links()
        return found

    def __or__(self, other: Any) -> Any:
        if isinstance(other, Signature):
            return chain(self, other, app=self._app)
        return NotImplemented

    # -- as a value --------------------------------------------------------------------------

    def reprcall(self, *args: Any, **kwargs: Any) -> str:
        """How it would look if it was called with these arguments."""
        merged_args, merged_kwargs, _ = self._merge(args, kwargs, None, force=True)
        return str(reprcall(self["task"], merged_args, merged_kwargs))

    def __repr__(self) -> str:
        return self.reprcall()

    def __deepcopy__(self, memo: dict[int, Any]) -> Signature:
        return signature(deepcopy(dict(self)), app=self._app)

    def __reduce__(self) -> tuple[Any, ...]:
        return signature, (dict(self),)


@Signature.register_type("chain")
class chain(Signature):  # noqa: N801  # Celery's name
    """Tasks that run one after the other, each with the result of the one before.

    >>> chain(add.s(2, 2), mul.s(8)).apply_async().get()
    32

    It is stored as one workflow in one step: either the whole chain is there, or nothing of it.
    When a task fails, those behind it never run, and have its error as their result.
    """

    def __init__(self, *tasks: Any, app: Celery | None = None, **options: Any) -> None:
        if len(tasks) == 1 and not isinstance(tasks[0], Mapping):
            tasks = tuple(tasks[0])
        super().__init__(
            "celery.chain",
            (),
            {"tasks": list(_flat(tasks))},
            options,
            subtask_type="chain",
            app=app,
        )

    @classmethod
    def from_dict(cls, d: Mapping[str, Any], app: Celery | None = None) -> chain:
        tasks = d["kwargs"]["tasks"]
        made = chain(*(maybe_signature(each, app=app) for each in tasks), app=app, **d["options"])
        made["immutable"] = bool(d.get("immutable"))
        if d.get("args"):
            made["args"] = tuple(d["args"])
        return made

    @property
    def tasks(self) -> list[Any]:
        """The signatures, in order."""
        found: list[Any] = self["kwargs"]["tasks"]
        return found

    @property
    def app(self) -> Celery:
        first = self.tasks[0]._app if self.tasks else None
        app: Celery = self._app or first or current_app._get_current_object()
        return app

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.apply_async(args, kwargs)

    def apply_async(
        self, args: Any = None, kwargs: Any = None, route_name: str | None = None, **options: Any
    ) -> Any:
        """Start the chain; gives the result of its last task, with those before as parents.

        Arguments and most options are for the first task; ``task_id`` and ``link`` are for the
        last, ``link_error`` for all.
        """
        if not self.tasks:
            return None
        if self.app.conf.task_always_eager:
            return self.apply(args, kwargs, **options)
        return self.run(args, kwargs, route_name=route_name, **options)

    def run(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """`apply_async`, whatever ``task_always_eager`` says."""
        options = {**self["options"], **options}
        given = () if self["immutable"] else (*(args or ()), *self["args"])
        steps = [each.clone() for each in self.tasks]
        steps[0] = steps[0].clone(given, kwargs)
        last_id = options.pop("task_id", None)
        if last_id:
            steps[-1]["options"]["task_id"] = last_id
        for link in maybe_list(options.pop("link", None)) or ():
            steps[-1].link(link)
        for errback in maybe_list(options.pop("link_error", None)) or ():
            for step in steps:
                step.link_error(errback)
        results = [step.freeze() for step in steps]
        for parent, result in pairwise(results):
            result.parent = parent
        first, *rest = steps
        if rest:
            options["chain"] = rest[::-1]  # the next one last, as in Celery's messages
        sent = first.apply_async(
            **{name: value for name, value in options.items() if value is not None}
        )
        results[0].ignored = sent.ignored
        return results[-1]

    def apply(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Run the tasks here and now; gives the `EagerResult` of the last.

        Raises what a task before the last one raised.
        """
        options = {**self["options"], **options}
        last = None
        given, given_kwargs = (*(args or ()), *self["args"]), kwargs
        for task in self.tasks:
            step = task.clone(given, given_kwargs)
            result = step.apply(() if last is None else (last.get(),), **options)
            result.parent, last = last, result
            given, given_kwargs = (), None
        return last

    def freeze(self, _id: str | None = None, *args: Any, **kwargs: Any) -> Any:
        """Give every task its id; gives the result of the last."""
        results = [each.freeze() for each in self.tasks[:-1]]
        if self.tasks:
            results.append(self.tasks[-1].freeze(_id or self.id))
        for parent, result in pairwise(results):
            result.parent = parent
        if results:
            self["options"].setdefault("task_id", results[-1].id)
        return results[-1] if results else None

    def clone(self, args: Any = None, kwargs: Any = None, **opts: Any) -> Signature:
        made = chain(
            *(each.clone() for each in self.tasks),
            app=self._app,
            **deepcopy({**self["options"], **opts}),
        )
        made["immutable"] = self["immutable"]
        made["args"] = tuple(self["args"])
        if not self["immutable"]:
            made["args"] = (*(args or ()), *self["args"])
            if kwargs and made.tasks:
                made.tasks[0] = made.tasks[0].clone(kwargs=kwargs)
        return made

    def unchain_tasks(self) -> list[Any]:
        """Copies of the tasks; what is linked to the chain is linked to them."""
        steps = [each.clone() for each in self.tasks]
        for link in maybe_list(self["options"].get("link")) or ():
            steps[-1].link(link)
        for errback in maybe_list(self["options"].get("link_error")) or ():
            for step in steps:
                step.link_error(errback)
        return steps

    def __or__(self, other: Any) -> Any:
        if isinstance(other, Signature):
            joined = chain(*self.unchain_tasks(), *_flat([other.clone()]), app=self._app)
            kept = {
                name: value
                for name, value in self["options"].items()
                if name not in ("link", "link_error", "task_id")
            }
            joined["options"].update(kept)
            return joined
        return NotImplemented

    def __repr__(self) -> str:
        if not self.tasks:
            return f"<{type(self).__name__}@{id(self):#x}: empty>"
        first, *rest = map(repr, self.tasks)
        module, dot, _ = self.tasks[0]["task"].rpartition(".")
        return " | ".join([first, *(each.removeprefix(f"{module}{dot}") for each in rest)])


_chain = chain


def _flat(tasks: Any) -> Iterator[Any]:
    """Signatures, with chains among them taken apart."""
    for each in tasks:
        found = maybe_signature(each)
        if isinstance(found, chain):
            yield from found.unchain_tasks()
        else:
            yield found


def signature(varies: Any, *args: Any, **kwargs: Any) -> Signature:
    """A signature of a task, of a task's name, or from a dict.

    >>> signature("tasks.add", args=(2, 2), countdown=10)
    """
    app = kwargs.get("app")
    if isinstance(varies, Signature):
        return varies.clone()
    if isinstance(varies, Mapping):
        return Signature.from_dict(varies, app=app)
    return Signature(varies, *args, **kwargs)


subtask = signature


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


maybe_subtask = maybe_signature
