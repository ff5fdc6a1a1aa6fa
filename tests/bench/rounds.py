"""Which runs there are, and doing them: contestants take turns, so that they share the noise."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
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
    "round_trip": 200,
    "chain": 100,
    "fan_out": 100,
    "idle": 1,
}
"""How many of everything, unless told otherwise. The names are those of the workloads."""
TIMEOUT = 600.0


@dataclass(frozen=True)
class Cell:
    """What is compared: all of its contestants do the same."""

    workload: str
    store: str
    pool: str
    processes: int

    def __lt__(self, other: Cell) -> bool:
        """In the order of the workloads, as people read them."""
        return self._place < other._place

    @property
    def _place(self) -> tuple[int, str, str, int]:
        return list(JOBS).index(self.workload), self.store, self.pool, self.processes

    @property
    def title(self) -> str:
        crew = "" if self.workload in ("enqueue", "bulk") else f", {self.pool} x{self.processes}"
        return f"{self.workload.replace('_', ' ')}, {self.store}{crew}"


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

    @property
    def cell(self) -> Cell:
        return Cell(self.workload, self.store, self.pool, self.processes)


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for."""

    stores: Sequence[str]
    workloads: Sequence[str]
    pools: Sequence[str]
    processes: Sequence[int]
    contestants: Sequence[str]
    rounds: int
    jobs: int | None = None
    concurrency: int = 8
    seconds: float = 3.0
    fsync: bool = True

    def cells(self, store: str) -> Iterator[Cell]:
        for workload in self.workloads:
            crews = [(pool, count) for pool in self.pools for count in self.processes]
            if workload in ("enqueue", "bulk"):
                crews = crews[:1]
            for pool, count in crews:
                yield Cell(workload, store, pool, count)

    def contestants_of(self, cell: Cell) -> list[str]:
        return [
            name
            for name in self.contestants
            if cell.store in ENTRANTS[name].stores
            and cell.workload not in ENTRANTS[name].lacks
            and (cell.pool != "asyncio" or name == "native")
        ]


def run_all(wanted: Wanted, seed: int = 1) -> Iterator[Run]:
    """Every run, as soon as it is done. In each round the cells, and in each cell the contestants,
    come in an order of their own."""
    chance = random.Random(seed)
    for name in wanted.contestants:
        python_of(name)
    for store in wanted.stores:
        with a_store(store, fsync=wanted.fsync) as place:
            for number in range(wanted.rounds):
                cells = list(wanted.cells(store))
                chance.shuffle(cells)
                for cell in cells:
                    names = wanted.contestants_of(cell)
                    chance.shuffle(names)
                    for name in names:
                        yield run_one(wanted, cell, name, number, place)


def run_one(wanted: Wanted, cell: Cell, name: str, number: int, place: Place) -> Run:
    """One contestant, once, on an empty store."""
    jobs = wanted.jobs or JOBS[cell.workload]
    with tempfile.TemporaryDirectory(prefix="taskmq-bench-", dir=_memory()) as folder:
        order = Order(
            contestant=ENTRANTS[name].module,
            workload=cell.workload,
            store=cell.store,
            url=place.new_url(),
            marks=f"{folder}/marks",
            jobs=jobs,
            pool=cell.pool,
            concurrency=wanted.concurrency,
            processes=cell.processes,
            seconds=wanted.seconds,
            probe=place.probe,
        )
        figures, error = _run(name, order)
    where = (cell.workload, cell.store, cell.pool, cell.processes)
    return Run(*where, name, number, jobs, figures, error)


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
