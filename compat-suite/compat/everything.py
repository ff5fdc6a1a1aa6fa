"""`all`: every suite on both sides, side by side as far as there are seats, then the verdicts.

A seat is a pytest process. The tests of these suites wait for most of their time, so there are more
seats than processors, and time limits are longer in return. What has failed although nobody expects
it is run once more at the end, when nothing else runs any more. Runs that were finished when the
whole was interrupted are not done again.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from rich.console import Console
from rich.table import Table

from . import baselines, expectations, work
from .catalog import CELERY, Catalog
from .environments import SHIM, Environment, ensure
from .places import RUNS
from .plan import Item, known_to_fail, next_that_fits, starts
from .results import BAD, Run
from .runner import FEW
from .screen import Board, Screen
from .verdict import Verdict, compare

SEATS_PER_PROCESSOR = 4
LOOK_SECONDS = 1.0


def default_jobs() -> int:
    return SEATS_PER_PROCESSOR * (os.cpu_count() or 1)


def stretch_for(jobs: int) -> float:
    """How much longer tests may take with so many beside each other."""
    return max(1.0, jobs / (os.cpu_count() or 1) / 2)


def show_plan(console: Console, items: Sequence[Item], jobs: int) -> None:
    """What would be run when, by what runs have taken so far."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("starts", "run", "processes", "takes"):
        table.add_column(name, justify="left" if name == "run" else "right")
    planned, end = starts(items, jobs)
    for start, item in planned:
        minutes = f"{item.seconds / 60:.0f} min"
        table.add_row(f"+{start / 60:.0f} min", item.name, str(item.seats), minutes)
    console.print(table)
    alone = sum(item.seconds for item in items)
    console.print(
        f"[bold]{len(items)} runs in about {end / 60:.0f} min[/bold] with {jobs} processes beside "
        f"each other, {alone / 60:.0f} min one after the other; by the durations of the runs "
        "before, which are longer where the machine was busy then",
        highlight=False,
    )


class Progress:
    """Which runs are done, on disk: an interrupted `all` goes on with the others."""

    def __init__(self, path: Path, key: str) -> None:
        self._path, self._key = path, key
        self._done: set[str] = set()
        if path.exists():
            said = json.loads(path.read_text())
            self._done = set(said["done"]) if said["key"] == key else set()

    def has(self, item: Item) -> bool:
        return item.name in self._done

    def add(self, item: Item) -> None:
        self._done.add(item.name)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps({"key": self._key, "done": sorted(self._done)}))

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)


class Everything:
    """Carries out a plan. `run` gives the runs, or raises `KeyboardInterrupt`."""

    def __init__(
        self, catalog: Catalog, console: Console, jobs: int, *, fresh: bool, where: Path = RUNS
    ) -> None:
        self._catalog = catalog
        self._console = console
        self._jobs = jobs
        self._progress = Progress(where / "all.json", work.revision())
        if fresh:
            self._progress.clear()
            self._progress = Progress(where / "all.json", work.revision())
        self._stopping = threading.Event()

    def run(self, items: Sequence[Item]) -> None:
        """All of them, until each has a result. Raises `Problem`."""
        waiting = [item for item in items if not self._progress.has(item)]
        if len(waiting) < len(items):
            skipped = len(items) - len(waiting)
            self._console.print(f"goes on where it was interrupted, after {skipped} runs")
        board = Board(self._console, len(items))
        running: dict[Future[None], tuple[Item, list[Screen]]] = {}
        with board.shown(), ThreadPoolExecutor(max_workers=self._jobs) as pool:
            try:
                while waiting or running:
                    self._start(pool, board, waiting, running)
                    done, _ = wait(running, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
                    for future in done:
                        item, _ = running.pop(future)
                        future.result()
                        self._progress.add(item)
                        board.say_done(item.name, len(items) - len(waiting) - len(running))
                    board.update(
                        len(items) - len(waiting) - len(running),
                        self._left(waiting, running.values()),
                    )
            except BaseException:
                self._stopping.set()
                raise

    def _start(
        self,
        pool: ThreadPoolExecutor,
        board: Board,
        waiting: list[Item],
        running: dict[Future[None], tuple[Item, list[Screen]]],
    ) -> None:
        while item := next_that_fits(waiting, [each for each, _ in running.values()], self._jobs):
            waiting.remove(item)
            screens: list[Screen] = []
            running[pool.submit(self._carry_out, item, board, screens)] = item, screens

    def _carry_out(self, item: Item, board: Board, screens: list[Screen]) -> None:
        request = item.request
        durations = baselines.durations(request.suite, request.pair, real(request.environment))
        with board.screen(item.name) as screen:
            screens.append(screen)
            # What fails is run again at the end, when the machine is quiet.
            work.carry_out(
                request,
                self._catalog,
                screen,
                baseline=durations,
                expected=lambda test: True,
                once=known_to_fail(request),
                stopping=self._stopping,
            )

    def _left(self, waiting: Sequence[Item], running: Iterable[tuple[Item, list[Screen]]]) -> float:
        """Seconds until the last would end, if all go on as expected."""
        rest = [
            Item(item.request, item.seconds * (1 - (screens[0].share if screens else 0.0)))
            for item, screens in running
        ]
        return starts([*rest, *waiting], self._jobs)[1]

    def run_again(self, items: Sequence[Item]) -> None:
        """What has failed although nobody expects it, one test at a time."""
        for item in items:
            request = item.request
            run = work.last_run(request.suite.name, request.pair, request.environment)
            tests = suspicious(item, run) if run is not None else []
            if run is None or not 0 < len(tests) <= FEW:
                continue
            screen = Screen(self._console, f"{item.name}, once more")
            durations = baselines.durations(request.suite, request.pair, real(request.environment))
            work.once_more(request, self._catalog, screen, run, tests, durations)

    def clear(self) -> None:
        self._progress.clear()


def real(environment: Environment) -> Environment:
    return Environment(CELERY, environment.version)


def suspicious(item: Item, run: Run) -> list[str]:
    """Tests that failed in a run and should have passed, as far as is known."""
    request = item.request
    name, pair = request.suite.name, request.pair
    if request.environment.side == SHIM:
        verdict = verdict_of(name, pair, request.environment, run)
        found = {case.test for case in verdict.unexpected_failures} if verdict else set()
        return [test for test in run.results if test in found]
    known = baselines.kept(name, pair, request.environment)
    passes = known.passed() if known is not None else set(run.results)
    return [t for t, each in run.results.items() if each.outcome in BAD and t in passes]


def verdict_of(suite: str, pair: str, environment: Environment, run: Run) -> Verdict | None:
    """None where there is nothing to compare with."""
    known = baselines.baseline(suite, pair, real(environment))
    if known is None:
        return None
    return compare(run, known, expectations.Expectations(expectations.read(suite), pair))


def make_environments(
    catalog: Catalog, environments: Mapping[str, Environment], console: Console
) -> None:
    """Beside each other: that is mostly unpacking. Raises `Problem`."""
    with ThreadPoolExecutor() as pool:
        making = {pool.submit(ensure, each, catalog): each for each in environments.values()}
        for future, environment in making.items():
            if future.result():
                console.print(f"made the environment {environment}", highlight=False)
