"""Tasks that run at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from kombu.utils.functional import fxrange, maybe_list
from kombu.utils.uuid import uuid

from celery.utils.abstract import CallableSignature
from celery.utils.sequences import is_concrete, regen

from .applying import app_of, launch, of_one
from .showing import without_module
from .signatures import Signature, maybe_signature

if TYPE_CHECKING:
    from celery.app.base import Celery

__all__ = ("group", "maybe_unroll_group")


@Signature.register_type()
class group(Signature):  # noqa: N801  # Celery's name
    """Tasks that run at the same time.

    >>> group(add.s(i, i) for i in range(3)).apply_async().get()
    [0, 2, 4]

    Arguments and options of a call go to every one of them. It is stored in one step.
    """

    __module__ = "celery.canvas"
    _as_taken = False

    def __init__(self, *tasks: Any, **options: Any) -> None:
        app = options.pop("app", None)
        given: Any = tasks[0] if len(tasks) == 1 else tasks
        if isinstance(given, group):
            given = given.tasks
        elif isinstance(given, CallableSignature):
            given = [maybe_signature(given, clone=True)]
        super().__init__(
            "celery.group",
            (),
            {"tasks": regen(given)},
            options,
            subtask_type="group",
            app=app,
        )

    @classmethod
    def from_dict(cls, d: Mapping[str, Any], app: Celery | None = None) -> Any:
        tasks = d["kwargs"]["tasks"]
        if is_concrete(tasks):
            tasks = [maybe_signature(each, app=app) for each in maybe_list(tasks) or ()]
        made = cls.__new__(cls)
        group.__init__(made, tasks, app=app, **d["options"])
        made["subtask_type"] = d.get("subtask_type") or "group"
        made["immutable"] = bool(d.get("immutable"))
        made["args"] = tuple(d.get("args") or ())
        made["kwargs"].update({k: v for k, v in d["kwargs"].items() if k != "tasks"})
        return made

    @property
    def tasks(self) -> Any:
        """The signatures."""
        return self["kwargs"]["tasks"]

    @tasks.setter
    def tasks(self, value: Any) -> None:
        self["kwargs"]["tasks"] = value

    @property
    def app(self) -> Celery:
        return self._own_app(app_of(self.tasks))

    def __call__(self, *partial_args: Any, **options: Any) -> Any:
        return self.apply_async(partial_args, **options)

    def __len__(self) -> int:
        return len(self.tasks)

    # -- applying ----------------------------------------------------------------------------

    def apply_async(  # type: ignore[override]  # Celery's signature
        self,
        args: Any = None,
        kwargs: Any = None,
        add_to_parent: bool = True,
        producer: Any = None,
        link: Any = None,
        link_error: Any = None,
        **options: Any,
    ) -> Any:
        """Start the tasks; gives a `GroupResult`. Raises ``TypeError`` for links: a chord has
        them, and so have the tasks."""
        if link is not None:
            raise TypeError("Cannot add link to group: use a chord")
        if link_error is not None:
            raise TypeError("Cannot add link to group: do that on individual tasks")
        if self.app.conf.task_always_eager:
            return self.apply(args, kwargs, **options)
        if not self.tasks:
            return self.freeze()
        return of_one(launch(self, args, kwargs, options, add_to_parent=add_to_parent))

    def apply(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Run the tasks here and now, one after the other."""
        app = self.app
        frozen = self.freeze()
        if not self.tasks:
            return frozen
        options = {**self["options"], **options}
        given = () if self["immutable"] else (*(args or ()), *self["args"])
        for name in ("task_id", "root_id", "parent_id"):
            options.pop(name, None)
        results = [task.apply(given, kwargs, **options) for task in self.tasks]
        return app.GroupResult(frozen.id, results)

    def freeze(
        self,
        _id: str | None = None,
        group_id: str | None = None,
        chord: Any = None,
        root_id: str | None = None,
        parent_id: str | None = None,
        group_index: int | None = None,
    ) -> Any:
        """Give itself and every task an id; gives the `GroupResult` to come."""
        app, options = self.app, self["options"]
        own = options.setdefault("task_id", _id or uuid())
        place = {"root_id": root_id, "parent_id": parent_id, "chord": chord}
        options.update({name: value for name, value in place.items() if value})
        results: list[Any] = []
        given = self.tasks

        def frozen() -> Iterator[Any]:
            for member in self._members(given):
                task = member.clone()
                result = task.freeze(
                    group_id=own,
                    chord=chord,
                    root_id=root_id,
                    parent_id=parent_id,
                    group_index=len(results),
                )
                if result is not None:  # None: an empty chain
                    results.append(result)
                    yield task

        if self._as_taken:
            self.tasks = regen(frozen())
            self.tasks.paced_by = given
        else:
            self.tasks = list(frozen())
        return app.GroupResult(own, results)

    _freeze = freeze

    def _take_your_time(self) -> None:
        self._as_taken = not is_concrete(self.tasks)

    def _ids_in_use(self) -> list[str]:
        return super()._ids_in_use() if is_concrete(self.tasks) else []

    # -- its tasks ---------------------------------------------------------------------------

    def _members(self, tasks: Any = None) -> Iterator[Any]:
        """The tasks, with those of groups among them in their place."""
        for each in self.tasks if tasks is None else tasks:
            task = maybe_signature(each, app=self._app)
            if isinstance(task, group):
                yield from (_given(one, task) for one in task._members())
            else:
                yield task

    def _is_empty(self) -> bool:
        """Whether there is no task, as far as can be said without running a generator."""
        return is_concrete(self.tasks) and not self.tasks

    def _look(self) -> None:
        """Take as much from a generator as says whether it has no task, one, or more."""
        if not is_concrete(self.tasks):
            self.tasks.know(2)

    def _unrolled(self) -> Any:
        """The only task, or itself if there are others."""
        return maybe_unroll_group(self)

    def clone(self, args: Any = None, kwargs: Any = None, **opts: Any) -> Any:
        app = opts.pop("app", None)
        _, _, options = self._merge(None, None, opts)
        tasks = self.tasks
        if is_concrete(tasks):
            tasks = [maybe_signature(each, clone=True) for each in tasks]
        made = type(self).from_dict(
            {
                "kwargs": {**self["kwargs"], "tasks": tasks, **(kwargs or {})},
                "options": deepcopy(options),
                "subtask_type": self["subtask_type"],
                "immutable": self["immutable"],
                "args": self["args"],
            },
            app=app or self._app,
        )
        if args and not self["immutable"]:
            made["args"] = (*args, *self["args"])
        return made

    def skew(self, start: float = 1.0, stop: float | None = None, step: float = 1.0) -> group:
        """Give the tasks countdowns that grow by ``step``, from ``start`` to ``stop``, where they
        stay."""
        waits = fxrange(start, stop, step, repeatlast=True)
        for task in self.tasks:
            task.set(countdown=next(waits))
        return self

    def set_immutable(self, immutable: bool) -> None:
        for task in self.tasks:
            task.set_immutable(immutable)

    def link(self, sig: Any) -> Any:
        """Run ``sig`` after the first of the tasks; to run one after all of them, use a chord."""
        if not self.tasks:
            return None
        link = maybe_signature(sig)  # that of a canvas that was read from JSON is a dict
        return self.tasks[0].link(link.clone().set(immutable=True))

    def link_error(self, sig: Any) -> Any:
        """Run ``sig`` for every task that fails."""
        errback = maybe_signature(sig, app=self._app)
        return tuple(task.link_error(errback.clone()) for task in self.tasks)

    def stamp(self, visitor: Any = None, append_stamps: bool = False, **headers: Any) -> Any:
        said = None if visitor is None else visitor.on_group_start(self, **headers) or {}
        headers = self._stamp_headers(said, append_stamps, **headers)
        self.stamp_links(visitor, append_stamps, **headers)
        for task in self.tasks:
            task.stamp(visitor, append_stamps, **headers)
        if visitor is not None:
            visitor.on_group_end(self, **headers)
        return self

    def __or__(self, other: Any) -> Any:
        if isinstance(other, group) and type(other.tasks) in (list, tuple) and not other.tasks:
            return self  # of a generator nobody says yet that it has nothing
        if isinstance(other, Signature):
            return Signature.TYPES["chord"](self, body=other, app=self._app)
        return NotImplemented

    def __repr__(self) -> str:
        if is_concrete(self.tasks) and not self.tasks:
            return f"{type(self).__name__}(<empty>)"
        shown = f"group({self.tasks!r})"
        if not is_concrete(self.tasks):
            return shown
        return without_module(maybe_signature(self.tasks[0])["task"], shown)


def maybe_unroll_group(group: Any) -> Any:
    """The task of a group that has exactly one; otherwise the group."""
    tasks = group.tasks
    if not is_concrete(tasks) and tasks.__length_hint__() != 1:
        return group
    try:
        count = len(tasks)
    except TypeError:
        return group
    return maybe_signature(tasks[0]) if count == 1 else group


def _given(task: Any, outer: Any) -> Any:
    """A task of a group within a group, with what the inner one has to give it."""
    options = {k: v for k, v in outer["options"].items() if k != "task_id"}
    return task.clone(outer["args"], **options) if outer["args"] or options else task
