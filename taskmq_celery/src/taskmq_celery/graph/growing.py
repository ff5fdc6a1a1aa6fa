"""A canvas that grows, task by task, into the jobs of one workflow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kombu.utils.uuid import uuid

import taskmq
from taskmq import Dependency
from taskmq_celery.message import ABOVE, JOINED, JOINS, SPREAD, WITHIN, Message, with_id

from .ends import End, Many, One, Source, as_tuple, leaves, nothing_of, waited_for
from .nodes import Node, calls_of
from .reading import (
    CHAIN,
    CHORD,
    GROUP,
    NOTHING_MORE,
    NOWHERE,
    More,
    Place,
    Signature,
    anew,
    ends_as_group,
    holds_a_group,
    immutable,
    listed,
    members_of,
    reference,
    steps_of,
    tasks_of,
)

__all__ = ["Graph"]

SLOW = 0.1
"""Seconds for a task, from which on a generator takes its time."""
WIDE = 64
"""Edges between two groups from which on a gathering job between them costs less."""

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
        self._telling: defaultdict[str, list[int]] = defaultdict(list)
        """Which errbacks jobs are about what a job ends."""

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
            self._follow(list(chain), source, NOWHERE, NOTHING_MORE)
        return message

    def grow(
        self,
        signature: Signature,
        source: Source | None = None,
        place: Place = NOWHERE,
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
        nothing = None if source is None else nothing_of(source.end)
        if source is not None and nothing is not None:
            # A chord without a header: there is nothing to collect.
            if not signature.get("immutable"):
                signature["args"] = (nothing, *signature["args"])
            above = Many("", tuple(map(One, source.before)))
            source = source.without_header(above) if above.ends else None
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
            self._telling[message.id].append(len(self.nodes))
            self.nodes.append(
                Node(
                    uuid(), message, beside, "errbacks", source.before, told, message.headers["id"]
                )
            )
        for link in listed(signature["options"].get("link")):
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
        steps = [step for each in tasks_of(signature) for step in steps_of(each)]
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
        behind: End | None = None
        for number, step in enumerate(steps, 1):
            last = number == len(steps)
            given = replace(
                more if number == 1 else More(errbacks=more.errbacks),
                links=more.links if last else (),
            )
            here = place if last else Place(root_id=place.root_id, parent_id=place.parent_id)
            if not last and ends_as_group(step):
                here = replace(here, chord=reference(steps[number]))
            if step["task"] == GROUP:
                if number == 1 or steps[number - 2]["task"] != GROUP:  # else as of a chord's body
                    given = replace(given, links=(), for_each=given.links)
                if not last and not self._errbacks_on_header:
                    given = replace(given, errbacks=())
            found = self.grow(step, source, here, given, adopt=adopt or number > 1)
            if found is not None:
                source, end = Source.of(found), found
                if number == 1 or (number == 2 and steps[0]["task"] == GROUP):
                    behind = found
        if isinstance(behind, One) and isinstance(end, One):
            self._tell_of(end.job, behind.job)
        return end

    def _tell_of(self, end: str, body: str) -> None:
        """Error callbacks of a chord's body are told of the task that ends its chain, the one that
        programs have the result of."""
        places = self._telling.pop(body, [])
        for place in places:
            name = self._messages[end].headers["id"]
            self.nodes[place] = self.nodes[place]._replace(about=name)
        self._telling[end] += places

    def _group(
        self, signature: Signature, source: Source | None, place: Place, more: More, adopt: bool
    ) -> End:
        for_each, more = more.for_each, more.within(signature)
        links, more = more.links, replace(more, links=())
        group = signature["options"].get("task_id") or uuid()
        before = () if source is None else leaves(source.end) or source.before
        if source is not None and source.joins:
            source = replace(source, spread=True)
        ends: list[End] = []
        members = members_of(signature, more)
        if source is not None and isinstance(source.end, Many):
            found = list(members)
            source = self._narrowed(source, len(found))
            members = iter(found)
        tasks = signature["kwargs"].get("tasks")
        for member, given in members:
            here = replace(place, group_id=group, group_index=len(ends))
            if links and not ends:  # the first task stands for all, as in `group.link`
                given = replace(given, links=tuple(map(immutable, links)))
            if for_each:
                given = replace(given, links=(*given.links, *for_each))
                for_each = tuple(map(anew, for_each))
            end = self.grow(member, source, here, given, adopt=False)
            if end is None and holds_a_group(member):
                end = Many(uuid(), ())  # it has a place in what is frozen, and gives a list
            if end is not None:
                ends.append(end)
            if self.on_slow is not None and getattr(tasks, "pace", 0.0) > SLOW:
                self.on_slow()
        whole = Many(group, tuple(ends), before=before)
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
        above = Place(root_id=place.root_id, parent_id=place.parent_id, chord=reference(body))
        end = self._group(header, source, above, given, adopt)
        behind = replace(more, args=(), kwargs={})
        behind_header = Source.of(end)
        if leaves(end) and source is not None and source.joins and not self._errbacks_on_header:
            # Nobody has called back for the group above: its error is the body's affair.
            before = source.needed or source.before
            behind_header = replace(behind_header, before=before, within=source.spread)
        elif source is not None and source.joins and not leaves(end):
            first = bool(leaves(source.end))  # else there was such a header before
            behind_header = replace(
                behind_header,
                needed=source.before if first else source.needed,
                behind_group=first or source.behind_group,
                spread=source.spread,
            )
        found = self.grow(body, behind_header, place, behind)
        if isinstance(found, Many) and not found.ends:
            found = found._replace(behind=leaves(end))
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
        known = [self._messages[job] for job in waited_for(end) if job in self._messages]
        return known[-1] if known else None

    def _below(self, end: End, place: Place) -> Place:
        """With the ids of what comes before; behind a group, that is the last of its tasks."""
        above = self._last(end)
        parent = waited_for(end)[-1] if above is None else above.headers["id"]
        root = parent if above is None else above.headers.get("root_id") or parent
        return replace(place, root_id=place.root_id or root, parent_id=place.parent_id or parent)

    def _adopt(self, source: Source, end: End) -> None:
        if isinstance(source.end, One) and not source.joins:
            self._children[source.end.job].append(as_tuple(end))

    # -- storing -----------------------------------------------------------------------------

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
        nodes = self.nodes[self._stored :]
        self._stored = len(self.nodes)
        end = [self.end.job] if workflow is not None and isinstance(self.end, One) else []
        return calls_of(
            app,
            engine,
            nodes,
            workflow=workflow or self.nodes[0].id,
            children=self._children,
            awaited=None if unfinished else end,
        )
