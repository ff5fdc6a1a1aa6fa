"""Workflows as data: random ones, what a sequential interpreter makes of them, and how the engine
is told to run them."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from taskmq import App, Retry, current_task
from taskmq.builtin import COLLECT, MAP
from taskmq.records import LostJob
from taskmq.workflow import Node, OnFailure, Workflow

__all__ = ["Ended", "Graph", "Interpreter", "Shape", "Step", "build", "define"]

ATTEMPTS = 3
MANY = 100_000

# -- what a workflow is to do ----------------------------------------------------------------------


class Step(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A node: what it waits for (places in the graph), and how it goes."""

    name: str
    direct: list[int] = []
    """Results that are arguments."""
    collected: list[int] = []
    """Results that arrive as a list."""
    order: list[int] = []
    run_if: str = "succeeded"
    failures: int = 0
    """Attempts that fail; three are all there are."""
    deaths: int = 0
    """Deliveries that end with the death of the worker, after the effect."""
    replaced_by: list[Step] = []
    """A graph whose last node gives the result."""
    extended_by: list[Step] = []
    """Members, which wait for nothing."""
    items: int = 0
    """Gives a list of so many, which the node ``map`` behind it maps."""
    mapped: bool = False

    def sources(self) -> list[int]:
        return list(dict.fromkeys(self.direct + self.collected + self.order))


Graph = list[Step]


class Shape:
    """Draws graphs."""

    def __init__(self, seed: int, on_failure: OnFailure) -> None:
        self.random = random.Random(seed)
        self.on_failure = on_failure

    def graph(self, name: str, depth: int, width: int, nesting: int) -> Graph:
        steps: Graph = []
        for level in range(depth):
            above = len(steps)
            for number in range(self.random.randint(1, width)):
                steps += self._steps(f"{name}{level}.{number}", steps, above, nesting)
        return steps

    def _steps(self, name: str, steps: Graph, above: int, nesting: int) -> Graph:
        chance = self.random.random
        if chance() < 0.05:
            place = len(steps)
            listing = Step(name=f"{name}l", items=self.random.randint(0, 5))
            return [listing, Step(name=f"{name}m", direct=[place], mapped=True)]
        step = Step(name=name)
        for source in self._some(range(above), 4):
            self.random.choice([step.direct, step.collected, step.order]).append(source)
        if step.sources() and chance() < 0.15:
            step.run_if = self.random.choice(["finished", "failed"])
        if chance() < 0.25:
            step.failures = self.random.choice([1, 2, ATTEMPTS])
        if chance() < 0.1:
            step.deaths = self.random.randint(1, 2)
        if nesting and chance() < 0.15:
            step.replaced_by = self.graph(f"{name}r", self.random.randint(1, 2), 3, nesting - 1)
        elif chance() < 0.1:
            step.extended_by = self._members(f"{name}e", 3)
        return [step]

    def _members(self, name: str, generations: int) -> Graph:
        members = []
        for number in range(self.random.randint(1, 3)):
            member = Step(name=f"{name}{number}")
            if self.random.random() < 0.1:
                member.failures = ATTEMPTS
            if generations and self.random.random() < 0.3:
                member.extended_by = self._members(f"{member.name}e", generations - 1)
            members.append(member)
        return members

    def _some(self, places: Sequence[int], most: int) -> list[int]:
        count = min(len(places), self.random.randint(0, most))
        return self.random.sample(places, count)


# -- the interpreter -------------------------------------------------------------------------------


class Ended(msgspec.Struct):
    """How a node went. ``members`` are what whoever waits for it waits for besides."""

    state: str
    value: Any = None
    reason: str = ""
    members: list[Ended] = []

    @property
    def is_lost(self) -> bool:
        return self.state != "SUCCEEDED"

    def told(self) -> Any:
        return ["lost", self.state, self.reason] if self.is_lost else self.value


class Interpreter:
    """Runs a graph from the first node to the last one."""

    def __init__(self, on_failure: OnFailure) -> None:
        self.on_failure = on_failure
        self.effects: set[str] = set()

    def run(self, graph: Graph, on_failure: OnFailure | None = None) -> list[Ended]:
        ended: list[Ended] = []
        for step in graph:
            sources = [ended[place] for place in step.sources()]
            ended.append(self._step(step, ended, sources, on_failure or self.on_failure))
        return ended

    def _step(
        self, step: Step, ended: list[Ended], sources: list[Ended], on_failure: OnFailure
    ) -> Ended:
        every = [*sources, *(member for source in sources for member in _all_members(source))]
        lost = [each for each in every if each.is_lost]
        run_if = step.run_if
        if run_if == "succeeded" and on_failure == "continue" and sources:
            run_if = "finished"
        if (run_if == "succeeded" and lost) or (run_if == "failed" and not lost):
            return Ended("SKIPPED")
        if step.mapped:
            values = [self._item(value) for value in ended[step.direct[0]].value]
            return Ended("SUCCEEDED", values)
        heard = [ended[place].told() for place in step.direct]
        chosen = [ended[p] for p in step.collected if run_if != "failed" or ended[p].is_lost]
        if step.collected:
            known = [ended[place] for place in step.sources()]
            more = [m for source in known for m in _all_members(source)]
            chosen += [each for each in more if run_if != "failed" or each.is_lost]
        return self._alone(step, heard, [each.told() for each in chosen])

    def _alone(self, step: Step, heard: list[Any], collected: list[Any]) -> Ended:
        self.effects.add(step.name)
        if step.failures >= ATTEMPTS:
            return Ended("FAILED", reason="max_attempts")
        if step.items:
            return Ended("SUCCEEDED", [digest(step.name, [n], []) for n in range(step.items)])
        if step.name.endswith("l"):
            return Ended("SUCCEEDED", [])
        if step.replaced_by:
            last = self.run(step.replaced_by, "finish")[-1]
            if last.is_lost:
                return Ended("SKIPPED")
            return Ended("SUCCEEDED", last.value, members=last.members)
        members = [self._alone(member, [], []) for member in step.extended_by]
        return Ended("SUCCEEDED", digest(step.name, heard, collected), members=members)

    def _item(self, value: str) -> str:
        self.effects.add(value)
        return digest(value, [], [])


def _all_members(ended: Ended) -> list[Ended]:
    return [each for member in ended.members for each in (member, *_all_members(member))]


def digest(name: str, heard: Sequence[Any], collected: Sequence[Any]) -> str:
    """Of everything that a node was told. What was collected counts in any order: that of members
    is not known beforehand."""
    text = json.dumps([name, list(heard), sorted(map(json.dumps, collected))])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


# -- the engine ------------------------------------------------------------------------------------


def define(app: App, note: Callable[[str], None], die: Callable[[str], None]) -> None:
    """Give an app the tasks that do what a description says. ``note`` is their effect; ``die`` ends
    the worker."""
    for name in (MAP, COLLECT):  # many a worker dies with jobs that it only held
        task = app.tasks[name]
        task.policy = replace(task.policy, max_deliveries=MANY)
    retry = Retry(max_attempts=ATTEMPTS, base=0.0, jitter=False)

    @app.task(name="step", retry=retry, max_deliveries=MANY)
    def step(description: Any, *heard: Any, collected: Any = ()) -> Any:
        context, step = current_task(), msgspec.convert(description, Step)
        note(step.name)
        if context.reclaims < step.deaths:
            die(step.name)
        if context.attempt <= step.failures:
            raise ValueError(step.name)
        if step.items or step.name.endswith("l"):
            return [digest(step.name, [number], []) for number in range(step.items)]
        if step.replaced_by:
            flow = Workflow("inner")
            flow.returns(build(app, flow, step.replaced_by)[-1])
            return context.replace(flow)
        told = [_told(each) for each in collected]
        value = digest(step.name, [_told(each) for each in heard], told)
        if step.extended_by:
            members = [
                app.tasks["step"].call(msgspec.to_builtins(each)) for each in step.extended_by
            ]
            return context.extend(*members, result=value)
        return value

    @app.task(name="item", max_deliveries=MANY)
    def item(value: str) -> str:
        note(value)
        return digest(value, [], [])


def build(app: App, flow: Workflow, graph: Graph) -> list[Node]:
    """The nodes of a graph, in a workflow."""
    nodes: list[Node] = []
    for step in graph:
        if step.mapped:
            mapped = flow.map(app.tasks["item"], nodes[step.direct[0]], name=step.name)
            assert isinstance(mapped, Node)
            nodes.append(mapped)
            continue
        kwargs = {"collected": [nodes[p] for p in step.collected]} if step.collected else {}
        node = flow.add(
            app.tasks["step"],
            msgspec.to_builtins(step),
            *(nodes[place] for place in step.direct),
            after=[nodes[place] for place in step.order],
            name=step.name,
            run_if=None if step.run_if == "succeeded" else step.run_if,  # type: ignore[arg-type]
            **kwargs,
        )
        nodes.append(node)
    return nodes


def _told(value: Any) -> Any:
    """What a task was given, as the interpreter puts it."""
    return ["lost", value.state, value.reason] if isinstance(value, LostJob) else value
