"""Workflows as programs build them: calls, and which of them wait for which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from taskmq.call import Call
from taskmq.checks import name_of, one_of
from taskmq.envelope import RunIf
from taskmq.errors import ConfigError
from taskmq.ids import new_id
from taskmq.tasks import Task

from .mapping import collect_call, map_call
from .node import Node, Slot, take_nodes

if TYPE_CHECKING:
    from taskmq.app import App

    from .run import WorkflowRun

__all__ = ["OnFailure", "Workflow"]

OnFailure = Literal["finish", "cancel", "continue"]
"""What the failure of a node means for the others, besides those that need its result: they are
run to their end; they are revoked; those that need it run too, with a `LostJob` in its place."""


class Workflow:
    """A graph of calls. Build it, then `submit` it, or nest it in another one.

    >>> flow = Workflow("thumbnails")
    >>> page = flow.add(fetch, url)
    >>> sizes = [flow.add(resize, page, width) for width in (100, 200)]
    >>> flow.add(publish, sizes)
    >>> flow.submit().get(timeout=60)

    A node among the arguments of a call makes it wait; what the node gives takes its place. A list
    of nodes is a list of what they give, in order. ``after=`` waits for order alone. The result of
    the workflow is that of its last node, the one that nothing waits for: if there are several, a
    list of theirs.

    All jobs are stored in one step, and what becomes ready is enqueued in the step that settles
    what it waited for. Raises `ConfigError` for what cannot be a workflow.
    """

    def __init__(self, name: str = "workflow", *, on_failure: OnFailure = "finish") -> None:
        name_of("Workflow.name", name)
        one_of("finish", "cancel", "continue")("Workflow.on_failure", on_failure)
        self.name = name
        self.on_failure: OnFailure = on_failure
        self.nodes: list[Node] = []
        self._members: set[Node] = set()
        self._names: set[str] = set()
        self._numbers: dict[str, int] = {}  # of the last one with a name
        self._result: Node | None = None

    def __repr__(self) -> str:
        return f"<workflow {self.name!r}, {len(self.nodes)} nodes>"

    # -- building ----------------------------------------------------------------------------

    def add(
        self,
        work: Task[..., Any] | Call[Any] | Workflow,
        *args: Any,
        after: Node | Iterable[Node] = (),
        name: str | None = None,
        run_if: RunIf | None = None,
        **kwargs: Any,
    ) -> Node:
        """A call, a task with its arguments, or a whole workflow, as a node; it waits for the
        nodes among its arguments and for those of ``after``. ``name`` is for people (the task's by
        default, with a number).

        >>> flow.add(resize, page, 100)
        >>> flow.add(resize.call(page, 100).options(queue="images"), after=warm_up)

        Of a nested workflow every node waits for ``after`` that would wait for nothing else.
        """
        waits = [after] if isinstance(after, Node) else list(after)
        if isinstance(work, Workflow):
            if args or kwargs or run_if is not None:
                raise ConfigError(
                    f"nested workflow {work.name!r} takes no arguments and no run_if: its own "
                    "nodes have them"
                )
            return self._nest(work, waits, name)
        return self._add_call(_call(work, args, kwargs), waits, name, run_if)

    def map(
        self, task: Any, over: Node | Iterable[Any], *, name: str | None = None, **options: Any
    ) -> list[Node] | Node:
        """Run a task for each of some values.

        ``over`` a list that is known: a node each, in a list. ``over`` a node: it gives the list
        when it runs; one node, whose result is the list of results. ``options`` as in
        `Call.options`.
        """
        if isinstance(over, Node):
            return self.add(map_call(task, over, options), name=name or f"map {task.name}")
        calls = [task.call(value) for value in over]
        if options:
            calls = [call.options(**options) for call in calls]
        return [self._add_call(call, (), name, None) for call in calls]

    def on_error(
        self,
        task: Task[..., Any],
        *args: Any,
        of: Node | Iterable[Node] = (),
        **kwargs: Any,
    ) -> Node:
        """Run a task if some of these nodes is lost (of all, if none is named), once all have
        ended. Its first argument is the list of the `LostJob` s, with their ids, errors and
        tracebacks; ``args`` and ``kwargs`` follow.

        >>> flow.on_error(alert, "#ops")
        """
        call = task.call([], *args, **kwargs)
        call = replace(call, args=call.args[1:])
        return self._see_to(call, of, "failed", losses=True)

    def finally_(
        self,
        work: Task[..., Any] | Call[Any],
        *args: Any,
        of: Node | Iterable[Node] = (),
        **kwargs: Any,
    ) -> Node:
        """Run a call, or a task with its arguments, once all of these nodes (all, if none is
        named) have ended, however.

        >>> flow.finally_(delete_folder, folder)
        """
        return self._see_to(_call(work, args, kwargs), of, "finished", losses=False)

    def returns(self, node: Node) -> None:
        """Let the workflow's result be that of a node, which others may wait for."""
        if node not in self._members:
            raise ConfigError(f"{node!r} is no node of workflow {self.name!r}")
        self._result = node

    # -- submitting --------------------------------------------------------------------------

    def submit(self, app: App | None = None) -> WorkflowRun:
        """Store all of its jobs, all or none, in one round trip. ``app`` is that of its tasks by
        default. Raises as `Task.submit` does."""
        from .run import store

        return store(self, app or self._app())

    async def asubmit(self, app: App | None = None) -> WorkflowRun:
        """`submit` for asyncio callers, through a thread."""
        import asyncio

        return await asyncio.to_thread(self.submit, app)

    def expand(self, workflow: str) -> tuple[list[Call[Any]], str]:
        """Its calls as a part of a workflow with this id, each with an id of its own; and the id
        of the job whose result is the workflow's. (`taskmq.call.Expandable`.)"""
        result = self.result_node()
        self._check_order()
        ids = {node: node.call.with_.id or new_id() for node in self.nodes}
        feeding = {slot.source for node in self.nodes for slot in node.slots} | {result}
        fail_fast = self.on_failure == "cancel"
        calls = []
        for node in self.nodes:
            call = node.call
            if call.with_.key is not None:
                raise ConfigError(
                    f"{node!r} has an idempotency key: jobs of a workflow cannot stand for others"
                )
            part: Call[Any] = Call(
                call.task,
                call.args,
                call.kwargs,
                call.with_,
                after=node.dependencies(ids),
                run_if=node.run_if,
                workflow=workflow,
                fail_fast=fail_fast and not node.sees_to,
                feeds=node in feeding,
                id=ids[node],
            )
            calls.append(part)
        return calls, ids[result]

    def result_node(self) -> Node:
        """The node whose result is the workflow's; of several last ones, one that collects
        theirs, which is added. Raises `ConfigError` for a workflow without nodes."""
        if self._result is not None:
            return self._result
        if not self.nodes:
            raise ConfigError(f"workflow {self.name!r} has no nodes")
        parts = [node for node in self.nodes if not node.sees_to] or self.nodes
        awaited = {slot.source for node in parts for slot in node.slots}
        ends = [node for node in parts if node not in awaited]
        if len(ends) > 1:
            self._result = self.add(collect_call(ends), name="results")
        else:
            self._result = ends[0]
        return self._result

    # -- inside ------------------------------------------------------------------------------

    def _add_call(
        self, call: Call[Any], waits: Sequence[Node], name: str | None, run_if: RunIf | None
    ) -> Node:
        call, slots = take_nodes(call)
        if waits:
            slots += [Slot(each) for each in waits]
        default: RunIf = "finished" if self.on_failure == "continue" and slots else "succeeded"
        return self._add(Node(self._name(name or call.task.name), call, slots, run_if or default))

    def _add(self, node: Node) -> Node:
        if node.slots and not self._members.issuperset(node.sources()):
            other = next(source for source in node.sources() if source not in self._members)
            raise ConfigError(f"{node!r} waits for {other!r}, which is of another workflow")
        self.nodes.append(node)
        self._members.add(node)
        self._result = None
        return node

    def _see_to(
        self, call: Call[Any], of: Node | Iterable[Node], run_if: RunIf, *, losses: bool
    ) -> Node:
        watched = [of] if isinstance(of, Node) else list(of)
        watched = watched or [node for node in self.nodes if not node.sees_to]
        if not watched:
            raise ConfigError(f"workflow {self.name!r} has no nodes to see to yet")
        own, slots = take_nodes(call)
        if losses:
            slots = [Slot(each, 0, collect=True) for each in watched] + slots
        else:
            slots += [Slot(each) for each in watched]
        return self._add(Node(self._name(call.task.name), own, slots, run_if, sees_to=True))

    def _nest(self, other: Workflow, waits: Sequence[Node], name: str | None) -> Node:
        result = other.result_node()
        prefix = self._name(name or other.name)
        for node in other.nodes:
            if not node.slots:
                node.slots = [Slot(each) for each in waits]
            node.name = f"{prefix}/{node.name}"
            self._names.add(node.name)
        self.nodes += other.nodes
        self._members |= other._members
        other.nodes, other._members = [], set()
        self._result = None
        return result

    def _name(self, wanted: str) -> str:
        number = self._numbers.get(wanted, 0) + 1
        name = wanted if number == 1 else f"{wanted} {number}"
        while name in self._names:
            number += 1
            name = f"{wanted} {number}"
        self._numbers[wanted] = number
        self._names.add(name)
        return name

    def _check_order(self) -> None:
        """Nodes are added after what they wait for, so that there is no cycle; except by hand."""
        seen: set[Node] = set()
        for node in self.nodes:
            if node.slots and not seen.issuperset(node.sources()):
                raise ConfigError(f"{node!r} waits for what comes behind it")
            seen.add(node)

    def _app(self) -> App:
        if not self.nodes:
            raise ConfigError(f"workflow {self.name!r} has no nodes")
        return self.nodes[0].call.task.app


def _call(work: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call[Any]:
    if isinstance(work, Task):
        return work.call(*args, **kwargs)
    if not isinstance(work, Call):
        raise ConfigError(
            f"a node is a task with its arguments, a call or a workflow, not {work!r}: "
            "flow.add(task, 1), flow.add(task.call(1)) or flow.add(workflow)"
        )
    if args or kwargs:
        raise ConfigError(
            f"arguments of {work.task.name!r} stand twice: put them into the call, or pass the "
            "task instead of a call"
        )
    return work
