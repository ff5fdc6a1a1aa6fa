"""How the demo looks: what workers say, what was promised, and the table at the end."""

from __future__ import annotations

import contextlib
import re
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from acts import Check
from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text
from sdist import VERSION, Example

COLOURS = ("cyan", "magenta", "yellow", "blue", "bright_cyan", "bright_magenta")
TITLES = {
    "tutorial": "examples/tutorial",
    "next-steps": "examples/next-steps",
    "app": "examples/app",
    "program": "demo/program",
    "crash": "SIGKILL",
}
LOG_LINE = re.compile(r"\[\S+ (?P<time>[\d:]+),\d+: (?P<level>\w+)/\w+\] (?P<message>.*)")
TASK = re.compile(r"Task (?P<name>[\w.]+)\[")
UUID = re.compile(r"\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
STYLES = {"INFO": "default", "WARNING": "yellow", "ERROR": "red", "CRITICAL": "bold red"}
ENOUGH = 6
"""Lines about one task of one worker; the rest is counted."""


class Show:
    """Prints. Workers speak from threads of their own, one line at a time."""

    def __init__(self, console: Console, *, verbose: bool) -> None:
        self._console = console
        self._verbose = verbose
        self._colours: dict[str, str] = {}
        self._started: set[str] = set()
        self._told: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def busy(self, what: str) -> Iterator[None]:
        with self._console.status(what):
            yield

    def opening(self, files: list[Example], sdist: Path) -> None:
        """What will run, and that it is what Celery released."""
        table = Table(box=box.SIMPLE, pad_edge=False)
        table.add_column(f"from {sdist.name}, untouched")
        table.add_column("sha256", style="dim")
        for file in files:
            table.add_row(f"examples/{file.example}/{file.name}", file.sha256[:32] + "…")
        title = f"Celery {VERSION}'s own examples on taskmq: one file each, no server"
        self._console.print(Panel(table, title=title, border_style="green", expand=False))

    def act(self, title: str, command: str, about: str) -> None:
        self._console.print()
        self._console.print(Rule(f"[bold]{title}[/]  {about}", align="left", style="green"))
        if command:
            self._console.print(f"  [bold green]$[/] {command}")

    def worker_said(self, who: str, line: str) -> None:
        """A line of a worker's, in a colour of its own. Its banner is shown for the first one."""
        if not self._verbose or not line.strip():
            return
        with self._lock:
            self._colours.setdefault(who, COLOURS[len(self._colours) % len(COLOURS)])
            log = LOG_LINE.match(line)
            if log is None:
                if who in self._started or next(iter(self._colours)) == who:
                    self._say(who, line, "dim")
                return
            self._started.add(who)
            message = UUID.sub(r"\1…", log["message"])
            task = TASK.search(message)
            if task is not None and not self._is_news(who, task["name"]):
                return
            self._say(who, f"{log['time']} {log['level']:<7} {message}", STYLES[log["level"]])

    def _is_news(self, who: str, task: str) -> bool:
        self._told[who, task] += 1
        return self._told[who, task] <= ENOUGH

    def _say(self, who: str, text: str, style: str) -> None:
        line = Text.assemble((f"  {who:>8} │ ", self._colours[who]), (text, style))
        line.truncate(self._console.width, overflow="ellipsis")
        self._console.print(line, soft_wrap=True)

    def happened(self, what: str) -> None:
        """Something that the demo itself did to a worker."""
        with self._lock:
            self._console.print(f"  [bold red]⚡ {what}[/]")

    def counted(self) -> None:
        """How many lines were kept back, once the act is over."""
        with self._lock:
            for (who, task), count in self._told.items():
                if count > ENOUGH:
                    self._say(who, f"… {count - ENOUGH} more lines about {task}", "dim italic")
            self._told.clear()

    def check(self, check: Check) -> None:
        mark = "[bold green]✔[/]" if check.kept else "[bold red]✘[/]"
        text = Text.from_markup(f"  {mark} ")
        text.append(f"{check.promise}: ")
        text.append(str(check.seen), style="bold" if check.kept else "bold red")
        self._console.print(text)

    def summary(self, checks: list[Check], seconds: float) -> None:
        """Every promise, whether it was kept, and the last word."""
        table = Table(box=box.ROUNDED, title="What was promised, and what was seen")
        table.add_column("program", style="bold")
        table.add_column("promise")
        table.add_column("seen", justify="right", overflow="fold")
        table.add_column("", justify="center")
        ordered = sorted(checks, key=lambda check: list(TITLES).index(check.act))
        previous = ""
        for check in ordered:
            if check.act != previous and previous:
                table.add_section()
            mark = "[green]✔[/]" if check.kept else "[bold red]✘[/]"
            seen = str(check.seen) if check.kept else f"{check.seen} (not {check.expected})"
            name = TITLES[check.act] if check.act != previous else ""
            table.add_row(name, check.promise, Text(seen), mark)
            previous = check.act
        self._console.print()
        self._console.print(table)
        broken = sum(not check.kept for check in checks)
        lost = next((check.seen for check in checks if check.promise == "lost"), "?")
        if broken:
            self._console.print(f"[bold red]{broken} of {len(checks)} promises were broken.[/]")
        else:
            self._console.print(
                f"[bold green]{len(checks)} of {len(checks)} promises kept, {lost} tasks lost, "
                f"no server, {seconds:.0f} s.[/]"
            )

    def broken(self, why: str) -> None:
        self._console.print(Text.assemble(("The demo cannot go on: ", "bold red"), why))

    def kept(self, root: Path) -> None:
        self._console.print(f"[dim]Everything is still in {root}[/]")
