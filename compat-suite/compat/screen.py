"""What a person sees of runs: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from .results import BAD, CRASHED, ERROR, FAILED, HUNG, PASSED, SKIPPED, XFAILED, Result

LINE_SECONDS = 20.0
BOARD_SECONDS = 60.0
STYLES = {
    PASSED: "green",
    SKIPPED: "dim",
    XFAILED: "dim",
    FAILED: "red",
    ERROR: "red",
    HUNG: "magenta",
    CRASHED: "magenta",
}


def bars(console: Console) -> Progress:
    return Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[counts]}"),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


class Screen:
    """Shows one run. `told` may be called from several threads."""

    def __init__(self, console: Console, title: str, board: Board | None = None) -> None:
        self.console = console
        self._title = title
        self._board = board
        self._counts: Counter[str] = Counter()
        self._total = 0
        self._last_line = time.monotonic()
        self._progress = bars(console) if board is None else board.progress
        self._task: TaskID | None = None

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        self._task = self._progress.add_task(self._title, total=None, counts="")
        try:
            with contextlib.nullcontext() if self._board else self._progress:
                yield
        finally:
            self._progress.remove_task(self._task)
            self._task = None

    def say(self, text: str) -> None:
        self.console.print(f"[dim]{escape(self._title)}:[/dim] {escape(text)}", highlight=False)

    def begin(self, total: int, done: Counter[str]) -> None:
        """`done` is what an earlier, interrupted run has done of the total."""
        self._total = total
        self._counts = done.copy()
        self._show(total=total)

    def told(self, test: str, result: Result) -> None:
        self._counts[result.outcome] += 1
        self._show()
        if result.outcome in (HUNG, CRASHED):
            self.say(f"{result.outcome}: {test} ({result.message})")
        is_due = time.monotonic() - self._last_line > LINE_SECONDS
        if self._board is None and not self.console.is_terminal and is_due:
            self._last_line = time.monotonic()
            self.say(self.told_so_far)

    @property
    def told_so_far(self) -> str:
        bad = sum(self._counts[each] for each in BAD)
        return f"{self._counts.total()}/{self._total}, {self._counts[PASSED]} passed, {bad} not"

    @property
    def share(self) -> float:
        """Of its tests, those that are done."""
        return self._counts.total() / self._total if self._total else 0.0

    @property
    def title(self) -> str:
        return self._title

    def _show(self, total: int | None = None) -> None:
        if self._task is not None:
            self._progress.update(
                self._task, total=total, completed=self._counts.total(), counts=self._said()
            )

    def _said(self) -> str:
        parts = []
        for outcome, count in sorted(self._counts.items()):
            style = STYLES.get(outcome, "red")
            parts.append(f"[{style}]{count} {outcome}[/{style}]")
        return "  ".join(parts)


class Board:
    """Shows many runs beside each other, with one line for all of them."""

    def __init__(self, console: Console, total: int) -> None:
        self.console = console
        self.progress = bars(console)
        self._total = total
        self._done = 0
        self._left = 0.0
        self._running: list[Screen] = []
        self._lock = threading.Lock()
        self._last_line = time.monotonic()
        self._all = self.progress.add_task("all runs", total=total, counts="")

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        with self.progress:
            yield

    @contextlib.contextmanager
    def screen(self, title: str) -> Iterator[Screen]:
        """For one run, as long as it goes on."""
        screen = Screen(self.console, title, self)
        with self._lock:
            self._running.append(screen)
        try:
            yield screen
        finally:
            with self._lock:
                self._running.remove(screen)

    def say_done(self, name: str, done: int) -> None:
        told = f"[dim]{done}/{self._total}[/dim] {escape(name)}: done"
        self.console.print(told, highlight=False)

    def update(self, done: int, seconds_left: float) -> None:
        """Called now and then by whoever waits for the runs."""
        self._done, self._left = done, seconds_left
        self.progress.update(self._all, completed=done, counts=self._said_left())
        if not self.console.is_terminal and time.monotonic() - self._last_line > BOARD_SECONDS:
            self._last_line = time.monotonic()
            with self._lock:
                running = "; ".join(f"{each.title} {each.told_so_far}" for each in self._running)
            head = f"{done}/{self._total} runs done, {self._said_left()}"
            self.console.print(f"[bold]{head}[/bold]: {escape(running)}", highlight=False)

    def _said_left(self) -> str:
        return f"about {max(self._left, 60) / 60:.0f} min left"
