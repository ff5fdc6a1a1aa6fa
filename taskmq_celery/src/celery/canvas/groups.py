"""Tasks that run at the same time, and tasks that run after all of those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from types import GeneratorType
from typing import TYPE_CHECKING, Any
from warnings import warn

from kombu.utils.functional import fxrange, maybe_list
from kombu.utils.uuid import uuid

from celery.exceptions import CPendingDeprecationWarning
from celery.result import allow_join_result
from celery.utils.abstract import CallableSignature
from celery.utils.sequences import is_concrete, regen

from .applying import app_of, below_header, first_of, launch, of_one
from .chains import _chain
from .showing import without_module
from .signatures import Signature, maybe_signature, signature

if TYPE_CHECKING:
    from celery.app.base import Celery

__all__ = ("_chord", "_maybe_group", "chord", "group", "maybe_unroll_group")


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
        if not is_concrete(self.tasks):
            self.tasks = list(self.tasks)
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


@Signature.register_type(name="chord")
class _chord(Signature):  # noqa: N801  # Celery's name
    """Tasks that run at the same time, and one that runs after all of them, with the list of their
    results.

    >>> chord((add.s(i, i) for i in range(3)), tsum.s()).apply_async().get()
    6

    Arguments of a call go to the first ones. If one of these fails, the other one does not run;
    its result is a `ChordError` then, and its ``link_error`` is called.
    """

    __module__ = "celery.canvas"
    _as_taken = False

    def __init__(
        self,
        header: Any,
        body: Any = None,
        task: str = "celery.chord",
        args: Any = None,
        kwargs: Any = None,
        app: Celery | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            task,
            tuple(args or ()),
            {
                "kwargs": dict(kwargs or {}),
                "header": _maybe_group(header, app),
                "body": maybe_signature(body, app=app),
            },
            options,
            subtask_type="chord",
            app=app,
        )

    @classmethod
    def from_dict(cls, d: Mapping[str, Any], app: Celery | None = None) -> Any:
        inner = d["kwargs"]
        header = inner.get("header") or []
        if isinstance(header, Mapping):
            header = maybe_signature(header, app=app)
        made = cls.__new__(cls)
        _chord.__init__(
            made,
            header if not isinstance(header, group) else list(header.tasks),
            inner.get("body"),
            args=d.get("args"),
            kwargs=inner.get("kwargs"),
            app=app,
            **d["options"],
        )
        if isinstance(header, group):
            made.tasks = header
        made["subtask_type"] = d.get("subtask_type") or "chord"
        made["immutable"] = bool(d.get("immutable"))
        return made

    @property
    def tasks(self) -> Any:
        """The signatures of the header: a list, or a group."""
        return self["kwargs"]["header"]

    @tasks.setter
    def tasks(self, value: Any) -> None:
        self["kwargs"]["header"] = value

    @property
    def body(self) -> Any:
        """The signature of what runs last."""
        return self["kwargs"].get("body")

    @body.setter
    def body(self, value: Any) -> None:
        self["kwargs"]["body"] = value

    @property
    def app(self) -> Celery:
        return self._get_app(self.body)

    def _get_app(self, body: Any = None) -> Celery:
        tasks = self.tasks.tasks if isinstance(self.tasks, group) else self.tasks
        return self._own_app(app_of(tasks), None if body is None else app_of([body]))

    def __call__(self, body: Any = None, **options: Any) -> Any:
        return self.apply_async((), {"body": body} if body else {}, **options)

    # -- applying ----------------------------------------------------------------------------

    def apply_async(  # type: ignore[override]  # Celery's signature
        self,
        args: Any = (),
        kwargs: Any = None,
        task_id: str | None = None,
        producer: Any = None,
        publisher: Any = None,
        connection: Any = None,
        router: Any = None,
        result_cls: Any = None,
        **options: Any,
    ) -> Any:
        """Start the header; gives the result of the body, with the header's as its parent.

        Arguments are for the tasks of the header, options for these and for the body, and
        ``task_id`` is for the body. It is stored as one workflow in one step. That the header's
        result is the parent also holds for a body of several tasks: those between are left out.
        """
        kwargs = dict(kwargs or {})
        body = maybe_signature(kwargs.pop("body", None), app=self._app) or self.body
        if body is None:
            raise TypeError("a chord without a body cannot be applied: chord(header)(body)")
        made = self.clone()
        made.body = body.clone()
        if self._get_app(body).conf.task_always_eager:
            for name in ("link", "link_error"):
                given = options.pop(name, None) or self["options"].get(name)
                _link_body(made.body, name, maybe_list(given) or [])
            with allow_join_result():
                return made.apply(args, kwargs, body=made.body, task_id=task_id, **options)
        own = {name: value for name, value in made["options"].items() if name != "task_id"}
        return made.run(
            made.tasks,
            made.body,
            args,
            app=self._get_app(body),
            task_id=task_id or self["options"].get("task_id"),
            kwargs=kwargs,
            **{**own, **options},
        )

    def run(
        self,
        header: Any,
        body: Any,
        partial_args: Any,
        app: Any = None,
        interval: float | None = None,
        countdown: Any = None,
        max_retries: int | None = None,
        eager: bool = False,
        task_id: str | None = None,
        kwargs: Any = None,
        **options: Any,
    ) -> Any:
        """`apply_async`, whatever ``task_always_eager`` says. ``interval`` and ``max_retries`` are
        for Celery's polling, of which there is none."""
        if countdown is not None:
            options["countdown"] = countdown
        made = _chord(header, body, args=self["args"], kwargs=self["kwargs"]["kwargs"], app=app)
        made["immutable"] = self["immutable"]
        made.tasks = header
        return below_header(launch(made, partial_args, kwargs, {**options, "task_id": task_id}))

    def apply(
        self,
        args: Any = (),
        kwargs: Any = None,
        propagate: bool = True,
        body: Any = None,
        *,
        task_id: str | None = None,
        **options: Any,
    ) -> Any:
        """Run the header, and then the body, here and now; gives the result of the body."""
        body = maybe_signature(body or self.body, app=self._app)
        header = self.tasks.clone() if isinstance(self.tasks, group) else group(self.tasks)
        given = () if self["immutable"] else (*(args or ()), *self["args"])
        done = header.apply(given, {**self["kwargs"]["kwargs"], **(kwargs or {})})
        return body.apply((done.get(propagate=propagate),), task_id=task_id)

    def freeze(
        self,
        _id: str | None = None,
        group_id: str | None = None,
        chord: Any = None,
        root_id: str | None = None,
        parent_id: str | None = None,
        group_index: int | None = None,
    ) -> Any:
        """Give every task its id; gives the result of the body."""
        if not isinstance(self.tasks, group):
            self.tasks = group(self.tasks, app=self._app)
        if self._as_taken:
            self.tasks._take_your_time()
        header = self.tasks.freeze(root_id=root_id, parent_id=parent_id)
        if self.body is None:
            return header
        self.body = maybe_signature(self.body, app=self._app)
        result = self.body.freeze(
            self["options"].get("task_id") or _id,
            group_id,
            chord,
            root_id,
            group_index=group_index,
        )
        if result is None:
            return header
        first_of(result).parent = header
        return result

    _freeze = freeze

    def _take_your_time(self) -> None:
        self._as_taken = True

    def _ids_in_use(self) -> list[str]:
        header = self.tasks.tasks if isinstance(self.tasks, group) else self.tasks
        return super()._ids_in_use() if is_concrete(header) else []

    # -- its tasks ---------------------------------------------------------------------------

    def clone(self, args: Any = None, kwargs: Any = None, **opts: Any) -> Any:
        app = opts.pop("app", None)
        _, _, options = self._merge(None, None, opts)
        tasks = self.tasks
        if isinstance(tasks, group):
            tasks = tasks.clone()
        elif is_concrete(tasks):
            tasks = [maybe_signature(each, clone=True) for each in tasks]
        made = type(self).from_dict(
            {
                "kwargs": {
                    "header": tasks,
                    "body": maybe_signature(self.body, clone=True),
                    "kwargs": {**self["kwargs"]["kwargs"], **(kwargs or {})},
                },
                "options": deepcopy(options),
                "subtask_type": self["subtask_type"],
                "immutable": self["immutable"],
                "args": self["args"],
            },
            app=app or self._app,
        )
        made.tasks = tasks
        if args and not self["immutable"]:
            made["args"] = (*args, *self["args"])
        return made

    def __length_hint__(self) -> int:
        return _size_of(self.tasks)

    def link(self, callback: Any) -> Any:
        """Run ``callback`` after the body."""
        self.body.link(callback)
        return callback

    def link_error(self, errback: Any) -> Any:
        """Run ``errback`` when the body fails, or cannot run because of the header; with
        ``task_allow_error_cb_on_chord_header`` for every failed task of the header too. Chords in
        the header have it in any case, for their bodies."""
        everywhere = self.app.conf.task_allow_error_cb_on_chord_header
        if not everywhere:
            warn(NOT_ON_HEADER, category=CPendingDeprecationWarning, stacklevel=2)
        for task in self.tasks.tasks if isinstance(self.tasks, group) else self.tasks:
            if everywhere or isinstance(task, _chord):
                task.link_error(maybe_signature(errback, clone=True))
        if self.body:
            self.body.link_error(errback)
        return errback

    def set_immutable(self, immutable: bool) -> None:
        for task in self.tasks.tasks if isinstance(self.tasks, group) else self.tasks:
            task.set_immutable(immutable)

    def stamp(self, visitor: Any = None, append_stamps: bool = False, **headers: Any) -> Any:
        passed = headers
        if visitor is not None:
            said = visitor.on_chord_header_start(self, **headers) or {}
            passed = self._stamp_headers(said, append_stamps, **headers)
        self.stamp_links(visitor, append_stamps, **passed)
        for task in self.tasks.tasks if isinstance(self.tasks, group) else self.tasks:
            task.stamp(visitor, append_stamps, **passed)
        if visitor is not None:
            visitor.on_chord_header_end(self, **passed)
        if isinstance(self.body, Signature):
            if visitor is not None:
                said = visitor.on_chord_body(self, **headers) or {}
                headers = self._stamp_headers(said, append_stamps, **headers)
            self.body.stamp(visitor, append_stamps, **headers)
        return self

    def __or__(self, other: Any) -> Any:
        step = other
        if isinstance(other, group):
            other._look()
            step = other._unrolled()
        # The only task of a group goes on with the body, whatever it is.
        if step is other and (
            isinstance(other, (group, _chain)) or not isinstance(other, Signature)
        ):
            return super().__or__(other)
        longer = self.clone()
        longer.body = longer.body | step
        return longer

    def __repr__(self) -> str:
        body = self.body
        if not body:
            return f"<chord without body: {self.tasks!r}>"
        if isinstance(body, _chain) and body.tasks:
            first, *rest = body.tasks
            rest_of_it = _chain(rest, app=self._app)
            shown = f"%({first.reprcall(self.tasks)} | {rest_of_it!r})"
            return without_module(first["task"], shown)
        return "%" + without_module(body["task"], body.reprcall(self.tasks))


chord = _chord

NOT_ON_HEADER = (
    "task_allow_error_cb_on_chord_header=False is pending deprecation in a future release of "
    "Celery.\nPlease test the new behavior by setting task_allow_error_cb_on_chord_header to True "
    "and report any concerns you might have in our issue tracker before we make a final decision "
    "regarding how errbacks should behave when used with chords."
)


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


def _maybe_group(tasks: Any, app: Any) -> Any:
    """The tasks of a header, which may be given in many ways: as a group, a task, or several."""
    if isinstance(tasks, Mapping) and not isinstance(tasks, Signature):
        tasks = signature(tasks, app=app)
    if isinstance(tasks, (group, _chain)):
        return tasks.tasks
    if isinstance(tasks, CallableSignature):
        return [tasks]
    if not is_concrete(tasks):
        return tasks
    if isinstance(tasks, GeneratorType):
        return regen(_member_of(each, app) for each in tasks)
    return [_member_of(each, app) for each in tasks or ()]


def _member_of(each: Any, app: Any) -> Any:
    """A task, as itself or as a signature, as a signature of its own."""
    if isinstance(each, Mapping):
        return maybe_signature(each, app=app, clone=True)
    return signature(each, app=app)


def _link_body(body: Any, name: str, callbacks: list[Any]) -> None:
    """Link to the body of a chord what was linked to the call of the chord."""
    for callback in callbacks:
        link = maybe_signature(callback, clone=True)
        if name == "link":
            body.link(link)
        elif isinstance(body, _chord):  # its own header has nothing to do with it
            body.append_to_list_option("link_error", link)
        else:
            body.link_error(link)


def _given(task: Any, outer: Any) -> Any:
    """A task of a group within a group, with what the inner one has to give it."""
    options = {k: v for k, v in outer["options"].items() if k != "task_id"}
    return task.clone(outer["args"], **options) if outer["args"] or options else task


def _size_of(part: Any) -> int:
    """How many results the body of a chord gets from a part of its header."""
    if isinstance(part, group):
        part = part.tasks
    if isinstance(part, _chain):
        return _size_of(part.tasks[-1]) if part.tasks else 0
    if isinstance(part, _chord):
        return _size_of(part.body)
    if isinstance(part, (list, tuple)):
        return sum(_size_of(each) for each in part)
    return 1
