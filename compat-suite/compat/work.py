"""One run from beginning to end: environment, sources, services, tests, results."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from tests.services import Home

from .catalog import CELERY, Catalog, Suite
from .environments import SHIM, Environment, contents, ensure, ensure_overlay
from .fetch import copy_checkout, sdist, unpack
from .places import RUNS, SUITES, TOP
from .problems import Problem
from .results import HUNG, Result, Run, read_json, write_json, write_junit
from .runner import Collected, Journal, Plan, Runner, suspects
from .screen import Screen
from .servers import Servers, split_pair, variables_for
from .session import Command

# A developer's own settings never decide an outcome.
FOREIGN = ("CELERY", "COMPAT_", "DJANGO", "NEW_RELIC", "PG", "PYTEST", "PYTHON", "TASKMQ")
PATIENCE = 10.0
"""A test may take so many times the seconds that it takes on the real Celery."""
LEAST_SECONDS = 30.0
CHANGED = "+"
"""Behind a commit: there were changes that are not in it."""
REDIS = "{redis}"
"""In a suite's variables: a Redis of its own."""


@dataclass(frozen=True)
class Request:
    """What is to be run."""

    suite: Suite
    environment: Environment
    pair: str = ""
    keyword: str = ""
    tests: tuple[str, ...] = ()
    """Files or single tests, all of the suite if there are none."""
    processes: int = 1
    seconds: float | None = None
    stretch: float = 1.0
    """Time limits are so many times as long: other runs have the same machine."""
    fresh: bool = False
    checkout: Path | None = None

    @property
    def is_whole(self) -> bool:
        """A part of a suite is for whoever asked; it is not kept for the report."""
        return not self.keyword and not self.tests

    @property
    def folder(self) -> Path:
        name = folder_of(self.suite.name, self.pair, self.environment)
        return name if self.is_whole else RUNS / "parts" / f"{name.parent.name}-{os.getpid()}"

    def __str__(self) -> str:
        pair = f" ({self.pair})" if self.pair else ""
        return f"{self.suite.name}{pair} on {self.environment}"


def folder_of(suite: str, pair: str, environment: Environment) -> Path:
    """Where the results of a whole run are."""
    return RUNS / (f"{suite}@{pair}" if pair else suite) / environment.folder.name


def last_run(suite: str, pair: str, environment: Environment) -> Run | None:
    """The last whole run that came to its end."""
    path = folder_of(suite, pair, environment) / "result.json"
    return read_json(path) if path.exists() else None


def revision() -> str:
    """The commit of this checkout, with a + where something is not committed."""
    commit = git("rev-parse", "--short=9", "HEAD")
    return commit + (CHANGED if git("status", "--porcelain", "--untracked-files=no") else "")


def git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(TOP), *arguments], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def carry_out(
    request: Request,
    catalog: Catalog,
    screen: Screen,
    *,
    baseline: Run | None = None,
    expected: Callable[[str], bool] = lambda test: False,
    once: Collection[str] = (),
    stopping: threading.Event | None = None,
) -> Run:
    """Run it and keep what it found. Raises `Problem`, and `Interrupted` if `stopping` gets set.

    With a baseline a test's time limit follows from the time that it took there. What fails
    although nobody expects it is run once more; what is known to fail, `once`, is tried once.
    """
    with ground(request, catalog, screen, baseline, stopping) as plan:
        plan.once = once
        return execute(request, plan, screen, key_of(request, catalog), baseline, expected)


def once_more(
    request: Request,
    catalog: Catalog,
    screen: Screen,
    run: Run,
    tests: Sequence[str],
    baseline: Run | None = None,
    stopping: threading.Event | None = None,
) -> Run:
    """Run these tests of a run again, one by one; what passes now is flaky."""

    def hear(test: str, result: Result) -> None:
        run.results[test] = result
        screen.told(test, result)

    with ground(request, catalog, screen, baseline, stopping) as plan, screen.shown():
        screen.begin(len(tests), Counter())
        Runner(plan, hear).again(tests, dict(run.results))
        write_json(run, plan.logs / "result.json")
        write_junit(run, plan.logs / "junit.xml")
    return run


@contextlib.contextmanager
def ground(
    request: Request,
    catalog: Catalog,
    screen: Screen,
    baseline: Run | None,
    stopping: threading.Event | None,
) -> Iterator[Plan]:
    """Environment, sources and services of a run, for as long as it goes on."""
    suite, environment = request.suite, request.environment
    archive = check(request)
    released = Environment(CELERY, environment.version)
    for each in {environment, released} if suite.beside_celery else {environment}:
        if ensure(each, catalog):
            screen.say(f"made the environment {each}")
    request.folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        stack.enter_context(only_run(request.folder, str(request)))
        home = stack.enter_context(Home())
        folder = lay_out(request, archive, home.path / "suite")
        servers = Servers(stack)
        overlay = ensure_overlay(environment, suite)
        variables = environment_variables(environment, suite, overlay, folder)
        # Whatever a program keeps for its user goes with the run.
        variables["XDG_STATE_HOME"] = str(home.path / "state")
        for name, value in suite.variables.items():
            if REDIS in value:
                variables[name] = value.replace(REDIS, servers.redis.url)
        if suite.beside_celery:
            variables["TASKMQ_COMPAT_RELEASED"] = str(released.python)
        if request.pair:
            side = environment.side
            variables |= variables_for(servers, request.pair, side, home.path)
        yield Plan(
            command=Command(program(environment, suite), folder, variables),
            tests=request.tests or suite.tests,
            arguments=suite.arguments,
            keyword=" and ".join(f"({k})" for k in (suite.keyword, request.keyword) if k),
            work=home.path,
            logs=request.folder,
            limit=limits(request, baseline),
            processes=request.processes,
            stopping=stopping or threading.Event(),
        )


def check(request: Request) -> Path | None:
    """The sdist, if there is one. Raises `Problem` for what cannot be."""
    suite = request.suite
    if request.processes > 1 and not suite.parallel:
        raise Problem(f"the tests of {suite.name} share services: -n 1 only")
    if request.pair:
        split_pair(request.pair)
    if request.checkout is not None:
        return None
    if suite.checkout:
        raise Problem(f"{suite.name}'s tests are in no sdist: give a checkout with --checkout PATH")
    return sdist(suite.package, suite.version or request.environment.version)


@contextlib.contextmanager
def only_run(folder: Path, what: str) -> Iterator[None]:
    """Two runs of the same kind would write over each other's results."""
    with (folder / "lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Problem(f"another run of {what} is going on") from None
        yield


def lay_out(request: Request, archive: Path | None, folder: Path) -> Path:
    """A copy of the tests for this run alone: tests write where they are."""
    folder.mkdir()
    if archive is None:
        assert request.checkout is not None
        copy_checkout(request.checkout, request.suite.keep, folder)
    else:
        unpack(archive, request.suite.keep, folder)
    if request.suite.own is not None:
        shutil.copytree(SUITES / request.suite.own, folder, dirs_exist_ok=True)
    return folder


def program(environment: Environment, suite: Suite) -> Sequence[str]:
    """What starts pytest."""
    binaries = environment.folder / "bin"
    launcher = list(suite.launcher)
    if launcher:
        overlay = environment.overlay(suite)
        folders = [binaries, *([overlay / "bin"] if overlay else [])]
        launcher[0] = next(str(f / launcher[0]) for f in folders if (f / launcher[0]).exists())
        launcher = [str(environment.python), *launcher]
    return [*launcher, str(environment.python), "-m", "pytest"]


def environment_variables(
    environment: Environment, suite: Suite, overlay: Path | None, folder: Path
) -> dict[str, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(FOREIGN) and name not in ("CI", "VIRTUAL_ENV")
    }
    paths = [str(folder / each) for each in suite.paths] + [str(SUITES)]
    if overlay is not None:
        paths.insert(0, str(overlay))
    binaries = str(environment.folder / "bin")
    return inherited | {
        "PATH": os.pathsep.join([binaries, inherited.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(paths),
        "VIRTUAL_ENV": str(environment.folder),
        # Tests may ask what they are run on.
        "TASKMQ_COMPAT_SIDE": environment.side,
        **suite.variables,
    }


def limits(request: Request, baseline: Run | None) -> Callable[[str], float]:
    """How long each test may take."""
    most = request.suite.seconds * request.stretch
    least = LEAST_SECONDS * request.stretch
    if request.seconds is not None:
        fixed = request.seconds
        return lambda test: fixed
    if baseline is None:
        return lambda test: most
    known = baseline.results

    def limit(test: str) -> float:
        if test not in known:
            return most
        # One that hung had patience enough then.
        patience = 1.0 if known[test].outcome == HUNG else PATIENCE
        return min(most, max(least, patience * known[test].seconds))

    return limit


def key_of(request: Request, catalog: Catalog) -> str:
    """An interrupted run goes on only with what it was begun with."""
    ours = revision() if request.environment.side == SHIM else ""
    return "|".join(
        [
            str(request),
            contents(request.environment, catalog),
            ours,
            request.keyword,
            *request.tests,
            str(request.checkout or ""),
        ]
    )


def execute(
    request: Request,
    plan: Plan,
    screen: Screen,
    key: str,
    baseline: Run | None,
    expected: Callable[[str], bool],
) -> Run:
    """Collect, run, run again what is suspicious, write."""
    started, began = datetime.now(timezone.utc), time.monotonic()
    journal = Journal(plan.logs / "journal", key)
    found: dict[str, Result] = {} if request.fresh else journal.read()

    def hear(test: str, result: Result) -> None:
        found[test] = result
        journal.add(test, result)
        screen.told(test, result)

    runner = Runner(plan, hear)
    with screen.shown():
        collected = runner.collect()
        found = {test: each for test, each in found.items() if test in set(collected.tests)}
        if found:
            screen.say(f"goes on where it was interrupted, after {len(found)} tests")
        journal.begin(found)
        screen.begin(len(collected.tests), Counter(each.outcome for each in found.values()))
        remaining = [test for test in collected.tests if test not in found]
        runner.run(remaining, weights(baseline))
        if request.is_whole:
            failing = [test for test in collected.tests if not expected(test)]
            runner.again(suspects(found, failing), found)
    run = Run(
        suite=request.suite.name,
        side=request.environment.side,
        version=request.environment.version,
        revision=revision() if request.environment.side == SHIM else "",
        pair=request.pair,
        started_at=started.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - began, 1),
        results={**collected.errors, **in_order(collected, found)},
    )
    write_json(run, plan.logs / "result.json")
    write_junit(run, plan.logs / "junit.xml")
    journal.remove()
    return run


def in_order(collected: Collected, found: Mapping[str, Result]) -> dict[str, Result]:
    return {test: found[test] for test in collected.tests if test in found}


def weights(baseline: Run | None) -> dict[str, float]:
    """Seconds by test, as far as they are known: shares of work are made of them."""
    if baseline is None:
        return {}
    return {test: result.seconds + 0.01 for test, result in baseline.results.items()}


def baseline_environment(request: Request) -> Environment:
    return Environment(CELERY, request.environment.version)
