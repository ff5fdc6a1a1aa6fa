"""The options of ``taskmq workflow``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

__all__ = ["add_workflow_commands"]


def add_workflow_commands(
    actions: Any,
    add: Callable[..., argparse.ArgumentParser],
    seconds: Callable[[str], float],
    count: Callable[[str], int],
) -> None:
    """``add`` makes a command, the others read numbers that were typed."""
    listing = add(
        actions,
        "list",
        "workflow.list_workflows",
        "list workflows, newest first",
        "taskmq workflow list",
        "taskmq workflow list --name thumbnails --limit 5",
    )
    listing.add_argument("--name", help="only those with this name")
    listing.add_argument("--limit", type=count, default=20, metavar="N", help="at most N (20)")
    show = add(
        actions,
        "show",
        "workflow.show_workflow",
        "show how a workflow goes: its nodes, its critical path",
        "taskmq workflow show 01HF7YAT00P1RHENHKJCXP1W2M",
        "taskmq workflow show 01HF7YAT00P1RHENHKJCXP1W2M --watch 1",
    )
    show.add_argument("workflow", metavar="ID")
    show.add_argument("--limit", type=count, default=100, metavar="N", help="nodes (100)")
    show.add_argument(
        "--watch",
        type=seconds,
        nargs="?",
        const=1.0,
        metavar="SECONDS",
        help="again and again, until it has ended",
    )
    for parser in (listing, show):
        parser.add_argument("--json", action="store_true", help="print JSON, for scripts")
    graph = add(
        actions,
        "graph",
        "workflow.draw_workflow",
        "draw a workflow",
        "taskmq workflow graph 01HF7YAT00P1RHENHKJCXP1W2M",
        "taskmq workflow graph 01HF7YAT00P1RHENHKJCXP1W2M --format svg -o flow.svg",
    )
    graph.add_argument("workflow", metavar="ID")
    graph.add_argument(
        "--format",
        choices=("mermaid", "dot", "svg"),
        default="mermaid",
        help="mermaid (default) and dot are text; svg is drawn by Graphviz",
    )
    graph.add_argument("-o", "--output", metavar="FILE", help="instead of the terminal")
    submit = add(
        actions,
        "submit",
        "workflow.submit_workflow",
        "submit the workflow that a JSON or TOML file describes, and print its id",
        "taskmq workflow submit thumbnails.toml",
    )
    submit.add_argument("file", metavar="FILE")
    cancel = add(
        actions,
        "cancel",
        "workflow.cancel_workflow",
        "revoke all of a workflow that has not ended",
        "taskmq workflow cancel 01HF7YAT00P1RHENHKJCXP1W2M",
    )
    cancel.add_argument("workflow", metavar="ID")
    cancel.add_argument("--terminate", action="store_true", help="end what runs by force")
    cancel.add_argument("-y", "--yes", action="store_true", help="do not ask")
    pause = add(
        actions,
        "pause",
        "workflow.pause_workflow",
        "let nothing more of a workflow be begun",
        "taskmq workflow pause 01HF7YAT00P1RHENHKJCXP1W2M --reason 'wrong prices'",
    )
    pause.add_argument("workflow", metavar="ID")
    pause.add_argument("--reason", default="", help="why, for whoever looks")
    resume = add(
        actions,
        "resume",
        "workflow.resume_workflow",
        "let a paused workflow go on",
        "taskmq workflow resume 01HF7YAT00P1RHENHKJCXP1W2M",
    )
    resume.add_argument("workflow", metavar="ID")
    retry = add(
        actions,
        "retry",
        "workflow.retry_workflow",
        "replay the dead letters of a workflow, so that it goes on",
        "taskmq workflow retry 01HF7YAT00P1RHENHKJCXP1W2M",
        "taskmq workflow retry 01HF7YAT00P1RHENHKJCXP1W2M --from fetch",
    )
    retry.add_argument("workflow", metavar="ID")
    retry.add_argument(
        "--from",
        dest="nodes",
        action="append",
        metavar="NODE",
        help="only those of this node; may be repeated",
    )
