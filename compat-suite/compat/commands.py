"""The commands and their options."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from . import baselines, expectations, records, revise, work
from .catalog import CELERY, Catalog, Suite, read_catalog
from .environments import SHIM, SIDES, Environment, ensure, pin
from .everything import (
    SEATS_PER_PROCESSOR,
    Everything,
    default_jobs,
    make_environments,
    show_plan,
    stretch_for,
    verdict_of,
)
from .fetch import sdist
from .html import write_html
from .places import HTML, PAGE, README, short
from .plan import Item, items_of, known_to_fail
from .problems import Problem
from .report import write_page, write_readme
from .results import PASSED
from .screen import Screen
from .servers import BACKENDS, BROKERS
from .telling import show, show_verdict
from .verdict import UNEXPECTED, compare

PROCESSES = "pytest processes, for suites whose tests share nothing"
OK, DIFFERS, WRONG_CALL, INTERRUPTED = 0, 1, 2, 130
EPILOG = """\
examples:
  python -m compat run unit -k canvas              some unit tests of Celery, on the shim
  python -m compat run unit --on celery -n 2       all of them, on the real Celery
  python -m compat run integration --broker rabbitmq --backend rpc
  python -m compat run flower                      flower's own tests
  python -m compat all --dry-run                   what `make compat` does, and for how long

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
        found = work.carry_out(
            request, tool.catalog, screen, baseline=durations, once=known_to_fail(request)
        )
        show(tool.console, request, found)
        return DIFFERS if found.failing() else OK
    name, pair = request.suite.name, request.pair
    expected = expectations.Expectations(expectations.read(name), pair)
    known = baselines.baseline(name, pair, work.baseline_environment(request))

    def may_fail(test: str) -> bool:
        passes = known is not None and known.outcome(test) == PASSED
        return not passes or expected.of(test) is not None

    found = work.carry_out(
        request,
        tool.catalog,
        screen,
        baseline=known,
        expected=may_fail,
        once=known_to_fail(request),
    )
    show(tool.console, request, found)
    if known is None:
        tool.console.print(f"[yellow]nothing to compare with:[/yellow] run {name} --on celery")
        return DIFFERS if found.failing() else OK
    verdict = compare(found, known, expected, whole=request.is_whole)
    return OK if show_verdict(tool.console, request, verdict) else DIFFERS


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


def positive(number: int, option: str = "-n") -> int:
    if number < 1:
        raise Problem(f"{option} takes a number from 1")
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
    """Run all suites on the real Celery and on the shim, side by side, and write the report."""
    said = tool.arguments
    for name in said.suites:
        tool.catalog.suite(name)
    jobs = default_jobs() if said.jobs is None else positive(said.jobs, "--jobs")
    sides = (SHIM,) if said.kept else (CELERY, SHIM)
    made = {side: tool.environment(side) for side in sides}
    items = items_of(tool.catalog, made, said.suites, jobs=jobs, stretch=stretch_for(jobs))
    if said.dry_run:
        show_plan(tool.console, items, jobs)
        return OK
    for item in items:
        work.check(item.request)
    make_environments(tool.catalog, made, tool.console)
    whole = Everything(tool.catalog, tool.console, jobs, fresh=said.fresh)
    whole.run(items)
    whole.run_again(items)
    report(tool)
    whole.clear()
    return max([judged(tool, item.request) for item in in_order(tool.catalog, items)], default=OK)


def in_order(catalog: Catalog, items: Sequence[Item]) -> list[Item]:
    """Those on the shim, as suites.toml names them."""
    order = records.runs_of(catalog)
    shim = [item for item in items if item.request.environment.side == SHIM]
    return sorted(shim, key=lambda item: order.index((item.request.suite.name, item.request.pair)))


def judged(tool: Tool, request: work.Request) -> int:
    """Show what the last run on the shim comes to; the exit status."""
    tool.console.rule(f"[bold]{request}", align="left", style="dim")
    run = work.last_run(request.suite.name, request.pair, request.environment)
    verdict = run and verdict_of(request.suite.name, request.pair, request.environment, run)
    if not verdict:
        tool.console.print("[red]nothing to compare[/red]")
        return DIFFERS
    return OK if show_verdict(tool.console, request, verdict) else DIFFERS


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
    add(
        "--jobs",
        type=int,
        metavar="COUNT",
        help=f"pytest processes at once, by default {SEATS_PER_PROCESSOR} for each processor",
    )
    add("--dry-run", action="store_true", help="only say what would be run, and for how long")
    add("--fresh", action="store_true", help="do not go on with what was interrupted")
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
    # A shell's background jobs do not hear Ctrl-C, and CI ends what it cancels in this way.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        status: int = parsed.function(Tool(parsed))
    except Problem as problem:
        print(f"compat: {problem}", file=sys.stderr)
        return WRONG_CALL
    except KeyboardInterrupt:
        print("compat: interrupted; the same command goes on from here", file=sys.stderr)
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    return status
