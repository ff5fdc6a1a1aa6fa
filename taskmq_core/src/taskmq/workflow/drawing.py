"""A workflow as a picture: Mermaid and DOT as text, SVG by Graphviz."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from taskmq.errors import ConfigError
from taskmq.states import JobState

from .status import NodeStatus, WorkflowStatus

__all__ = ["to_dot", "to_mermaid", "to_svg"]

COLORS = {
    JobState.SUCCEEDED: "#b7e1b0",
    JobState.FAILED: "#f4b5ad",
    JobState.EXPIRED: "#f4b5ad",
    JobState.RUNNING: "#a9d0f5",
    JobState.QUEUED: "#fdf0b0",
    JobState.RETRYING: "#fbd59b",
    JobState.REVOKED: "#d9c7e8",
}
OTHERWISE = "#ececec"


def to_mermaid(status: WorkflowStatus) -> str:
    """For pages that render Mermaid: a flowchart, coloured by state."""
    lines = ["flowchart TD"]
    for number, node in enumerate(status.nodes):
        text = "<br/>".join(_mermaid_text(each) for each in _label(node))
        lines.append(f'    n{number}["{text}"]:::{node.state.value.lower()}')
    lines += [f"    n{source} --> n{target}" for source, target in _edges(status.nodes)]
    for state in dict.fromkeys(node.state for node in status.nodes):
        color = COLORS.get(state, OTHERWISE)
        lines.append(f"    classDef {state.value.lower()} fill:{color},stroke:#555,color:#000")
    return "\n".join(lines) + "\n"


def to_dot(status: WorkflowStatus) -> str:
    """In Graphviz's language."""
    lines = [
        f"digraph {_dot_text(status.name)} {{",
        "    node [shape=box, style=filled];",
    ]
    for number, node in enumerate(status.nodes):
        color = COLORS.get(node.state, OTHERWISE)
        label = _dot_text("\n".join(_label(node)))
        lines.append(f'    n{number} [label={label}, fillcolor="{color}"];')
    lines += [f"    n{source} -> n{target};" for source, target in _edges(status.nodes)]
    return "\n".join([*lines, "}"]) + "\n"


def to_svg(status: WorkflowStatus) -> str:
    """Drawn by Graphviz. Raises `ConfigError` where that is not installed."""
    try:
        graphviz = importlib.import_module("graphviz")
    except ModuleNotFoundError:
        raise ConfigError(
            "SVG needs the Python package graphviz: pip install 'taskmq-py[graph]'"
        ) from None
    try:
        drawn: str = graphviz.Source(to_dot(status)).pipe(format="svg", encoding="utf-8")
    except graphviz.ExecutableNotFound:
        raise ConfigError(
            "SVG needs the program dot, which is not on PATH: install Graphviz "
            "(e.g. apt install graphviz), or draw mermaid or dot"
        ) from None
    return drawn


def _label(node: NodeStatus) -> list[str]:
    lines = [node.name, node.state.value]
    if node.added:
        lines.append(f"+ {sum(node.added.values()):,} jobs")
    return lines


def _edges(nodes: Sequence[NodeStatus]) -> list[tuple[int, int]]:
    places = {node.name: number for number, node in enumerate(nodes)}
    return [(places[source], number) for number, node in enumerate(nodes) for source in node.after]


def _mermaid_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "#quot;")


def _dot_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
