"""A canvas as one workflow of the engine: every task in it becomes a job of the same batch.

A job waits for those before it (`taskmq.Dependency`), and gets what they return as its first
argument: one value in a chain, the list of them all behind a group. The engine starts it in the
step that settles the last of them; if one fails, it is skipped, with everything behind it.

What is no task of the user's, where it is needed:

* a *gathering* job between two wide groups, and where a list is one item of another: it returns
  the list that it gets;
* an *errbacks* job beside a task behind a group, if that task has error callbacks: it runs when
  the group has failed, since the task itself does not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kombu.utils.uuid import uuid

import taskmq
from taskmq import Dependency
from taskmq.builtin import COLLECT
from taskmq.call import Options
from taskmq.states import TERMINAL

from .codec import codec_name
from .engine import ERRBACKS_TASK, engine_for, job_named, translated
from .message import ABOVE, CHILDREN, JOINED, JOINS, SPREAD, WITHIN, Message, call_of, with_id

__all__ = ["Graph", "More", "Place", "ids_of", "make_room", "ttl_of"]

Signature = Any
"""A dict with the keys task, args, kwargs, options, immutable."""

CHAIN, GROUP, CHORD = "celery.chain", "celery.group", "celery.chord"
SLOW = 0.1
"""Seconds for a task, from which on a generator takes its time."""
UNREACHED = 3600.0
"""Seconds for which a job without a result is kept that had to wait for others."""
WIDE = 64
"""Edges between two groups from which on a gathering job between them costs less."""


class One(NamedTuple):
    """The end of a part of a canvas: a task."""

    job: str


class Many(NamedTuple):
    """The end of a part of a canvas: the tasks of a group, and its id."""

    group: str
    ends: tuple[One | Many, ...]
    behind: tuple[str, ...] = ()
    """Of a group without tasks, the jobs that what comes next waits for instead."""


End = One | Many


@dataclass(frozen=True, slots=True)
class Source:
    """What a task waits for."""

    end: End
    joins: bool = False
    """Whether that is a group: then what is lost there is a `ChordError` here."""
    spread: bool = False
    """Whether what waits is a group as well: then its tasks have the error of the lost one."""
    before: tuple[str, ...] = ()
    """Jobs that had to succeed for the group to start: if one of these is lost, the group did not
    fail, it never was."""
    needed: tuple[str, ...] = ()
    """Behind a header without tasks, the jobs that had to succeed for the group before to start."""
    in_order: bool = False
    """Whether nothing is handed over."""
    within: bool = False
    """Whether a group that waits for one is around all of this: where the header before never
    started, it is the error of what kept that group from running."""

    @classmethod
    def of(cls, end: End, above: Source | None) -> Source:
        """The end of what comes behind ``above``."""
        if isinstance(end, One):
            return cls(end)
        before = () if above is None else _leaves(above.end)
        return cls(end, joins=True, before=end.behind or before)


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
                options[name] = _each_once([*_listed(options.get(name)), *added])
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
            links=(*_listed(own.get("link")), *self.links),
            errbacks=(*_listed(own.get("link_error")), *self.errbacks),
        )


NOT_PASSED = frozenset(
    {
        *("task_id", "link", "link_error", "chain", "chord", "group_id", "group_index"),
        *("root_id", "parent_id", "producer", "connection", "interval", "max_retries"),
    }
)
"""Options of a canvas that its parts do not get."""

NOTHING_MORE = More()


class Node(NamedTuple):
    """One job of the workflow. ``message`` is the task; of a gathering or an errbacks job, the
    task that it is there for."""

    id: str
    message: Message
    after: tuple[Dependency, ...] = ()
    kind: str = "task"
    before: tuple[str, ...] = ()
    told: Mapping[str, list[int]] = {}
    """Of an errbacks job: which of them chords in the group have, by the jobs of their bodies."""


Build = Callable[[Signature, Place], Message]
Start = Callable[["Graph", Signature, Place], str]


class Graph:
    """The jobs that are to be stored in one step.

    ``build(signature, place)`` makes the message of a task that waits for others.
    ``start(graph, signature, place)`` is for a task that waits for none: it sees to it that `head`
    is called, and gives the id. ``taken`` are ids of jobs that exist: a task that has such an id
    becomes another job.
    """

    def __init__(
        self,
        build: Build,
        start: Start,
        *,
        errbacks_on_header: bool = False,
        taken: frozenset[str] = frozenset(),
    ) -> None:
        self.nodes: list[Node] = []
        self.renamed: dict[str, str] = {}
        """Ids that tasks were to have, and have not."""
        self.end: End | None = None
        """Of the signature that it was made for."""
        self.on_slow: Callable[[], None] | None = None
        """Called where a generator of tasks takes its time: what is there may be stored now."""
        self._taken = taken
        self._stored = 0
        self._build = build
        self._start = start
        self._errbacks_on_header = errbacks_on_header
        self._messages: dict[str, Message] = {}
        self._jobs: dict[str, str] = {}  # by the id of the task
        self._children: defaultdict[str, list[Any]] = defaultdict(list)
        self._gathered: dict[Many, str] = {}

    @property
    def messages(self) -> list[Message]:
        """Of the tasks that are not stored yet."""
        return [node.message for node in self.nodes[self._stored :] if node.kind == "task"]

    @property
    def is_stored(self) -> bool:
        """Whether there is nothing that is not stored yet."""
        return self._stored == len(self.nodes)

    # -- growing -----------------------------------------------------------------------------

    def head(self, message: Message, links: Iterable[Signature], chain: Sequence[Any]) -> Message:
        """Add a task that waits for none, with what is linked to it and what is to follow."""
        message = self._add(message)
        source = Source(One(message.id))
        for link in links:
            self.grow(link, source)
        if chain:
            self._follow(list(chain), source, Place(), NOTHING_MORE)
        return message

    def grow(
        self,
        signature: Signature,
        source: Source | None = None,
        place: Place = Place(),  # immutable
        more: More = NOTHING_MORE,
        *,
        adopt: bool = True,
    ) -> End | None:
        """Add all tasks of a signature; gives its end, ``None`` for an empty canvas.

        ``adopt``: what starts it is to have it among its children.
        """
        grow = {CHAIN: self._chain, GROUP: self._group, CHORD: self._chord}.get(signature["task"])
        if grow is None:
            return self._task(signature, source, place, more, adopt)
        return grow(signature, source, place, more, adopt)

    def _task(
        self, signature: Signature, source: Source | None, place: Place, more: More, adopt: bool
    ) -> End:
        signature = more.applied_to(signature)
        nothing = None if source is None else _nothing(source.end)
        if source is not None and nothing is not None:
            # A chord without a header: there is nothing to collect.
            if not signature.get("immutable"):
                signature["args"] = (nothing, *signature["args"])
            above = Many("", tuple(One(job) for job in source.before))
            source = Source(above, in_order=True) if source.before else None
        if source is None:
            return One(self._start_task(signature, place))
        return self._waiting_task(signature, source, place, adopt)

    def _start_task(self, signature: Signature, place: Place) -> str:
        wanted = signature["options"].get("task_id")
        job = self._start(self, signature, place)
        if wanted and wanted != job:
            self.renamed[wanted] = job
        return self._jobs.get(job, job)

    def _waiting_task(self, signature: Signature, source: Source, place: Place, adopt: bool) -> End:
        awaited = self._awaited(source.end)
        message = self._build(signature, self._below(source.end, place))
        if source.in_order or signature.get("immutable"):
            after = tuple(Dependency(job) for job in awaited)
        else:
            many = isinstance(source.end, Many)
            after = tuple(Dependency(job, 0, collect=many) for job in awaited)
        if source.joins:
            joins = SPREAD if source.spread else WITHIN if source.within else JOINED
            message = message.with_header(JOINS, joins)
            if len(source.before) == 1:
                message = message.with_header(ABOVE, source.before[0])
        message = self._add(message, after)
        end = One(message.id)
        if adopt:
            self._adopt(source, end)
        if message.errbacks and source.joins:
            beside = tuple(Dependency(job) for job in dict.fromkeys((*awaited, *source.before)))
            told = self._told_already(message, awaited)
            self.nodes.append(Node(uuid(), message, beside, "errbacks", source.before, told))
        for link in _listed(signature["options"].get("link")):
            self.grow(link, Source(end))
        return end

    def _told_already(self, message: Message, awaited: Iterable[str]) -> dict[str, list[int]]:
        """Which error callbacks of a task behind a group are those of bodies in the group, too."""
        told: dict[str, list[int]] = {}
        for job in awaited:
            body = self._messages.get(job)
            if body is None or body.id != job or JOINS not in body.headers or not body.errbacks:
                continue
            same = [n for n, each in enumerate(message.errbacks) if each in body.errbacks]
            if same:
                told[job] = same
        return told

    def _chain(
        self, signature: Signature, source: Source | None, place: Place, more: More, adopt: bool
    ) -> End | None:
        steps = [step for each in _tasks(signature) for step in _flat(each)]
        more = more.within(signature)
        return self._follow(steps, source, place, more, adopt=adopt)

    def _follow(
        self,
        steps: list[Signature],
        source: Source | None,
        place: Place,
        more: More,
        *,
        adopt: bool = True,
    ) -> End | None:
        """Add steps that run one after the other."""
        end: End | None = None
        for number, step in enumerate(steps, 1):
            last = number == len(steps)
            given = replace(
                more if number == 1 else More(errbacks=more.errbacks),
                links=more.links if last else (),
            )
            here = place if last else Place(root_id=place.root_id, parent_id=place.parent_id)
            if not last and step["task"] == GROUP:
                here = replace(here, chord=_reference(steps[number]))
            if step["task"] == GROUP:
                if number == 1 or steps[number - 2]["task"] != GROUP:  # else as of a chord's body
                    given = replace(given, links=(), for_each=given.links)
                if not last and not self._errbacks_on_header:
                    given = replace(given, errbacks=())
            found = self.grow(step, source, here, given, adopt=adopt or number > 1)
            if found is not None:
                source, end = Source.of(found, source), found
        return end

    def _group(
        self, signature: Signature, source: Source | None, place: Place, more: More, adopt: bool
    ) -> End:
        for_each, more = more.for_each, more.within(signature)
        links, more = more.links, replace(more, links=())
        group = signature["options"].get("task_id") or uuid()
        if source is not None and source.joins:
            source = replace(source, spread=True)
        ends: list[End] = []
        members = _members(signature, more)
        if source is not None and isinstance(source.end, Many):
            found = list(members)
            source = self._narrowed(source, len(found))
            members = iter(found)
        tasks = signature["kwargs"].get("tasks")
        for member, given in members:
            here = replace(place, group_id=group, group_index=len(ends))
            if links and not ends:  # the first task stands for all, as in `group.link`
                given = replace(given, links=tuple(map(_immutable, links)))
            if for_each:
                given = replace(given, links=(*given.links, *for_each))
                for_each = tuple(map(_anew, for_each))
            end = self.grow(member, source, here, given, adopt=False)
            if end is None and _holds_a_group(member):
                end = Many(uuid(), ())  # it has a place in what is frozen, and gives a list
            if end is not None:
                ends.append(end)
            if self.on_slow is not None and getattr(tasks, "pace", 0.0) > SLOW:
                self.on_slow()
        whole = Many(group, tuple(ends))
        if adopt and source is not None:
            self._adopt(source, whole)
        return whole

    def _chord(
        self, signature: Signature, source: Source | None, place: Place, more: More, adopt: bool
    ) -> End | None:
        parts, body = signature["kwargs"], signature["kwargs"]["body"]
        more = more.within(signature)
        header = parts["header"]
        if not isinstance(header, Mapping):
            header = {"task": GROUP, "args": (), "kwargs": {"tasks": header}, "options": {}}
        given = replace(
            more,
            kwargs={**(parts.get("kwargs") or {}), **more.kwargs},
            links=(),
            errbacks=more.errbacks if self._errbacks_on_header else (),
        )
        above = Place(root_id=place.root_id, parent_id=place.parent_id, chord=_reference(body))
        end = self._group(header, source, above, given, adopt)
        behind = replace(more, args=(), kwargs={})
        behind_header = Source.of(end, source)
        if _leaves(end) and source is not None and source.joins and not self._errbacks_on_header:
            # Nobody has called back for the group above: its error is the body's affair.
            before = source.needed or source.before
            behind_header = replace(behind_header, before=before, within=source.spread)
        elif source is not None and source.joins and not _leaves(end):
            behind_header = replace(behind_header, needed=source.before)
        found = self.grow(body, behind_header, place, behind)
        if isinstance(found, Many) and not found.ends:
            found = found._replace(behind=_leaves(end))
        return end if found is None else found

    # -- edges -------------------------------------------------------------------------------

    def _add(self, message: Message, after: tuple[Dependency, ...] = ()) -> Message:
        task_id = message.id
        if task_id in self._taken:
            message = with_id(message, uuid())
        self._jobs[task_id] = message.id
        self._messages[message.id] = message
        self.nodes.append(Node(message.id, message, after))
        return message

    def _awaited(self, end: End) -> list[str]:
        """The jobs to wait for: of a group, one for each member."""
        if isinstance(end, One):
            return [end.job]
        return [one.job if isinstance(one, One) else self._gather(one) for one in end.ends]

    def _gather(self, end: Many) -> str:
        """A job that returns the list of what the members of a group return."""
        job = self._gathered.get(end)
        if job is None:
            after = tuple(Dependency(one, 0, collect=True) for one in self._awaited(end))
            after += tuple(map(Dependency, end.behind))
            job = self._gathered[end] = uuid()
            self._messages[job] = self._last(end) or self.nodes[-1].message
            self.nodes.append(Node(job, self._messages[job], after, "gather"))
        return job

    def _narrowed(self, source: Source, members: int) -> Source:
        """A source that so many tasks can wait for."""
        end = source.end
        if isinstance(end, One) or members * len(end.ends) < WIDE or members < 2:
            return source
        return replace(source, end=One(self._gather(end)))

    def _last(self, end: End) -> Message | None:
        """The last task of an end; ``None`` where an ``apply_async`` of the user's gave the id of
        something else."""
        known = [self._messages[job] for job in _waited_for(end) if job in self._messages]
        return known[-1] if known else None

    def _below(self, end: End, place: Place) -> Place:
        """With the ids of what comes before; behind a group, that is the last of its tasks."""
        above = self._last(end)
        parent = _waited_for(end)[-1] if above is None else above.headers["id"]
        root = parent if above is None else above.headers.get("root_id") or parent
        return replace(place, root_id=place.root_id or root, parent_id=place.parent_id or parent)

    def _adopt(self, source: Source, end: End) -> None:
        if isinstance(source.end, One) and not source.joins:
            self._children[source.end.job].append(_as_tuple(end))

    # -- as calls ----------------------------------------------------------------------------

    def calls(
        self,
        app: Any,
        engine: taskmq.App,
        workflow: str | None = None,
        *,
        unfinished: bool = False,
    ) -> list[taskmq.Call[Any]]:
        """The jobs, as the engine is told of them; each is given once. As part of a ``workflow``
        that exists, the end is awaited by somebody there. If it is ``unfinished``, any job may be
        awaited by one to come."""
        root = workflow or self.nodes[0].id
        nodes = self.nodes[self._stored :]
        self._stored = len(self.nodes)
        feeding = {one.job for node in nodes for one in node.after if one.into is not None}
        awaited = {one.job for node in nodes for one in node.after}
        if workflow is not None and isinstance(self.end, One):
            feeding.add(self.end.job)
            awaited.add(self.end.job)
        if unfinished:
            feeding = awaited = {node.id for node in nodes}
        calls = []
        for node in nodes:
            feeds = node.id in feeding
            if node.kind != "task":
                calls.append(self._other(app, engine, node, root, feeds=feeds))
                continue
            message = node.message
            if node.id in self._children:
                message = message.with_header(CHILDREN, self._children[node.id])
            calls.append(
                call_of(
                    job_named(app, engine, message.task),
                    message,
                    after=node.after,
                    feeds=feeds,
                    workflow=root,
                    # What comes next counts its delay from the end of this one, and tells why it
                    # did not run: both have to be known then.
                    result_ttl=None if node.id in awaited else ttl_of(engine, message, node),
                )
            )
        return calls

    def _other(
        self, app: Any, engine: taskmq.App, node: Node, root: str, *, feeds: bool
    ) -> taskmq.Call[Any]:
        message = node.message
        options = Options(
            id=node.id,
            queue=message.queue,
            priority=message.priority,
            codec=codec_name(message.serializer),
            headers={JOINS: SPREAD} if node.kind == "gather" else None,
        )
        if node.kind == "gather":
            job = job_named(app, engine, COLLECT)
            collects = any(one.into is not None for one in node.after)
            arguments: tuple[Any, ...] = () if collects else ([],)  # of a group without tasks
            return taskmq.Call(job, arguments, {}, options, node.after, feeds=feeds, workflow=root)
        job = job_named(app, engine, ERRBACKS_TASK)
        return taskmq.Call(
            job,
            (
                *(message.as_request(), list(node.before), message.headers[JOINS]),
                *([dict(node.told)] if node.told else ()),
            ),
            {},
            replace(options, store_result=False, result_ttl=0.0),
            node.after,
            run_if="failed",
            workflow=root,
        )


def make_room(app: Any, ids: Iterable[str]) -> frozenset[str]:
    """See to it that these ids can be used once more: jobs that are finished are deleted. Gives
    the ids of those that are not."""
    wanted = list(ids)
    if not wanted:
        return frozenset()
    with translated():
        store = engine_for(app).transport
        found = [one for one in store.get(wanted) if one is not None]
        done = [one.id for one in found if one.state in TERMINAL]
        if done:
            store.forget(done)
            store.bury(done)
    return frozenset(one.id for one in found if one.state not in TERMINAL)


def ids_of(signature: Signature) -> Iterator[str]:
    """The ids that tasks of a canvas, and what is linked to them, have already."""
    options = signature["options"]
    if signature["task"] == CHORD:
        header, body = signature["kwargs"]["header"], signature["kwargs"]["body"]
        parts = [*([header] if isinstance(header, Mapping) else header), body]
    elif signature["task"] in (CHAIN, GROUP):
        parts = list(_tasks(signature))
    else:
        parts = []
        if options.get("task_id"):
            yield options["task_id"]
    for part in (*parts, *_listed(options.get("link"))):
        yield from ids_of(part)


def ttl_of(engine: taskmq.App, message: Message, node: Node | None = None) -> float | None:
    """Nobody can ask for a result that is not stored: forget the job once it has succeeded. That
    one did not run, because of those before it, is to be known."""
    stored = engine.config.store_results if message.store_result is None else message.store_result
    if stored:
        return None
    return min(UNREACHED, engine.config.result_ttl) if node is not None and node.after else 0.0


# -- reading signatures --------------------------------------------------------------------------


def _tasks(canvas: Signature) -> Iterable[Signature]:
    tasks = canvas["kwargs"].get("tasks")
    return () if tasks is None else [tasks] if isinstance(tasks, Mapping) else tasks


def _flat(step: Signature) -> Iterator[Signature]:
    """The steps that a step of a chain stands for: those of a chain, the only task of a group."""
    if step["task"] == CHAIN:
        steps = [found for each in _tasks(step) for found in _flat(each)]
        more = NOTHING_MORE.within(step)
        for number, found in enumerate(steps, 1):
            first, last = number == 1, number == len(steps)
            given = replace(
                more if first else More(errbacks=more.errbacks), links=more.links if last else ()
            )
            yield found if given == NOTHING_MORE else given.applied_to(found)
    elif step["task"] == GROUP:
        tasks = list(_tasks(step))
        if len(tasks) == 1:
            yield from _flat(tasks[0])
        elif tasks:
            yield step
    else:
        yield step


def _members(group: Signature, more: More) -> Iterator[tuple[Signature, More]]:
    """The tasks of a group, with those of groups among them, and what they get."""
    for task in _tasks(group):
        if task["task"] == GROUP:
            yield from _members(task, replace(more.within(task), links=()))
        else:
            yield task, more


def _holds_a_group(chain: Signature) -> bool:
    """Whether there is a group in a chain without tasks."""
    return chain["task"] == GROUP or (
        chain["task"] == CHAIN and any(map(_holds_a_group, _tasks(chain)))
    )


def _immutable(link: Signature) -> Signature:
    """A link that gets no result: of a group or a chord, those of its tasks that start."""
    parts = link["kwargs"]
    if link["task"] == GROUP:
        parts = {**parts, "tasks": list(map(_immutable, _tasks(link)))}
    elif link["task"] == CHORD:
        header = parts["header"]
        fixed = _immutable(header) if isinstance(header, Mapping) else list(map(_immutable, header))
        parts = {**parts, "header": fixed}
    return {**link, "kwargs": parts, "immutable": True}


def _anew(link: Signature) -> Signature:
    """A signature for one more task: without the id that it was given."""
    options = {name: value for name, value in link["options"].items() if name != "task_id"}
    return {**link, "options": options}


def _reference(following: Signature) -> Any:
    """What a task of a header knows of what comes behind it."""
    task = following
    while task["task"] in (CHAIN, CHORD):
        tasks = task["kwargs"]["header"] if task["task"] == CHORD else list(_tasks(task))
        if isinstance(tasks, Mapping) or not tasks:
            break
        task = tasks[0]
    return {"task": task["task"], "options": {"task_id": task["options"].get("task_id")}}


def _leaves(end: End) -> tuple[str, ...]:
    if isinstance(end, One):
        return (end.job,)
    return tuple(leaf for one in end.ends for leaf in _leaves(one))


def _waited_for(end: End) -> tuple[str, ...]:
    """Its tasks; of a group without any, what comes next waits for others."""
    if isinstance(end, One):
        return (end.job,)
    return _leaves(end) or (*end.behind, *(job for one in end.ends for job in _waited_for(one)))


def _nothing(end: End) -> list[Any] | None:
    """What a group without tasks gives, or one of such groups that wait for nothing."""
    if isinstance(end, One) or (end.ends and end.behind):
        return None
    found = [_nothing(one) for one in end.ends]
    waiting = any(isinstance(one, Many) and one.behind for one in end.ends)
    return None if waiting or None in found else found


def _as_tuple(end: End) -> Any:
    """As `celery.result.result_from_tuple` reads it."""
    if isinstance(end, One):
        return [[end.job, None], None]
    return [[end.group, None], [_as_tuple(one) for one in end.ends]]


def _each_once(values: list[Any]) -> list[Any]:
    """Without those that are equal to one before. They are dicts: not hashable."""
    return [each for place, each in enumerate(values) if each not in values[:place]]


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]
