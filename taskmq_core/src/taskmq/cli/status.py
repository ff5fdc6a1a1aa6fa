"""``taskmq status``: workers, queues, parked jobs, and what the store can and cannot do."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from typing import Any

import msgspec

from taskmq import App
from taskmq.control import paused_workflows
from taskmq.diagnose import in_words
from taskmq.records import JobFilter, PausedQueue, PausedWorkflow
from taskmq.urls import without_passwords

from .apps import open_store
from .exits import Exit
from .output import Printer
from .values import shorten

__all__ = ["status"]

PARKED_LIMIT = 1000
CLEAR = "\x1b[H\x1b[2J"


def status(arguments: argparse.Namespace) -> int:
    """Show it once, or again and again with ``--watch``."""
    app = open_store(arguments)
    printer = Printer(timezone=app.config.timezone)
    while True:
        snapshot = Snapshot(app)
        if arguments.json:
            printer.json(snapshot.document())
        else:
            printer.write("" if arguments.watch is None else CLEAR)
            snapshot.show(printer, by_priority=arguments.by_priority)
        printer.flush()
        if arguments.watch is None:
            return Exit.OK
        time.sleep(arguments.watch)


class Snapshot:
    """One reading of the store."""

    def __init__(self, app: App) -> None:
        store = app.transport
        self.now = app.clock.now()
        self.url = without_passwords(app.config.transport)
        self.capabilities = store.capabilities
        self.workers = store.workers()
        self.queues = store.stats()
        self.paused = store.paused()
        self.paused_workflows = paused_workflows(store)
        any_parked = any(stats.parked for stats in self.queues)
        self.parked = store.find(JobFilter(parked=True, limit=PARKED_LIMIT)) if any_parked else []

    def document(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "store": {"url": self.url, **msgspec.structs.asdict(self.capabilities)},
            "workers": [
                {**msgspec.structs.asdict(each), "stale": each.is_stale(self.now)}
                for each in self.workers
            ],
            "queues": [msgspec.structs.asdict(each) for each in self.queues],
            "parked": [
                {"reason": reason, "task": task, "queue": queue, "jobs": count}
                for reason, task, queue, count in self._parked_groups()
            ],
            "paused": [msgspec.structs.asdict(each) for each in self.paused],
            "paused_workflows": [msgspec.structs.asdict(each) for each in self.paused_workflows],
        }

    def show(self, printer: Printer, *, by_priority: bool) -> None:
        """For people."""
        self._show_store(printer)
        self._show_workers(printer)
        self._show_queues(printer)
        if self.paused:
            self._show_paused(printer)
        if self.paused_workflows:
            self._show_paused_workflows(printer)
        if by_priority:
            self._show_priorities(printer)
        if self.parked:
            self._show_parked(printer)

    def _show_store(self, printer: Printer) -> None:
        durable = "durable" if self.capabilities.durable else "not durable"
        shared = "shared by processes" if self.capabilities.shared else "of one process"
        printer.heading(f"Store  {self.url}")
        printer.line(f"  {durable}, {shared}")
        for limitation in self.capabilities.limitations:
            printer.line(f"  {printer.style('yellow', 'limitation')}  {limitation}")

    def _show_workers(self, printer: Printer) -> None:
        stale = sum(each.is_stale(self.now) for each in self.workers)
        live = len(self.workers) - stale
        printer.line()
        printer.heading(f"Workers  {live} live" + (f", {stale} stale" if stale else ""))
        rows = [
            (
                each.id,
                ",".join(each.queues),
                each.pool,
                f"{each.running}/{each.concurrency}",
                each.processed,
                f"{in_words(self.now - each.heartbeat_at)} ago",
                printer.style("red", "STALE") if each.is_stale(self.now) else "",
            )
            for each in self.workers
        ]
        printer.table(("NAME", "QUEUES", "POOL", "RUNNING", "DONE", "HEARTBEAT", ""), rows)

    def _show_queues(self, printer: Printer) -> None:
        rows: list[tuple[object, ...]] = []
        any_held = any(each.held for each in self.queues)
        for each in self.queues:
            oldest = each.oldest_ready_at
            wait = "" if oldest is None else in_words(max(0.0, self.now - oldest))
            held = (each.held,) if any_held else ()
            counts = (each.ready, each.delayed, each.parked, *held, each.waiting, each.running)
            rows.append((each.queue, *counts, each.dead, wait))
        printer.line()
        printer.heading("Queues")
        names = ["NAME", "READY", "DELAYED", "PARKED", "WAITING", "RUNNING", "DEAD", "OLDEST"]
        if any_held:
            names.insert(4, "HELD")
        printer.table(tuple(names), rows)

    def _show_paused(self, printer: Printer) -> None:
        rows = [(each.queue, *self._who(each)) for each in self.paused]
        printer.line()
        printer.heading("Paused queues")
        printer.table(("QUEUE", "BY", "SINCE", "REASON"), rows)
        printer.line("  to go on: taskmq resume QUEUE")

    def _show_paused_workflows(self, printer: Printer) -> None:
        rows = [(each.workflow, *self._who(each)) for each in self.paused_workflows]
        printer.line()
        printer.heading("Paused workflows")
        printer.table(("WORKFLOW", "BY", "SINCE", "REASON"), rows)
        printer.line("  to go on: taskmq workflow resume WORKFLOW")

    def _who(self, pause: PausedQueue | PausedWorkflow) -> tuple[str, str, str]:
        since = f"{in_words(self.now - pause.paused_at)} ago"
        return pause.by, since, shorten(pause.reason, 60)

    def _show_priorities(self, printer: Printer) -> None:
        rows = [
            (each.queue, priority, count)
            for each in self.queues
            for priority, count in sorted(each.ready_by_priority.items(), reverse=True)
        ]
        printer.line()
        printer.heading("Ready by priority")
        printer.table(("QUEUE", "PRIORITY", "READY"), rows)

    def _show_parked(self, printer: Printer) -> None:
        printer.line()
        printer.heading("Parked until a worker can run them")
        printer.table(("REASON", "TASK", "QUEUE", "JOBS"), self._parked_groups())
        if len(self.parked) == PARKED_LIMIT:
            printer.line(f"  (of the first {PARKED_LIMIT:,})")
        printer.line(f"  more about the first: taskmq inspect {self.parked[0].id}")

    def _parked_groups(self) -> list[tuple[str, str, str, int]]:
        groups = Counter((job.parked_reason or "", job.task, job.queue) for job in self.parked)
        return [(*key, count) for key, count in sorted(groups.items())]
