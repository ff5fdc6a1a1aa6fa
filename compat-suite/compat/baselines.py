"""What the real Celery passes: of the last run here, else as the repository keeps it.

The kept files are there for those who have no time for the whole: they name every test, by file and
outcome, and how long the slow ones take.
"""

from __future__ import annotations

import json

from .catalog import Suite
from .environments import Environment
from .places import BASELINES
from .results import Result, Run, file_of
from .work import last_run

SLOW_SECONDS = 1.0
"""What takes less is not worth a word."""


def baseline(suite: str, pair: str, environment: Environment) -> Run | None:
    """The real Celery's run of a suite, as new as there is one."""
    return last_run(suite, pair, environment) or kept(suite, pair, environment)


def durations(suite: Suite, pair: str, environment: Environment) -> Run | None:
    """How long tests take: by the run of this pair, else by that of another one."""
    for each in (pair, *suite.pairs):
        known = baseline(suite.name, each, environment)
        if known is not None:
            return known
    return None


def kept(suite: str, pair: str, environment: Environment) -> Run | None:
    path = BASELINES / f"{name_of(suite, pair, environment.version)}.json"
    if not path.exists():
        return None
    content = json.loads(path.read_text())
    results = {
        (f"{file}::{test}" if test else file): Result(
            outcome, content["slow"].get(f"{file}::{test}", 0.0)
        )
        for file, outcomes in content.pop("files").items()
        for outcome, tests in outcomes.items()
        for test in tests
    }
    del content["slow"]
    return Run(**content, results=results)


def name_of(suite: str, pair: str, version: str) -> str:
    return f"{suite}@{pair}-{version}" if pair else f"{suite}-{version}"


def keep(run: Run) -> None:
    """Write a run into the repository."""
    files: dict[str, dict[str, list[str]]] = {}
    for test, result in run.results.items():
        name = test.partition("::")[2]
        files.setdefault(file_of(test), {}).setdefault(result.outcome, []).append(name)
    slow = {
        test: round(result.seconds, 1)
        for test, result in run.results.items()
        if result.seconds >= SLOW_SECONDS
    }
    content = {
        "suite": run.suite,
        "side": run.side,
        "version": run.version,
        "revision": run.revision,
        "pair": run.pair,
        "started_at": run.started_at,
        "seconds": run.seconds,
        "slow": slow,
        "files": files,
    }
    BASELINES.mkdir(exist_ok=True)
    path = BASELINES / f"{name_of(run.suite, run.pair, run.version)}.json"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
