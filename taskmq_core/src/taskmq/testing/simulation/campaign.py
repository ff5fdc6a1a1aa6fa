"""Many simulations, in one process or several."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TextIO

from .run import simulate
from .schedule import Schedule

__all__ = ["Campaign", "Progress"]

CHUNK = 20
"""Seeds that a process gets at once."""
TELL_EVERY = 10.0


@dataclass(frozen=True)
class Outcome:
    """What is left of some reports when they come from another process."""

    numbers: Counter[str]
    failed: Schedule | None


class Progress:
    """Counts, and now and then says so."""

    def __init__(self, wanted: int, stream: TextIO | None = None) -> None:
        self._wanted = wanted
        self._stream = stream
        self._numbers: Counter[str] = Counter()
        self._began = self._told = time.monotonic()

    def add(self, numbers: Counter[str]) -> None:
        """Some more are done."""
        self._numbers += numbers
        if self._stream is not None and time.monotonic() - self._told > TELL_EVERY:
            self._told = time.monotonic()
            share = self._numbers["seeds"] / self._wanted
            print(f"{share:4.0%}  {self.summary()}", file=self._stream, flush=True)

    def summary(self) -> str:
        """In words."""
        seconds = time.monotonic() - self._began
        numbers = ", ".join(f"{count:,} {name}" for name, count in self._numbers.items())
        return f"{numbers} in {seconds:.1f} s"


class Campaign:
    """Runs seeds, in ``jobs`` processes."""

    def __init__(self, steps: int, transport: str, jobs: int = 1) -> None:
        self._steps = steps
        self._transport = transport
        self._jobs = jobs

    def run(self, seeds: Iterable[int], progress: Progress) -> Schedule | None:
        """Up to the first schedule that breaks a rule, which is returned. Raises `ConfigError`."""
        for outcome in self._outcomes(seeds):
            progress.add(outcome.numbers)
            if outcome.failed is not None:
                return outcome.failed
        return None

    def _outcomes(self, seeds: Iterable[int]) -> Iterator[Outcome]:
        if self._jobs == 1:
            yield from map(self._run_one, seeds)
            return
        with ProcessPoolExecutor(self._jobs) as pool:
            try:
                yield from pool.map(self._run_one, seeds, chunksize=CHUNK)
            finally:
                pool.shutdown(cancel_futures=True)

    def _run_one(self, seed: int) -> Outcome:
        report = simulate(seed, self._steps, self._transport)
        numbers = Counter(
            seeds=1,
            steps=report.steps,
            jobs=report.jobs,
            runs=report.runs,
            crashes=report.crashes,
            faults=report.faults,
        )
        return Outcome(numbers, report.schedule if report.violations else None)
