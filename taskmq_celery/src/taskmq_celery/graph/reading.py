"""Reading the signatures of a canvas: its parts, and what each of them gets from around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = [
    *("CHAIN", "CHORD", "GROUP", "NOTHING_MORE", "NOWHERE", "More", "Place", "Signature"),
    *(
        "anew",
        "ends_as_group",
        "holds_a_group",
        "ids_of",
        "immutable",
        "listed",
        "members_of",
        "reference",
    ),
    *("steps_of", "tasks_of"),
]

Signature = Any
"""A dict with the keys task, args, kwargs, options, immutable."""

CHAIN, GROUP, CHORD = "celery.chain", "celery.group", "celery.chord"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a task stands."""

    root_id: str | None = None
    parent_id: str | None = None
    group_id: str | None = None
    group_index: int | None = None
    chord: Any = None

    def options(self) -> dict[str, Any]:
        """As options of a call."""
        found = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in found.items() if value is not None}


NOWHERE = Place()


@dataclass(frozen=True, slots=True, kw_only=True)
class More:
    """What a task gets from the canvas around it, beside what is in its own signature."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    links: tuple[Any, ...] = ()
    for_each: tuple[Any, ...] = ()
    """Links of a chain that ends as a group behind a task: every task of it has them."""
    errbacks: tuple[Any, ...] = ()

    def applied_to(self, signature: Signature) -> Signature:
        """The signature with all of this in it."""
        made, options = dict(signature), {**signature["options"], **self.options}
        if not signature.get("immutable"):
            made["args"] = (*self.args, *signature["args"])
            made["kwargs"] = {**signature["kwargs"], **self.kwargs}
        for name, added in (("link", self.links), ("link_error", self.errbacks)):
            if added:
                options[name] = _each_once([*listed(options.get(name)), *added])
        made["options"] = options
        return made

    def within(self, canvas: Signature) -> More:
        """For the parts of a canvas: what was given to it, and what it has of its own."""
        own = canvas["options"]
        passed = {k: v for k, v in own.items() if k not in NOT_PASSED and v is not None}
        fixed = bool(canvas.get("immutable"))
        return More(
            args=tuple(canvas["args"]) if fixed else (*self.args, *canvas["args"]),
            kwargs={} if fixed else self.kwargs,
            options={**passed, **self.options},
            links=(*listed(own.get("link")), *self.links),
            errbacks=(*listed(own.get("link_error")), *self.errbacks),
        )


NOT_PASSED = frozenset(
    {
        *("task_id", "link", "link_error", "chain", "chord", "group_id", "group_index"),
        *("root_id", "parent_id", "producer", "connection", "interval", "max_retries"),
    }
)
"""Options of a canvas that its parts do not get."""

NOTHING_MORE = More()


def ids_of(signature: Signature) -> Iterator[str]:
    """The ids that tasks of a canvas, and what is linked to them, have already."""
    options = signature["options"]
    if signature["task"] == CHORD:
        header, body = signature["kwargs"]["header"], signature["kwargs"]["body"]
        parts = [*([header] if isinstance(header, Mapping) else header), body]
    elif signature["task"] in (CHAIN, GROUP):
        parts = list(tasks_of(signature))
    else:
        parts = []
        if options.get("task_id"):
            yield options["task_id"]
    for part in (*parts, *listed(options.get("link"))):
        yield from ids_of(part)


def tasks_of(canvas: Signature) -> Iterable[Signature]:
    tasks = canvas["kwargs"].get("tasks")
    return () if tasks is None else [tasks] if isinstance(tasks, Mapping) else tasks


def steps_of(step: Signature) -> Iterator[Signature]:
    """The steps that a step of a chain stands for: those of a chain, the only task of a group."""
    if step["task"] == CHAIN:
        steps = [found for each in tasks_of(step) for found in steps_of(each)]
        more = NOTHING_MORE.within(step)
        for number, found in enumerate(steps, 1):
            first, last = number == 1, number == len(steps)
            given = replace(
                more if first else More(errbacks=more.errbacks), links=more.links if last else ()
            )
            yield found if given == NOTHING_MORE else given.applied_to(found)
    elif step["task"] == GROUP:
        tasks = list(tasks_of(step))
        if len(tasks) == 1:
            yield from steps_of(tasks[0])
        elif tasks:
            yield step
    else:
        yield step


def members_of(group: Signature, more: More) -> Iterator[tuple[Signature, More]]:
    """The tasks of a group, with those of groups among them, and what they get."""
    for task in tasks_of(group):
        if task["task"] == GROUP:
            yield from members_of(task, replace(more.within(task), links=()))
        else:
            yield task, more


def ends_as_group(canvas: Signature) -> bool:
    """Whether it is a group, or a chord or a chain that ends as one."""
    while canvas["task"] in (CHAIN, CHORD):
        if canvas["task"] == CHORD:
            canvas = canvas["kwargs"]["body"]
            continue
        steps = list(steps_of(canvas))
        if not steps:
            return False
        canvas = steps[-1]
    return bool(canvas["task"] == GROUP)


def holds_a_group(chain: Signature) -> bool:
    """Whether there is a group in a chain without tasks."""
    return chain["task"] == GROUP or (
        chain["task"] == CHAIN and any(map(holds_a_group, tasks_of(chain)))
    )


def immutable(link: Signature) -> Signature:
    """A link that gets no result: of a group or a chord, those of its tasks that start."""
    parts = link["kwargs"]
    if link["task"] == GROUP:
        parts = {**parts, "tasks": list(map(immutable, tasks_of(link)))}
    elif link["task"] == CHORD:
        header = parts["header"]
        fixed = immutable(header) if isinstance(header, Mapping) else list(map(immutable, header))
        parts = {**parts, "header": fixed}
    return {**link, "kwargs": parts, "immutable": True}


def anew(link: Signature) -> Signature:
    """A signature for one more task: without the id that it was given."""
    options = {name: value for name, value in link["options"].items() if name != "task_id"}
    return {**link, "options": options}


def reference(following: Signature) -> Any:
    """What a task of a header knows of what comes behind it."""
    task = following
    while task["task"] in (CHAIN, CHORD):
        tasks = task["kwargs"]["header"] if task["task"] == CHORD else list(tasks_of(task))
        if isinstance(tasks, Mapping) or not tasks:
            break
        task = tasks[0]
    return {"task": task["task"], "options": {"task_id": task["options"].get("task_id")}}


def _each_once(values: list[Any]) -> list[Any]:
    """Without those that are equal to one before. They are dicts: not hashable."""
    return [each for place, each in enumerate(values) if each not in values[:place]]


def listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]
