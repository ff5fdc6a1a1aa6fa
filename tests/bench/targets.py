"""What we want to be: the figures that the engine is held to, beside the best of its peers.

    python -m tests.bench --targets                        all of them, the better part of an hour
    python -m tests.bench --targets --store redis --only drain --rounds 3
    python -m tests.bench --targets --from runs.json       judge what was measured earlier

A ratio is that of one round: its median over the rounds counts. What is below its target is said to
be so, and the exit code is 1 then.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .report import BETTER_IF_MORE, number
from .rounds import Cell, Plan, Run

RATE, P50, P99 = BETTER_IF_MORE, "p50 ms", "p99 ms"
CPU, MEMORY = "worker CPU µs", "worker MiB"


@dataclass(frozen=True)
class Entry:
    """One contestant in one cell."""

    who: str
    cell: Cell


def on(who: str, workload: str, store: str, pool: str = "threads", **crew: int) -> Entry:
    return Entry(who, Cell(workload, store, pool, **crew))


@dataclass(frozen=True)
class Target:
    """That a figure of ours is at least, or at most, so much, or so many times another one."""

    row: str
    ours: Entry
    figure: str = RATE
    at_least: float | None = None
    at_most: float | None = None
    times: Entry | None = None
    """Whose figure it is measured by; ``None``: it is measured by itself."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (self.ours,) if self.times is None else (self.ours, self.times)

    @property
    def wanted(self) -> str:
        bound = self.at_least if self.at_least is not None else self.at_most
        assert bound is not None
        sign = "≥" if self.at_least is not None else "≤"
        return f"{sign} {bound:g}" + (f" x {self.times.who}" if self.times else "")

    def is_met_by(self, value: float) -> bool:
        if self.at_least is not None and value < self.at_least:
            return False
        return self.at_most is None or value <= self.at_most


def _native(workload: str, store: str, pool: str = "threads", **crew: int) -> Entry:
    return on("native", workload, store, pool, **crew)


def _percentiles(
    row: str, workload: str, store: str, p50: float | None, p99: float
) -> Iterator[Target]:
    ours = _native(workload, store)
    if p50 is not None:
        yield Target(f"{row}, {store}, p50", ours, P50, at_most=p50)
    yield Target(f"{row}, {store}, p99", ours, P99, at_most=p99)


def _targets() -> Iterator[Target]:
    yield from _submitting()
    yield from _draining()
    for store in ("sqlite", "redis", "postgres"):
        for pool, most in (("solo", 25), ("asyncio", 25), ("threads", 35)):
            ours = _native("drain", store, pool)
            yield Target(f"CPU of a job, {store}, {pool}", ours, CPU, at_most=most)
        yield Target(f"memory, {store}", _native("drain", store), MEMORY, at_most=30)
        yield Target(f"idle CPU, {store}", _native("idle", store), "CPU %", at_most=1)
        yield from _percentiles("urgent", "urgent", store, None, 50)
    for store in ("redis", "postgres"):
        yield Target(f"idle commands, {store}", _native("idle", store), "commands/s", at_most=1)
    for store, p50, p99 in (("redis", 1.2, 2), ("postgres", 3, 6), ("sqlite", 5, 12)):
        yield from _percentiles("latency", "latency", store, p50, p99)
    for workload, figure, of_huey, of_celery in (
        ("round_trip", P50, 1.2, 0.4),
        ("chain", "ms", 1, 0.33),
        ("fan_out", "ms", 1, 0.33),
    ):
        for who, bound in (("huey", of_huey), ("celery", of_celery)):
            row, ours = f"{workload.replace('_', ' ')}, redis", _native(workload, "redis")
            other = on(who, workload, "redis")
            yield Target(row, ours, figure, at_most=bound, times=other)
    yield from _of_the_shim()


def _submitting() -> Iterator[Target]:
    for store, workload, who, bound in (
        ("sqlite", "enqueue", "taskito", 1.6),
        ("sqlite", "bulk", "taskito", 3.7),
        ("redis", "enqueue", "limit", 0.85),
        ("redis", "enqueue", "celery", 4),
        ("redis", "bulk", "rq", 9),
        ("postgres", "enqueue", "limit", 0.85),
        ("postgres", "bulk", "pgqueuer", 1.8),
        ("rabbitmq", "enqueue", "dramatiq", 1.2),
        ("rabbitmq", "bulk", "dramatiq", 5),
    ):
        row, ours = f"{workload}, {store}", _native(workload, store)
        yield Target(row, ours, at_least=bound, times=on(who, workload, store))


def _draining() -> Iterator[Target]:
    threads = "drain, {}, threads x{}"
    for store, processes, who, bound in (
        ("sqlite", 1, "huey", 7),
        ("sqlite", 1, "taskito", 120),
        ("redis", 1, "celery", 20),
        ("redis", 1, "taskiq", 8),
        ("redis", 2, "taskiq", 5),
        ("postgres", 1, "pgqueuer", 1.6),
        ("postgres", 1, "procrastinate", 40),
        ("rabbitmq", 1, "dramatiq", 1.3),
    ):
        row, ours = threads.format(store, processes), _native("drain", store, processes=processes)
        other = on(who, "drain", store, processes=processes)
        yield Target(row, ours, at_least=bound, times=other)
    pair = {"concurrency": 2}
    yield Target(
        "drain, redis, asyncio",
        _native("drain", "redis", "asyncio"),
        at_least=5,
        times=on("taskiq-uvloop", "drain", "redis"),
    )
    yield Target(
        "drain, redis, processes 2",
        _native("drain", "redis", "processes", **pair),
        at_least=12,
        times=on("celery", "drain", "redis", "processes", **pair),
    )


def _of_the_shim() -> Iterator[Target]:
    for row, at_least, entry in (
        ("apply_async, redis", 2, ("enqueue", "redis")),
        ("drain, redis, prefork", 5, ("drain", "redis", "processes")),
        ("drain, redis, threads", 5, ("drain", "redis")),
    ):
        theirs = on("celery", *entry, concurrency=2 if "prefork" in row else 8)
        ours = Entry("shim", theirs.cell)
        yield Target(f"shim: {row}", ours, at_least=at_least, times=theirs)


TARGETS = tuple(_targets())


def chosen(stores: Sequence[str] | None, workloads: Sequence[str] | None) -> list[Target]:
    """The targets on these stores and of these workloads; ``None``: all of them."""
    return [
        target
        for target in TARGETS
        if (not stores or target.ours.cell.store in stores)
        and (not workloads or target.ours.cell.workload in workloads)
    ]


def plan_for(targets: Iterable[Target]) -> Plan:
    """The runs that are needed to judge them, each once."""
    plan: dict[Cell, list[str]] = {}
    for target in targets:
        for entry in target.entries:
            names = plan.setdefault(entry.cell, [])
            if entry.who not in names:
                names.append(entry.who)
    return plan


@dataclass(frozen=True)
class Verdict:
    """What came of a target."""

    target: Target
    ours: float | None
    """The median of our figure; ``None``: it was not measured."""
    theirs: float | None = None
    value: float | None = None
    """What is judged: the median of the ratios of all rounds, or of our figure."""

    @property
    def met(self) -> bool:
        return self.value is not None and self.target.is_met_by(self.value)


def judge(targets: Iterable[Target], runs: Iterable[Run]) -> list[Verdict]:
    """What the runs say of each target."""
    figures: dict[Entry, dict[int, dict[str, float]]] = {}
    for run in runs:
        if run.figures:
            entry = Entry(run.contestant, run.cell)
            figures.setdefault(entry, {})[run.round] = run.figures
    return [_judged(target, figures) for target in targets]


def _judged(target: Target, figures: dict[Entry, dict[int, dict[str, float]]]) -> Verdict:
    ours = {n: found[target.figure] for n, found in figures.get(target.ours, {}).items()}
    if not ours:
        return Verdict(target, None)
    median = statistics.median(ours.values())
    if target.times is None:
        return Verdict(target, median, value=median)
    theirs = {n: found[target.figure] for n, found in figures.get(target.times, {}).items()}
    ratios = [ours[n] / theirs[n] for n in ours if theirs.get(n)]
    if not ratios:
        return Verdict(target, median)
    return Verdict(target, median, statistics.median(theirs.values()), statistics.median(ratios))


def table(verdicts: Sequence[Verdict]) -> str:
    """In Markdown: every target, what was measured, and whether that is enough."""
    lines = [
        "| row | wanted | measured | ours | theirs | met |",
        "|---|---|--:|--:|--:|---|",
    ]
    for verdict in verdicts:
        target = verdict.target
        measured = ["-" if v is None else number(v) for v in (verdict.value, verdict.ours)]
        theirs = "" if verdict.theirs is None else number(verdict.theirs)
        said = "yes" if verdict.met else "no" if verdict.value is not None else "not measured"
        cells = (f"{target.row} ({target.figure})", target.wanted, *measured, theirs, said)
        lines.append("| " + " | ".join(cells) + " |")
    met = sum(verdict.met for verdict in verdicts)
    return "\n".join([*lines, "", f"{met} of {len(verdicts)} targets are met.", ""])
