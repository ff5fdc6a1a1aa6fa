"""Commands about workflows: ``workflow list``, ``show``, ``graph``, ``submit``, ``cancel``, …"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import io
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from taskmq import App, ConfigError
from taskmq.diagnose import in_words
from taskmq.records import PausedWorkflow
from taskmq.workflow import (
    InvalidWorkflow,
    NodeStatus,
    Workflows,
    WorkflowState,
    WorkflowStatus,
    from_file,
)
from taskmq.workflow.drawing import to_dot, to_mermaid, to_svg

from .admin import confirm
from .apps import open_app, open_store
from .exits import CommandFailed, Exit
from .output import Printer
from .status import CLEAR
from .values import counted, shorten

__all__ = [
    "cancel_workflow",
    "draw_workflow",
    "list_workflows",
    "pause_workflow",
    "resume_workflow",
    "retry_workflow",
    "show_workflow",
    "submit_workflow",
]

DRAW = {"mermaid": to_mermaid, "dot": to_dot, "svg": to_svg}
STYLES = {
    WorkflowState.FAILED: "red",
    WorkflowState.PAUSED: "yellow",
    WorkflowState.REVOKED: "yellow",
    WorkflowState.SUCCEEDED: "green",
}


def list_workflows(arguments: argparse.Namespace) -> int:
    """One line for each, newest first."""
    app = open_store(arguments)
    printer, now = Printer(timezone=app.config.timezone), app.clock.now()
    limit: int = arguments.limit
    found = Workflows(app).all(limit + 1, name=arguments.name)
    if arguments.json:
        printer.json(
            [{**msgspec.structs.asdict(head), "state": state} for head, state in found[:limit]]
        )
        return Exit.OK
    rows = [
        (
            head.id,
            head.name,
            head.size,
            f"{in_words(now - head.created_at)} ago",
            _styled(printer, state),
        )
        for head, state in found[:limit]
    ]
    printer.table(("ID", "NAME", "NODES", "SUBMITTED", "STATE"), rows)
    if len(found) > limit:
        printer.line(f"  (the first {limit}; --limit shows more)")
    return Exit.OK


def show_workflow(arguments: argparse.Namespace) -> int:
    """How one goes: once, or with ``--watch`` until it has ended."""
    app = open_store(arguments)
    run = Workflows(app).get(arguments.workflow)
    if arguments.watch is None:
        _print(run.status(), Printer(timezone=app.config.timezone), app, arguments)
        return Exit.OK
    screen = _Screen(app, arguments)
    with screen:
        while True:
            status = run.status()
            screen.show(status)
            if status.state not in (WorkflowState.RUNNING, WorkflowState.PAUSED):
                return Exit.OK
            time.sleep(arguments.watch)


def draw_workflow(arguments: argparse.Namespace) -> int:
    """Its graph, as text or as a picture."""
    app = open_store(arguments)
    text = DRAW[arguments.format](Workflows(app).get(arguments.workflow).status())
    if arguments.output is None:
        Printer().write(text)
        return Exit.OK
    try:
        Path(arguments.output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {arguments.output}: {error}") from None
    return Exit.OK


def submit_workflow(arguments: argparse.Namespace) -> int:
    """Submit the workflow that a file describes; print its id."""
    app = open_app(arguments)
    try:
        flow = from_file(app, arguments.file)
    except InvalidWorkflow as error:
        for mistake in error.mistakes:
            sys.stderr.write(f"{arguments.file}: {mistake}\n")
        many = counted(len(error.mistakes), "mistake")
        raise CommandFailed(f"{arguments.file} has {many}", Exit.USAGE) from None
    Printer().line(flow.submit(app).id)
    return Exit.OK


def cancel_workflow(arguments: argparse.Namespace) -> int:
    """Revoke all of it that has not ended."""
    app = open_store(arguments)
    run = Workflows(app).get(arguments.workflow)
    confirm(
        arguments,
        f"Cancel workflow {run.plan.name!r} ({run.id})?",
        "this takes jobs out for good",
    )
    Printer().line(f"{counted(run.cancel(terminate=arguments.terminate), 'job')} revoked")
    return Exit.OK


def pause_workflow(arguments: argparse.Namespace) -> int:
    """Let nothing more of it be begun."""
    app, printer = open_store(arguments), Printer()
    run = Workflows(app).get(arguments.workflow)
    if run.is_finished():
        raise CommandFailed(f"workflow {run.id} has ended")
    if run.pause(reason=arguments.reason):
        printer.line(f"workflow {run.id} is paused; to go on: taskmq workflow resume {run.id}")
        return Exit.OK
    pause = run.status().paused
    if pause is None:
        raise CommandFailed(f"workflow {run.id} has ended")
    ago = in_words(app.clock.now() - pause.paused_at)
    printer.line(f"workflow {run.id} was paused by {pause.by} {ago} ago")
    return Exit.OK


def resume_workflow(arguments: argparse.Namespace) -> int:
    """End a pause."""
    app = open_store(arguments)
    run = Workflows(app).get(arguments.workflow)
    if not run.resume():
        raise CommandFailed(f"workflow {run.id} is not paused")
    Printer().line(f"workflow {run.id} goes on")
    return Exit.OK


def retry_workflow(arguments: argparse.Namespace) -> int:
    """Replay its dead letters, so that it goes on."""
    app = open_store(arguments)
    run = Workflows(app).get(arguments.workflow)
    count = run.retry(arguments.nodes or ())
    if not count:
        where = f" at {', '.join(arguments.nodes)}" if arguments.nodes else ""
        raise CommandFailed(f"nothing of workflow {run.id} is dead{where}")
    Printer().line(f"{counted(count, 'job')} queued again")
    return Exit.OK


# -- what is shown ---------------------------------------------------------------------------------


class _Screen:
    """Shows a status in place of the last one: with rich, where that is installed and the output
    is a terminal; else the screen is cleared in between."""

    def __init__(self, app: App, arguments: argparse.Namespace) -> None:
        self._app = app
        self._arguments = arguments
        self._printer = Printer(timezone=app.config.timezone)
        self._live: Any = None
        if self._printer.stream.isatty() and importlib.util.find_spec("rich"):
            live = importlib.import_module("rich.live")
            self._live = live.Live(auto_refresh=False)

    def __enter__(self) -> None:
        if self._live is not None:
            self._live.__enter__()

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.__exit__(*error)

    def show(self, status: WorkflowStatus) -> None:
        """Draw it now."""
        if self._live is None:
            if self._printer.stream.isatty():
                self._printer.write(CLEAR)
            _print(status, self._printer, self._app, self._arguments)
            self._printer.flush()
            return
        page = io.StringIO()
        _print(status, Printer(page, color=True), self._app, self._arguments)
        text = importlib.import_module("rich.text").Text.from_ansi(page.getvalue())
        self._live.update(text, refresh=True)


def _print(
    status: WorkflowStatus, printer: Printer, app: App, arguments: argparse.Namespace
) -> None:
    if arguments.json:
        printer.json(status)
        return
    now, limit = app.clock.now(), arguments.limit
    printer.heading(f"{status.id}  {status.name}")
    ended = status.finished_at
    printer.facts(
        {
            "state": _styled(printer, status.state),
            "done": f"{status.done:,} of {status.total:,} jobs ({_counts(status.counts)})",
            "submitted": f"{in_words(now - status.created_at)} ago",
            "paused": "" if status.paused is None else _pause(status.paused, now),
            "took": "" if ended is None else in_words(ended - status.created_at),
            "critical path": _path(status),
        }
    )
    printer.line()
    rows = [_row(node, now) for node in status.nodes[:limit]]
    printer.table(("NODE", "STATE", "ATTEMPT", "WAITED", "RAN", "ADDED", "ERROR"), rows)
    if len(status.nodes) > limit:
        printer.line(f"  (the first {limit} of {len(status.nodes):,}; --limit shows more)")


def _pause(pause: PausedWorkflow, now: float) -> str:
    why = f" ({shorten(pause.reason, 60)})" if pause.reason else ""
    return f"by {pause.by} {in_words(now - pause.paused_at)} ago{why}"


def _row(node: NodeStatus, now: float) -> tuple[object, ...]:
    waited = ran = ""
    if node.queued_at is not None:
        waited = in_words((node.started_at or now) - node.queued_at)
    if node.started_at is not None and node.queued_at is not None:
        ran = in_words((node.finished_at or now) - node.started_at)
    attempt = node.attempt if node.started_at is not None else 0
    added = _counts(node.added)
    return (node.name, node.state, attempt, waited, ran, added, shorten(node.error, 60))


def _counts(counts: Any) -> str:
    return ", ".join(f"{count:,} {state.lower()}" for state, count in counts.items())


def _path(status: WorkflowStatus) -> str:
    legs = [f"{leg.name} {in_words(leg.waited + leg.ran)}" for leg in status.critical_path]
    if len(legs) > 8:
        legs = [*legs[:4], f"… {len(legs) - 8} more …", *legs[-4:]]
    return f"{in_words(status.critical_seconds)}: {' > '.join(legs)}" if legs else ""


def _styled(printer: Printer, state: WorkflowState) -> str:
    return printer.style(STYLES[state], str(state)) if state in STYLES else str(state)
