"""Workflows as data: a dictionary, or a JSON or TOML file.

name = "thumbnails"

[nodes.page]
task = "shop.fetch"
args = ["https://example.org"]

[nodes.small]
task = "shop.resize"
args = [{ result = "page" }, 100]
options = { queue = "images" }

[nodes.all]
task = "shop.publish"
collects = ["page", "small"]
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from taskmq.checks import nearest
from taskmq.envelope import RunIf
from taskmq.errors import ConfigError

from .builder import OnFailure, Workflow
from .mapping import map_call
from .node import Node

if TYPE_CHECKING:
    from taskmq.app import App

__all__ = ["InvalidWorkflow", "from_data", "from_file"]

TOP = ("name", "on_failure", "nodes", "result")
FIELDS = ("task", "args", "kwargs", "collects", "after", "map", "options", "run_if")
REFERENCE = "result"


class InvalidWorkflow(ConfigError):
    """What a description has wrong: ``mistakes`` is a line for each."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = tuple(mistakes)


def from_file(app: App, path: str | Path) -> Workflow:
    """The workflow that a ``.json`` or ``.toml`` file describes. Raises `InvalidWorkflow`, and
    `ConfigError` for a file that cannot be read."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
    if path.suffix == ".json":
        load = json.loads
    elif path.suffix == ".toml":
        load = _toml().loads
    else:
        raise ConfigError(f"{path}: a workflow is in a .json or a .toml file")
    try:
        data = load(text)
    except ValueError as error:
        raise ConfigError(f"{path} cannot be read as {path.suffix[1:].upper()}: {error}") from None
    return from_data(app, data)


def from_data(app: App, data: Any) -> Workflow:
    """The workflow that a dictionary describes. Raises `InvalidWorkflow`."""
    return _Reader(app).read(data)


class _Reader:
    def __init__(self, app: App) -> None:
        self.app = app
        self.mistakes: list[str] = []

    def read(self, data: Any) -> Workflow:
        if not isinstance(data, Mapping):
            raise InvalidWorkflow([f"a workflow is a table with {', '.join(TOP)}, not {data!r}"])
        self._known("the workflow", data, TOP)
        name, on_failure = data.get("name", "workflow"), data.get("on_failure", "finish")
        if not isinstance(name, str) or not name:
            self.mistakes.append(f"name must be a text, got {name!r}")
        if on_failure not in get_args(OnFailure):
            choices = ", ".join(get_args(OnFailure))
            self.mistakes.append(f"on_failure must be one of {choices}, got {on_failure!r}")
        nodes = data.get("nodes")
        if not isinstance(nodes, Mapping) or not nodes:
            self.mistakes.append("nodes must be a table with a node or more")
            nodes = {}
        sources = {each: self._check(each, nodes[each], nodes) for each in nodes}
        result = data.get("result")
        if result is not None and result not in nodes:
            self.mistakes.append(f"result: no node {result!r}{nearest(str(result), nodes)}")
        order = self._order(sources)
        self._fail()
        flow = Workflow(name, on_failure=on_failure)
        made: dict[str, Node] = {}
        for each in order:
            try:
                made[each] = self._make(flow, each, nodes[each], made)
            except (ConfigError, TypeError) as error:
                self.mistakes.append(f"node {each!r}: {error}")
                self._fail()
        if result is not None:
            flow.returns(made[result])
        return flow

    def _fail(self) -> None:
        if self.mistakes:
            raise InvalidWorkflow(self.mistakes)

    # -- one node ----------------------------------------------------------------------------

    def _check(self, name: str, node: Any, nodes: Mapping[str, Any]) -> list[str]:
        """Note what is wrong with it; the nodes that it waits for."""
        who = f"node {name!r}"
        if not isinstance(node, Mapping):
            self.mistakes.append(f"{who} must be a table with {', '.join(FIELDS)}")
            return []
        self._known(who, node, FIELDS)
        task = node.get("task")
        if not isinstance(task, str):
            self.mistakes.append(f"{who}: task is missing: the name of a task, e.g. shop.fetch")
        elif task not in self.app.tasks:
            hint = nearest(task, self.app.tasks.names())
            self.mistakes.append(f"{who}: the app has no task {task!r}{hint}")
        kinds = {"args": list, "kwargs": Mapping, "options": Mapping, "collects": list}
        for field, kind in kinds.items():
            if field in node and not isinstance(node[field], kind):
                word = "list" if kind is list else "table"
                self.mistakes.append(f"{who}: {field} must be a {word}, got {node[field]!r}")
        run_if = node.get("run_if", "succeeded")
        if run_if not in get_args(RunIf):
            choices = ", ".join(get_args(RunIf))
            self.mistakes.append(f"{who}: run_if must be one of {choices}, got {run_if!r}")
        if "map" in node and (
            extra := [
                each for each in FIELDS if each in node and each not in ("task", "map", "options")
            ]
        ):
            self.mistakes.append(f"{who}: map takes no {', '.join(extra)}")
        sources = []
        for field, source in self._references(node):
            if source not in nodes:
                hint = nearest(str(source), nodes)
                self.mistakes.append(f"{who}: {field}: no node {source!r}{hint}")
            else:
                sources.append(source)
        return sources

    def _references(self, node: Mapping[str, Any]) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        after = node.get("after", [])
        found += [("after", each) for each in ([after] if isinstance(after, str) else after)]
        collects = node.get("collects", [])
        found += [("collects", each) for each in (collects if isinstance(collects, list) else [])]
        if isinstance(node.get("map"), str):
            found.append(("map", node["map"]))
        args, kwargs = node.get("args"), node.get("kwargs")
        for value in args if isinstance(args, list) else []:
            if _is_reference(value):
                found.append(("args", value[REFERENCE]))
        for value in kwargs.values() if isinstance(kwargs, Mapping) else []:
            if _is_reference(value):
                found.append(("kwargs", value[REFERENCE]))
        return found

    def _make(
        self, flow: Workflow, name: str, node: Mapping[str, Any], made: Mapping[str, Node]
    ) -> Node:
        def value(given: Any) -> Any:
            return made[given[REFERENCE]] if _is_reference(given) else given

        task, options = self.app.tasks[node["task"]], dict(node.get("options", {}))
        if isinstance(node.get("map"), str):
            return flow.add(map_call(task, made[node["map"]], options), name=name)
        if "map" in node:
            raise ConfigError(f"map must name a node that gives a list, got {node['map']!r}")
        args = [value(each) for each in node.get("args", ())]
        if "collects" in node:
            args.append([made[each] for each in node["collects"]])
        kwargs = {key: value(each) for key, each in node.get("kwargs", {}).items()}
        task.check(args, kwargs)
        call = task.call(*args, **kwargs)
        after = node.get("after", [])
        waits = [made[each] for each in ([after] if isinstance(after, str) else after)]
        call = call.options(**options) if options else call
        run_if = node.get("run_if")
        return flow.add(call, after=waits, name=name, run_if=run_if)

    # -- all of them -------------------------------------------------------------------------

    def _known(self, who: str, data: Mapping[str, Any], fields: tuple[str, ...]) -> None:
        for field in data:
            if field not in fields:
                self.mistakes.append(f"{who} has no field {field!r}{nearest(str(field), fields)}")

    def _order(self, sources: Mapping[str, list[str]]) -> list[str]:
        try:
            return list(TopologicalSorter(sources).static_order())
        except CycleError as error:
            circle = " -> ".join(error.args[1])
            self.mistakes.append(f"nodes wait for each other in a circle: {circle}")
            return []


def _is_reference(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {REFERENCE}


def _toml() -> Any:
    for name in ("tomllib", "tomli"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise ConfigError("TOML needs Python 3.11 or the package tomli; or write it as JSON")
