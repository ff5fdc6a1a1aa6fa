"""What a person reads when a run is over."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from .places import short
from .results import Run
from .verdict import Case, Verdict
from .work import Request

SHOWN = 10
"""Lines of one kind."""


def show(console: Console, request: Request, found: Run) -> None:
    """What failed and why, most frequent reason first; then the totals."""
    failing = found.failing()
    reasons: dict[str, list[str]] = {}
    for test, result in failing.items():
        reasons.setdefault(f"{result.outcome}: {result.message}", []).append(test)
    for reason, tests in sorted(reasons.items(), key=lambda each: -len(each[1])):
        console.print(f"[red]{len(tests)} {escape(reason)}[/red]", highlight=False)
        shown = tests if request.keyword or len(tests) <= 3 else [*tests[:2], "…"]
        for test in shown:
            console.print(f"    {escape(test)}", highlight=False)
            if request.keyword and test in failing and len(failing) <= 10:
                console.print(escape(failing[test].detail), highlight=False, style="dim")
    for test in found.flaky():
        console.print(f"[yellow]flaky[/yellow] {escape(test)}", highlight=False)
    counts = found.counts()
    said = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
    console.print(f"[bold]{request}[/bold]: {said or 'no tests'} in {found.seconds:.0f} s")
    console.print(f"[dim]{short(request.folder)}: result.json, junit.xml, *.log[/dim]")


def show_verdict(console: Console, request: Request, verdict: Verdict) -> bool:
    """What nobody expected; whether that is nothing."""
    show_cases(console, "fails unexpectedly", verdict.unexpected_failures)
    show_cases(console, "passes unexpectedly", verdict.unexpected_passes)
    for pattern in verdict.stale:
        console.print(f"[red]expected, but there is no such test:[/red] {escape(pattern)}")
    classes = "".join(f", {count} {kind}" for kind, count in verdict.by_class().most_common())
    console.print(
        f"[bold]shim {verdict.shim} / Celery {verdict.celery} / collected {verdict.collected}"
        f"[/bold]{classes}",
        highlight=False,
    )
    if verdict.is_as_expected:
        return True
    if request.is_whole:
        hint = f"python -m compat expect {request.suite.name}"
        console.print(f"[dim]`{hint}` writes what is so into the expectations[/dim]")
    return False


def show_cases(console: Console, what: str, cases: Sequence[Case]) -> None:
    for case in cases[:SHOWN]:
        message = f" ({case.result.message})" if case.result.message else ""
        line = f"[red]{what}:[/red] {escape(case.test)}[dim]{escape(message)}[/dim]"
        console.print(line, highlight=False)
    if len(cases) > SHOWN:
        console.print(f"[red]{what}:[/red] {len(cases) - SHOWN} more")
