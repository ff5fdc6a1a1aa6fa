"""The commands and their options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from . import baselines, expectations, records, revise, work
from .catalog import CELERY, Catalog, Suite, read_catalog
from .environments import SHIM, SIDES, Environment, ensure, pin
from .fetch import sdist
from .html import write_html
from .places import HTML, PAGE, README, short
from .problems import Problem
from .report import write_page, write_readme
from .results import PASSED, Run
from .screen import Screen
from .servers import BACKENDS, BROKERS
from .verdict import UNEXPECTED, Case, Verdict, compare

PROCESSES = "pytest processes, for suites whose tests share nothing"
SHOWN = 10
"""Lines of one kind."""
OK, DIFFERS, WRONG_CALL, INTERRUPTED = 0, 1, 2, 130
EPILOG = """\
examples:
  python -m compat run unit -k canvas              some unit tests of Celery, on the shim
  python -m compat run unit --on celery -n 2       all of them, on the real Celery
  python -m compat run integration --broker rabbitmq --backend rpc
  python -m compat run flower                      flower's own tests
  python -m compat all                             everything, for hours (`make compat`)

exit status: 0 all as expected, 1 something differs from what is expected,
             2 the command cannot be carried out, 130 interrupted (`run` again goes on)
"""


class Tool:
    """What the commands share."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.catalog: Catalog = read_catalog()
        self.console = Console(soft_wrap=True)

    def environment(self, side: str) -> Environment:
        version = self.arguments.celery or self.catalog.celery[0]
        if version not in self.catalog.celery:
            known = ", ".join(self.catalog.celery)
            raise Problem(f"Celery {version} is not in suites.toml: {known}")
        return Environment(side, version)


def fetch(tool: Tool) -> int:
    """Download the sdists of all suites, or of those that are named."""
    names = tool.arguments.suites or list(tool.catalog.suites)
    wanted: dict[tuple[str, str], None] = {}
    for suite in map(tool.catalog.suite, names):
        if not suite.checkout:
            versions = [suite.version] if suite.version else tool.catalog.celery
            wanted |= {(suite.package, version): None for version in versions}
    for package, version in wanted:
        tool.console.print(short(sdist(package, version)), highlight=False)
    return OK


def environments(tool: Tool) -> int:
    """Make the environments: with the shim, and with the real Celery."""
    for side in (tool.arguments.on,) if tool.arguments.on else reversed(SIDES):
        environment = tool.environment(side)
        pinning = tool.arguments.pin and side == CELERY
        made = ensure(environment, tool.catalog, pinned=not pinning)
        told = "made" if made else "is up to date"
        tool.console.print(f"{short(environment.folder)}: {told}", highlight=False)
        if pinning:
            count = pin(environment, tool.catalog)
            where = short(environment.constraints)
            tool.console.print(f"{where}: {count} packages", highlight=False)
    return OK


def run(tool: Tool) -> int:
    """Run a suite, or a part of it."""
    return carry_out(tool, request_from(tool, tool.catalog.suite(tool.arguments.suite)))


def carry_out(tool: Tool, request: work.Request) -> int:
    """Run, show and judge; the exit status."""
    screen = Screen(tool.console, f"{request.suite.name} on {request.environment.side}")
    if request.environment.side == CELERY:
        durations = baselines.durations(request.suite, request.pair, request.environment)
        found = work.carry_out(request, tool.catalog, screen, baseline=durations)
        show(tool.console, request, found)
        return DIFFERS if found.failing() else OK
    name, pair = request.suite.name, request.pair
    expected = expectations.Expectations(expectations.read(name), pair)
    known = baselines.baseline(name, pair, work.baseline_environment(request))

    def may_fail(test: str) -> bool:
        passes = known is not None and known.outcome(test) == PASSED
        return not passes or expected.of(test) is not None

    found = work.carry_out(request, tool.catalog, screen, baseline=known, expected=may_fail)
    show(tool.console, request, found)
    if known is None:
        tool.console.print(f"[yellow]nothing to compare with:[/yellow] run {name} --on celery")
        return DIFFERS if found.failing() else OK
    verdict = compare(found, known, expected, whole=request.is_whole)
    return show_verdict(tool.console, request, verdict)


def show_verdict(console: Console, request: work.Request, verdict: Verdict) -> int:
    """What nobody expected; the exit status."""
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
        return OK
    if request.is_whole:
        hint = f"python -m compat expect {request.suite.name}"
        console.print(f"[dim]`{hint}` writes what is so into the expectations[/dim]")
    return DIFFERS


def show_cases(console: Console, what: str, cases: Sequence[Case]) -> None:
    for case in cases[:SHOWN]:
        message = f" ({case.result.message})" if case.result.message else ""
        line = f"[red]{what}:[/red] {escape(case.test)}[dim]{escape(message)}[/dim]"
        console.print(line, highlight=False)
    if len(cases) > SHOWN:
        console.print(f"[red]{what}:[/red] {len(cases) - SHOWN} more")


def expect(tool: Tool) -> int:
    """Bring the expectations of a suite up to date with its last run on the shim."""
    suite = tool.catalog.suite(tool.arguments.suite)
    entries = expectations.read(suite.name)
    judged = {}
    for pair in suite.pairs or ("",):
        found = work.last_run(suite.name, pair, tool.environment(SHIM))
        known = baselines.baseline(suite.name, pair, tool.environment(CELERY))
        if found is not None and known is not None:
            verdict = compare(found, known, expectations.Expectations(entries, pair))
            judged[pair] = verdict, known
    if not judged:
        raise Problem(f"{suite.name} has not been run to its end on both sides yet")
    written = revise.revised(entries, judged, suite.pairs)
    path = expectations.write(suite.name, written)
    added = sum(len(verdict.unexpected_failures) for verdict, _ in judged.values())
    dropped = sum(len(verdict.unexpected_passes) for verdict, _ in judged.values())
    said = f"{added} tests added, {dropped} dropped, {len(written)} entries"
    tool.console.print(f"{short(path)}: {said}", highlight=False)
    return OK


def positive(number: int) -> int:
    if number < 1:
        raise Problem("-n takes a number from 1")
    return number


def request_from(tool: Tool, suite: Suite) -> work.Request:
    said = tool.arguments
    pair = ""
    if suite.pairs:
        broker, backend = suite.pairs[0].split("+")
        pair = f"{said.broker or broker}+{said.backend or backend}"
    elif said.broker or said.backend:
        raise Problem(f"{suite.name} takes no --broker and no --backend")
    return work.Request(
        suite=suite,
        environment=tool.environment(said.on),
        pair=pair,
        keyword=said.keyword,
        tests=tuple(said.tests),
        processes=positive(said.processes),
        seconds=said.seconds,
        fresh=said.fresh,
        checkout=said.checkout,
    )


def show(console: Console, request: work.Request, found: Run) -> None:
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


def report(tool: Tool) -> int:
    """Write the tables, from the last runs on both sides."""
    new = []
    for name, pair in records.runs_of(tool.catalog):
        found = work.last_run(name, pair, tool.environment(SHIM))
        own = work.last_run(name, pair, tool.environment(CELERY))
        if own is not None:
            baselines.keep(own)
        known = baselines.baseline(name, pair, tool.environment(CELERY))
        if found is not None and known is not None:
            expected = expectations.Expectations(expectations.read(name), pair)
            new.append(records.record_of(found, known, compare(found, known, expected)))
    every = records.update(new, tool.catalog)
    history = records.extend_history(every)
    write_page(every, tool.catalog)
    write_readme(every, tool.catalog)
    write_html(every, history, tool.catalog)
    for each in every:
        if each.classes.get(UNEXPECTED):
            said = f"{each.title} has failures without a reason: compat expect {each.suite}"
            tool.console.print(f"[yellow]{said}[/yellow]", highlight=False)
    for path in (PAGE, HTML, README):
        tool.console.print(short(path), highlight=False)
    return OK


def everything(tool: Tool) -> int:
    """Run all suites, first on the real Celery, then on the shim, and write the report."""
    names = tool.arguments.suites
    for name in names:
        tool.catalog.suite(name)
    sides = (SHIM,) if tool.arguments.kept else (CELERY, SHIM)
    statuses = []
    for suite in tool.catalog.suites.values():
        if suite.checkout or (names and suite.name not in names):
            continue
        for pair in suite.pairs or ("",):
            for side in sides:
                request = work.Request(
                    suite=suite,
                    environment=tool.environment(side),
                    pair=pair,
                    processes=tool.arguments.processes if suite.parallel else 1,
                )
                status = carry_out(tool, request)
                # What the real Celery does not pass is a baseline, not a failure.
                statuses.append(status if side == SHIM else OK)
    report(tool)
    return max(statuses, default=OK)


def ci(tool: Tool) -> int:
    """Run the part of the suites that CI runs, on the shim."""
    statuses = []
    for part in tool.catalog.ci:
        suite = tool.catalog.suite(part.suite)
        request = work.Request(
            suite=suite,
            environment=tool.environment(SHIM),
            pair=suite.pairs[0] if suite.pairs else "",
            tests=part.tests,
            processes=tool.arguments.processes if suite.parallel else 1,
        )
        statuses.append(carry_out(tool, request))
    return max(statuses, default=OK)


def suites(tool: Tool) -> int:
    """List the suites."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("suite", "what it is", "broker+backend"):
        table.add_column(name)
    for suite in tool.catalog.suites.values():
        table.add_row(suite.name, suite.about, " ".join(suite.pairs))
    tool.console.print(table)
    return OK


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m compat",
        description="Takes other people's test suites to the shim and to the real Celery, "
        "and compares.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    def command(function: Callable[[Tool], int], name: str) -> argparse.ArgumentParser:
        told = function.__doc__ or ""
        added = commands.add_parser(name, help=told.rstrip("."), description=told)
        added.set_defaults(function=function)
        added.add_argument(
            "--celery",
            metavar="VERSION",
            help="the real Celery, and what the shim calls itself (the first in suites.toml)",
        )
        return added

    command(suites, "suites")
    fetching = command(fetch, "fetch")
    fetching.add_argument("suites", nargs="*", metavar="SUITE", help="all of them by default")
    making = command(environments, "env")
    making.add_argument("--on", choices=SIDES, help="only this one")
    making.add_argument(
        "--pin", action="store_true", help="take the newest packages and write constraints/"
    )
    add_run(command(run, "run"))
    command(expect, "expect").add_argument("suite", metavar="SUITE")
    command(report, "report")
    add_everything(command(everything, "all"))
    partly = command(ci, "ci")
    partly.add_argument(
        "-n", dest="processes", type=int, default=2, metavar="COUNT", help=PROCESSES
    )
    return top


def add_everything(running: argparse.ArgumentParser) -> None:
    add = running.add_argument
    add("suites", nargs="*", metavar="SUITE", help="only these")
    add("-n", dest="processes", type=int, default=2, metavar="COUNT", help=PROCESSES)
    add(
        "--kept",
        action="store_true",
        help="do not run the real Celery: compare with the baselines in the repository",
    )


def add_run(running: argparse.ArgumentParser) -> None:
    add = running.add_argument
    add("suite", metavar="SUITE", help="see `python -m compat suites`")
    add("tests", nargs="*", metavar="TEST", help="files or single tests, all by default")
    add("--on", choices=SIDES, default=SHIM, help="the shim (default) or the real Celery")
    add("--broker", choices=tuple(BROKERS), help="for suites with services of their choice")
    add("--backend", choices=tuple(BACKENDS), help="likewise")
    add("-k", dest="keyword", default="", metavar="EXPRESSION", help="as pytest's -k")
    add("-n", dest="processes", type=int, default=1, metavar="COUNT", help=PROCESSES)
    add("--seconds", type=float, metavar="SECONDS", help="the time limit of every test")
    add("--fresh", action="store_true", help="do not go on with an interrupted run")
    add("--checkout", type=Path, metavar="PATH", help="take the tests from here, not from a sdist")


def main(arguments: list[str]) -> int:
    parsed = parser().parse_args(arguments)
    try:
        status: int = parsed.function(Tool(parsed))
    except Problem as problem:
        print(f"compat: {problem}", file=sys.stderr)
        return WRONG_CALL
    except KeyboardInterrupt:
        print("compat: interrupted; the same command goes on from here", file=sys.stderr)
        return INTERRUPTED
    return status
