"""Tasks that run at the same time, and one that runs after all of them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from types import GeneratorType
from typing import TYPE_CHECKING, Any
from warnings import warn

from kombu.utils.functional import maybe_list

from celery.exceptions import CPendingDeprecationWarning
from celery.result import allow_join_result
from celery.utils.abstract import CallableSignature
from celery.utils.sequences import is_concrete, regen

from .applying import app_of, below_header, first_of, launch
from .chains import _chain
from .groups import group
from .showing import without_module
from .signatures import Signature, maybe_signature, signature

if TYPE_CHECKING:
    from celery.app.base import Celery

__all__ = ("_chord", "_maybe_group", "chord")


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
