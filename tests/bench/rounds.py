"""Which runs there are, and doing them: contestants take turns, so that they share the noise."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from .contestants.base import Order
from .environments import ENTRANTS, TOP, python_of
from .stores import Place, a_store

JOBS = {
    "enqueue": 5_000,
    "bulk": 20_000,
    "drain": 10_000,
    "latency": 50,
    "urgent": 50,
    "round_trip": 200,
    "chain": 100,
    "fan_out": 100,
    "idle": 1,
}
"""How many of everything, unless told otherwise. The names are those of the workloads."""
SUBMITTING = ("enqueue", "bulk")
"""The workloads that need no worker."""
TIMEOUT = 600.0
Plan = Mapping["Cell", Sequence[str]]
"""Who takes part in what."""


@dataclass(frozen=True)
class Cell:
    """What is compared: all of its contestants do the same."""

    workload: str
    store: str
    pool: str = "threads"
    processes: int = 1
    concurrency: int = 8

    def __lt__(self, other: Cell) -> bool:
        """In the order of the workloads, as people read them."""
        return self._place < other._place

    @property
    def _place(self) -> tuple[int, str, str, int, int]:
        crew = self.pool, self.processes, self.concurrency
        return list(JOBS).index(self.workload), self.store, *crew

    @property
    def title(self) -> str:
        title = f"{self.workload.replace('_', ' ')}, {self.store}"
        if self.workload in SUBMITTING:
            return title
        return f"{title}, {self.pool} {self.concurrency} x{self.processes}"


@dataclass(frozen=True)
class Run:
    """What one contestant came to in one round. ``error``: it came to nothing, and why."""

    workload: str
    store: str
    pool: str
    processes: int
    contestant: str
    round: int
    jobs: int
    figures: dict[str, float]
    error: str = ""
    concurrency: int = 8

    @property
    def cell(self) -> Cell:
        return Cell(self.workload, self.store, self.pool, self.processes, self.concurrency)


@dataclass(frozen=True)
class Manner:
    """How it is measured."""

    rounds: int = 5
    jobs: int | None = None
    """Of a run; ``None``: as each workload needs them."""
    seconds: float = 3.0
    """How long idle workers are watched."""
    fsync: bool = True


def plan_of(
    stores: Sequence[str],
    workloads: Sequence[str],
    crews: Sequence[tuple[str, int, int]],
    contestants: Sequence[str],
) -> Plan:
    """Everything with everything, as far as a contestant can: each crew is a pool, how many
    processes, and how many jobs each of them runs at once."""
    plan: dict[Cell, list[str]] = {}
    for store in stores:
        for workload in workloads:
            for crew in crews[:1] if workload in SUBMITTING else crews:
                cell = Cell(workload, store, *crew)
                plan[cell] = [name for name in contestants if takes_part(name, cell)]
    return plan


def takes_part(name: str, cell: Cell) -> bool:
    entrant = ENTRANTS[name]
    if cell.pool == "asyncio" and name != "native":
        return False
    return cell.store in entrant.stores and cell.workload not in entrant.lacks


def run_all(plan: Plan, manner: Manner, seed: int = 1) -> Iterator[Run]:
    """Every run, as soon as it is done. In each round the cells, and in each cell the contestants,
    come in an order of their own."""
    chance = random.Random(seed)
    for name in dict.fromkeys(name for names in plan.values() for name in names):
        python_of(name)
    for store in dict.fromkeys(cell.store for cell in plan):
        with a_store(store, fsync=manner.fsync) as place:
            for number in range(manner.rounds):
                cells = [cell for cell in plan if cell.store == store]
                chance.shuffle(cells)
                for cell in cells:
                    names = list(plan[cell])
                    chance.shuffle(names)
                    for name in names:
                        yield run_one(manner, cell, name, number, place)


def run_one(manner: Manner, cell: Cell, name: str, number: int, place: Place) -> Run:
    """One contestant, once, on an empty store."""
    jobs = manner.jobs or JOBS[cell.workload]
    with tempfile.TemporaryDirectory(prefix="taskmq-bench-", dir=_memory()) as folder:
        order = Order(
            contestant=ENTRANTS[name].module,
            workload=cell.workload,
            store=cell.store,
            url=place.new_url(),
            marks=f"{folder}/marks",
            jobs=jobs,
            pool=cell.pool,
            concurrency=cell.concurrency,
            processes=cell.processes,
            seconds=manner.seconds,
            probe=place.probe,
        )
        with place.at_rest() if cell.workload == "idle" else nullcontext():
            figures, error = _run(name, order)
    where = (cell.workload, cell.store, cell.pool, cell.processes)
    return Run(*where, name, number, jobs, figures, error, cell.concurrency)


def _run(name: str, order: Order) -> tuple[dict[str, float], str]:
    command = [str(python_of(name)), "-m", "tests.bench.contestants"]
    environment = {**order.environment(), "PYTHONPATH": str(TOP)}
    try:
        done = subprocess.run(
            command, cwd=TOP, env=environment, capture_output=True, text=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return {}, f"took longer than {TIMEOUT:g} s"
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return {}, done.stderr.strip().rpartition("\n")[2]
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures, ""


def _memory() -> str | None:
    """A folder in memory, where the system has one: marks are no part of what is measured."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108  # made by mkdtemp there
