"""What `all` runs, how long each run takes, and what runs beside what."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from . import baselines, expectations
from .catalog import CELERY, Catalog, Suite
from .environments import SHIM, Environment
from .expectations import Expectations
from .records import read_records
from .results import BAD
from .work import Request, last_run

UNKNOWN_SECONDS = 600.0
"""Of a run that nobody has done yet."""
SETUP_SECONDS = 20.0
"""To start services and collect."""


@dataclass(frozen=True)
class Item:
    """One suite with one pair on one side."""

    request: Request
    seconds: float
    """It is expected to take so long."""

    @property
    def seats(self) -> int:
        """The pytest processes that it is."""
        return self.request.processes

    @property
    def name(self) -> str:
        return str(self.request)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.request.suite.name, self.request.pair, self.request.environment.side


def items_of(
    catalog: Catalog,
    environments: Mapping[str, Environment],
    names: Iterable[str],
    *,
    jobs: int,
    stretch: float,
) -> list[Item]:
    """Every run of the suites that are named, of all if none is; what is most work first."""
    wanted = set(names)
    found = []
    for suite in catalog.suites.values():
        if suite.checkout or (wanted and suite.name not in wanted):
            continue
        for pair in suite.pairs or ("",):
            for environment in environments.values():
                processes = min(suite.processes, jobs)
                request = Request(
                    suite, environment, pair=pair, processes=processes, stretch=stretch
                )
                seconds = SETUP_SECONDS + seconds_of(suite, pair, environment) / processes
                found.append(Item(request, seconds))
    return sorted(found, key=lambda item: -item.seconds * item.seats)


def seconds_of(suite: Suite, pair: str, environment: Environment) -> float:
    """What the tests took one after the other, in the newest run that is known."""
    if environment.side == SHIM:
        run = last_run(suite.name, pair, environment)
        if run is not None:
            return sum(each.seconds for each in run.results.values())
        for record in read_records():
            if (record.suite, record.pair) == (suite.name, pair):
                return record.shim_seconds * (suite.processes if suite.parallel else 1)
    known = baselines.durations(suite, pair, Environment(CELERY, environment.version))
    if known is None:
        return UNKNOWN_SECONDS
    return sum(each.seconds for each in known.results.values())


def known_to_fail(request: Request) -> frozenset[str]:
    """Tests that fail each time, by the baseline and by what is expected of the shim."""
    name, pair, environment = request.suite.name, request.pair, request.environment
    known = baselines.baseline(name, pair, Environment(CELERY, environment.version))
    if known is None:
        return frozenset()
    found = {test for test, result in known.results.items() if result.outcome in BAD}
    if environment.side == SHIM:
        expected = Expectations(expectations.read(name), pair)
        found |= {t for t in known.results if (e := expected.of(t)) and not e.may_pass}
    return frozenset(found)


def next_that_fits(waiting: Sequence[Item], running: Sequence[Item], jobs: int) -> Item | None:
    """The first that there are seats for.

    A run of several processes keeps the processors busy: there is one of these at a time, and
    the others leave it the seats that it needs.
    """
    free = jobs - sum(item.seats for item in running)
    kept = 0
    if not any(item.seats > 1 for item in running):
        wide = [item for item in waiting if item.seats > 1]
        if wide and wide[0].seats <= free:
            return wide[0]
        kept = max((item.seats for item in wide), default=0)
    return next((item for item in waiting if item.seats == 1 and free > kept), None)


def starts(items: Sequence[Item], jobs: int) -> tuple[list[tuple[float, Item]], float]:
    """When each would start, if all took as long as expected, and when the last would end."""
    waiting, now, end = list(items), 0.0, 0.0
    running: list[tuple[float, int, Item]] = []
    found: list[tuple[float, Item]] = []
    while waiting:
        item = next_that_fits(waiting, [each for _, _, each in running], jobs)
        if item is None:
            now, _, _ = heapq.heappop(running)
            continue
        waiting.remove(item)
        found.append((now, item))
        heapq.heappush(running, (now + item.seconds, len(found), item))
        end = max(end, now + item.seconds)
    return found, end
