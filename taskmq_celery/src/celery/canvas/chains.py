"""Tasks that run one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from kombu.utils.functional import maybe_list

from celery.utils.functional import is_list

from .applying import app_of, apply_in_turn, below_header, first_of, launch
from .showing import without_module
from .signatures import Signature, maybe_signature

if TYPE_CHECKING:
    from celery.app.base import Celery

__all__ = ("_chain", "_fold_chain", "_merge_chain_step", "chain")

OF_THE_PARTS = ("link", "link_error", "task_id")
"""Options of a chain that are gone once its tasks are part of another one."""


@Signature.register_type(name="chain")
class _chain(Signature):  # noqa: N801  # Celery's name
    """Tasks that run one after the other, each with the result of the one before.

    Of these steps exactly; `chain` joins them as ``|`` does.
    """

    _task_name = "celery.chain"
    __module__ = "celery.canvas"

    def __init__(self, *tasks: Any, app: Celery | None = None, **options: Any) -> None:
        steps = tasks[0] if len(tasks) == 1 and is_list(tasks[0]) else tasks
        super().__init__(
            self._task_name,
            (),
            {"tasks": steps if isinstance(steps, (list, tuple)) else list(steps)},
            options,
            subtask_type="chain",
            app=app,
        )

    @classmethod
    def from_dict(cls, d: Mapping[str, Any], app: Celery | None = None) -> Any:
        steps = [maybe_signature(each, app=app) for each in d["kwargs"]["tasks"]]
        made = cls.__new__(cls)
        _chain.__init__(made, steps, app=app, **d["options"])
        made["subtask_type"] = d.get("subtask_type") or "chain"
        made["immutable"] = bool(d.get("immutable"))
        made["args"] = tuple(d.get("args") or ())
        return made

    @property
    def tasks(self) -> Any:
        """The signatures, in order."""
        return self["kwargs"]["tasks"]

    @tasks.setter
    def tasks(self, value: Any) -> None:
        self["kwargs"]["tasks"] = value

    @property
    def app(self) -> Celery:
        return self._own_app(app_of(self.tasks))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.tasks:
            return self.apply_async(args, kwargs)
        return None

    # -- applying ----------------------------------------------------------------------------

    def apply_async(  # type: ignore[override]  # route_name is one of the options
        self, args: Any = None, kwargs: Any = None, **options: Any
    ) -> Any:
        """Start the chain; gives the result of its last task, with those before as parents.

        Arguments and most options are for the first task; ``task_id`` and ``link`` are for the
        last, ``link_error`` for all. It is stored as one workflow in one step: either the whole
        chain is there, or nothing of it.
        """
        if not self._steps():
            return self.freeze(options.get("task_id"))
        if self.app.conf.task_always_eager:
            return self.apply(args, kwargs, **options)
        return self.run(args, kwargs, **options)

    def run(  # Celery's signature
        self,
        args: Any = None,
        kwargs: Any = None,
        group_id: str | None = None,
        chord: Any = None,
        task_id: str | None = None,
        link: Any = None,
        link_error: Any = None,
        publisher: Any = None,
        producer: Any = None,
        root_id: str | None = None,
        parent_id: str | None = None,
        app: Any = None,
        group_index: int | None = None,
        **options: Any,
    ) -> Any:
        """`apply_async`, whatever ``task_always_eager`` says."""
        given = {
            "group_id": group_id,
            "chord": chord,
            "task_id": task_id,
            "link": link,
            "link_error": link_error,
            "publisher": publisher,
            "producer": producer,
            "root_id": root_id,
            "parent_id": parent_id,
            "app": app,
            "group_index": group_index,
        }
        options.update((name, value) for name, value in given.items() if value is not None)
        only = self._only_chord()
        body = None if only is None else only.body
        nested = body._only_chord() if isinstance(body, _chain) else body
        result = launch(self._without(options), args, kwargs, options)
        return below_header(result) if isinstance(nested, self.TYPES["chord"]) else result

    def _only_chord(self) -> Any:
        """The chord that all of the chain is, if it is one."""
        steps = self._steps()
        alone = len(steps) == 1 and isinstance(steps[0], self.TYPES["chord"])
        return steps[0] if alone else None

    def _without(self, options: Mapping[str, Any]) -> _chain:
        """This chain without those links of its own that a call brings others for."""
        replaced = [name for name in ("link", "link_error") if name in options]
        if not any(self["options"].get(name) for name in replaced):
            return self
        made: _chain = self.clone()
        for name in replaced:
            made["options"].pop(name, None)
        return made

    def apply(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Run the tasks here and now; gives the `EagerResult` of the last.

        Raises what a task before the last one raised.
        """
        return apply_in_turn(self, self._steps(), args, kwargs, options)

    def freeze(
        self,
        _id: str | None = None,
        group_id: str | None = None,
        chord: Any = None,
        root_id: str | None = None,
        parent_id: str | None = None,
        group_index: int | None = None,
    ) -> Any:
        """Give every task its id; gives the result of the last."""
        steps = self._steps()
        if not steps:
            return self._freeze_nothing(_id)
        self.tasks = steps = self._apart(steps)
        result = None
        for number, step in enumerate(steps, 1):
            if number == len(steps):
                wanted = self["options"].get("task_id") or _id
                frozen = step.freeze(
                    wanted, group_id, chord, root_id, parent_id, group_index=group_index
                )
            else:
                frozen = step.freeze(root_id=root_id)
            first_of(frozen).parent = result
            result = frozen
        if result is not None:
            self["options"].setdefault("task_id", result.id)
        return result

    _freeze = freeze

    def _freeze_nothing(self, _id: str | None) -> Any:
        """Of groups without tasks, in chains or not, the result of one."""
        for each in self.tasks:
            nothing = maybe_signature(each, self._app).freeze(_id)
            if nothing is not None:
                return nothing
        return None

    @staticmethod
    def _apart(steps: list[Any]) -> list[Any]:
        """A signature that occurs twice is two tasks."""
        seen: set[int] = set()
        apart = []
        for step in steps:
            apart.append(step.clone() if id(step) in seen else step)
            seen.add(id(step))
        return apart

    # -- its tasks ---------------------------------------------------------------------------

    def _steps(self) -> list[Any]:
        """What runs one after the other: no chains, no groups of one, nothing empty."""
        return [step for each in self.tasks for step in _flat(maybe_signature(each, self._app))]

    def unchain_tasks(self) -> list[Any]:
        """Copies of the tasks; what is linked to the chain is linked to them."""
        return with_links([each.clone() for each in self.tasks], self["options"])

    def clone(self, args: Any = None, kwargs: Any = None, **opts: Any) -> Any:
        app = opts.pop("app", None)
        _, _, options = self._merge(None, None, opts)
        made = type(self).from_dict(
            {
                "kwargs": {"tasks": [maybe_signature(each, clone=True) for each in self.tasks]},
                "options": deepcopy(options),
                "subtask_type": self["subtask_type"],
                "immutable": self["immutable"],
                "args": self["args"],
            },
            app=app or self._app,
        )
        if not self["immutable"]:
            made["args"] = (*(args or ()), *self["args"])
            if kwargs and made.tasks:
                made.tasks[0] = made.tasks[0].clone(kwargs=kwargs)
        return made

    def flatten_links(self) -> list[Any]:
        links = maybe_list(self["options"].get("link")) or []
        return [self, *(found for link in links for found in link.flatten_links())]

    def stamp(self, visitor: Any = None, append_stamps: bool = False, **headers: Any) -> Any:
        said = None if visitor is None else visitor.on_chain_start(self, **headers) or {}
        headers = self._stamp_headers(said, append_stamps, **headers)
        self.stamp_links(visitor, append_stamps, **headers)
        for step in self.tasks:
            step.stamp(visitor, append_stamps, **headers)
        if visitor is not None:
            visitor.on_chain_end(self, **headers)
        return self

    # -- one after the other -----------------------------------------------------------------

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, Signature):
            return NotImplemented
        if isinstance(other, _chain):
            return _fold_chain(other.unchain_tasks(), self)
        if _grows(self.tasks[-1:], other):
            copy = self.clone()
            grown = self._again(_merge_chain_step(copy.tasks, other, self._app))
            given = {name: copy["options"].get(name) for name in ("link", "link_error")}
            grown["options"].update({name: value for name, value in given.items() if value})
            return grown
        if isinstance(other, self.TYPES["group"]):
            other._look()
            if other._is_empty():
                return self
            single = other._unrolled()
            if not isinstance(single, self.TYPES["group"]):
                return self | single
            other = single  # of a group that is the only task of another one, the inner one
            if not self.tasks:
                return other
        return self._again(_merge_chain_step(self.unchain_tasks(), other, self._app))

    def _again(self, steps: list[Any]) -> Any:
        made = type(self).from_dict(
            {"kwargs": {"tasks": steps}, "options": {}, "subtask_type": self["subtask_type"]},
            app=self._app,
        )
        kept = {k: v for k, v in self["options"].items() if k not in OF_THE_PARTS}
        made["options"].update(kept)
        made["args"] = self["args"]
        return made

    def __repr__(self) -> str:
        if not self.tasks:
            return f"<{type(self).__name__}@{id(self):#x}: empty>"
        return without_module(self.tasks[0]["task"], " | ".join(map(repr, self.tasks)))


class chain(_chain):  # noqa: N801  # Celery's name
    """Tasks that run one after the other, each with the result of the one before.

    >>> chain(add.s(2, 2), mul.s(8)).apply_async().get()
    32

    The same as ``add.s(2, 2) | mul.s(8)``. Where a group is followed by a task, that is a chord.
    When a task fails, those behind it never run, and have its error as their result.
    """

    __module__ = "celery.canvas"

    def __new__(cls, *tasks: Any, **kwargs: Any) -> Any:
        if kwargs or not tasks or (len(tasks) == 1 and not _is_many(tasks[0])):
            return super().__new__(cls)
        made = _fold_chain(tasks[0] if len(tasks) == 1 else tasks)
        if cls is not chain and type(made) is _chain:
            special = super().__new__(cls)
            special.__init__(made.tasks)  # type: ignore[misc]  # what __new__ gives is no chain
            return special
        return made


def _fold_chain(steps: Any, so_far: Any = None) -> Any:
    """Signatures joined by ``|`` into one, at a cost that is linear in their number."""
    ours = so_far is None
    so_far = _chain([]) if ours else so_far
    for each in steps:
        step = maybe_signature(each)
        if ours and isinstance(so_far, _chain) and _may_follow(so_far.tasks, step):
            if so_far.tasks:
                so_far.tasks[-1] = so_far.tasks[-1].clone()
            so_far.tasks.append(step)  # the last one stays the caller's, who may link to it
        else:
            so_far = so_far | step
            ours = isinstance(so_far, _chain) and so_far is not step
    return so_far


def _merge_chain_step(steps: list[Any], step: Any, app: Any = None) -> Any:
    """The steps of a chain with one more behind them, which joins the body of a chord that is
    there, and makes a chord of a group. ``NotImplemented`` for what is no signature."""
    kinds = Signature.TYPES
    if not isinstance(step, Signature):
        return NotImplemented
    last = steps[-1] if steps else None
    if isinstance(last, kinds["chord"]) and not isinstance(step, kinds["chord"]):
        last.body = last.body | step
        return steps
    if isinstance(last, kinds["group"]) and not isinstance(step, kinds["group"]):
        return _with_chord(steps, step, app)
    return [*steps, step]


def _grows(last: list[Any], step: Any) -> bool:
    """Whether a step becomes part of the one before it, a group or a chord: then what is linked to
    their chain is linked to all of it."""
    kinds = Signature.TYPES
    if not last or isinstance(step, kinds["group"]):
        return False
    if isinstance(last[0], kinds["chord"]):
        return not isinstance(step, kinds["chord"])
    return isinstance(last[0], kinds["group"])


def _may_follow(steps: list[Any], step: Any) -> bool:
    """Whether a task behind these is one more step, and nothing becomes a chord."""
    return _is_plain(step) and (not steps or _is_plain(steps[-1]))


def _is_plain(step: Any) -> bool:
    """A signature of a task, not of several."""
    kinds = Signature.TYPES
    return isinstance(step, Signature) and not isinstance(
        step, (_chain, kinds["group"], kinds["chord"])
    )


def _with_chord(steps: list[Any], body: Any, app: Any) -> list[Any]:
    """The last step, a group, as header of a chord. Behind another chord, in that one's body."""
    *rest, header = steps
    made = Signature.TYPES["chord"](header, body, app=app)
    if rest and isinstance(rest[-1], Signature.TYPES["chord"]):
        rest[-1].body = rest[-1].body | made
        return rest
    return [*rest, made]


def _is_many(tasks: Any) -> bool:
    return not isinstance(tasks, Mapping) and is_list(tasks)


def _flat(step: Any) -> Iterator[Any]:
    if isinstance(step, _chain):
        inner = [found for each in step.tasks for found in _flat(maybe_signature(each))]
        if step["args"] or any(step["options"].get(name) for name in ("link", "link_error")):
            inner = with_links([each.clone() for each in inner], step["options"], step["args"])
        yield from inner
    elif isinstance(step, Signature.TYPES["group"]):
        single = step._unrolled()
        if single is not step:
            yield from _flat(single)
        elif step.tasks:
            yield step
    else:
        yield step


def with_links(steps: list[Any], options: Mapping[str, Any], args: Any = ()) -> list[Any]:
    """The tasks of a chain, with what is linked to the chain linked to them."""
    links = maybe_list(options.get("link")) or ()
    errbacks = maybe_list(options.get("link_error")) or ()
    if steps and args:
        steps[0] = steps[0].clone(args)
    for link in links if steps else ():
        steps[-1].link(link)
    for errback in errbacks:
        for step in steps:
            step.link_error(maybe_signature(errback, clone=True))
    return steps
