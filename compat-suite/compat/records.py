"""What is kept of comparisons: the last ones in results.json, the trend in history.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .catalog import Catalog
from .expectations import DIFFERS_BY_DESIGN, NOT_YET, PRIVATE_INTERNALS
from .places import HISTORY, RESULTS
from .results import Run
from .verdict import Verdict, per_file
from .work import CHANGED

KINDS = (DIFFERS_BY_DESIGN, PRIVATE_INTERNALS, NOT_YET)
"""Of what passes on the real Celery and not on the shim."""


@dataclass(frozen=True)
class Record:
    """One suite on both sides."""

    suite: str
    pair: str
    version: str
    """Of the real Celery."""
    revision: str
    """Of taskmq."""
    measured_at: str
    shim_seconds: float
    celery_seconds: float
    collected: int
    celery: int
    shim: int
    flaky: int
    classes: dict[str, int] = field(default_factory=dict)
    files: dict[str, dict[str, int]] = field(default_factory=dict)
    """``tests``, ``celery`` and ``shim`` passes, and the classes, of every file."""

    @property
    def title(self) -> str:
        return f"{self.suite} ({self.pair})" if self.pair else self.suite

    @property
    def share(self) -> float:
        """What the shim passes of what the real Celery passes."""
        return self.shim / self.celery if self.celery else 1.0


def record_of(run: Run, baseline: Run, verdict: Verdict) -> Record:
    return Record(
        suite=run.suite,
        pair=run.pair,
        version=baseline.version,
        revision=run.revision,
        measured_at=run.started_at,
        shim_seconds=run.seconds,
        celery_seconds=baseline.seconds,
        collected=verdict.collected,
        celery=verdict.celery,
        shim=verdict.shim,
        flaky=len(run.flaky()),
        classes=dict(verdict.by_class()),
        files={file: dict(counts) for file, counts in per_file(verdict, baseline).items()},
    )


def read_records() -> list[Record]:
    if not RESULTS.exists():
        return []
    return [Record(**said) for said in json.loads(RESULTS.read_text())]


def update(new: Iterable[Record], catalog: Catalog) -> list[Record]:
    """Put new records in the place of older ones, on disk too; all of them, in suites' order.

    Somebody else may have measured later, and it came with their commits.
    """
    known = {(each.suite, each.pair): each for each in read_records()}
    for each in new:
        kept = known.get((each.suite, each.pair))
        if kept is None or kept.measured_at <= each.measured_at:
            known[each.suite, each.pair] = each
    records = [known[key] for key in runs_of(catalog) if key in known]
    RESULTS.write_text(json.dumps([asdict(each) for each in records], indent=1) + "\n")
    return records


def runs_of(catalog: Catalog) -> list[tuple[str, str]]:
    """Every suite with every pair, in the order of suites.toml."""
    return [
        (suite.name, pair) for suite in catalog.suites.values() for pair in suite.pairs or ("",)
    ]


# ---------------------------------------------------------------------------------------- trend


def read_history() -> list[dict[str, Any]]:
    return list(json.loads(HISTORY.read_text())) if HISTORY.exists() else []


def extend_history(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Add what has been measured since; a point is a suite's totals at one commit.

    What was measured with changes that are in no commit is nobody's to repeat.
    """
    points = read_history()
    known = {(each["suite"], each["pair"], each["measured_at"]) for each in points}
    points += [
        {
            "suite": each.suite,
            "pair": each.pair,
            "measured_at": each.measured_at,
            "revision": each.revision,
            "shim": each.shim,
            "celery": each.celery,
            "collected": each.collected,
        }
        for each in records
        if (each.suite, each.pair, each.measured_at) not in known
        and not each.revision.endswith(CHANGED)
    ]
    lines = ",\n".join(f" {json.dumps(point)}" for point in points)
    HISTORY.write_text(f"[\n{lines}\n]\n")
    return points
