"""What the shim costs a program beside the real Celery: to import, to ask for help, to send.

python -m tests.bench.beside_celery --shim ../shim/bin/python --celery ../celery/bin/python

Each Python has redis; one the shim, the other the real Celery. Runs of the two take turns, so that
what else the machine does is shared by both; printed are medians, and the median of the ratios,
which is what to look at on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests import services

SEND = """
import sys, time
from celery import Celery
url = sys.argv[1]
app = Celery("bench", broker=url, backend=url)
@app.task(name="bench.add")
def add(x, y): return x + y
for _ in range(100): add.apply_async((1, 2))
begun = time.process_time()
for number in range(1000): add.apply_async((number, 2))
print((time.process_time() - begun) / 1000 * 1e6)
"""

Measure = Callable[[str], float]

NOT_HERE = frozenset({"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"})
"""Variables that would let one of the two compile its modules at each start."""


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--celery", required=True, help="a Python that has the real Celery")
    parser.add_argument("--shim", default=sys.executable, help="one with the shim (default: this)")
    parser.add_argument("--rounds", type=int, default=20, help="of each (default: 20)")
    given = parser.parse_args(argv)
    with services.Redis() as redis, tempfile.TemporaryDirectory() as folder:
        measures: dict[str, Measure] = {
            "python: CPU ms": lambda python: _cpu([python, "-c", "pass"], folder),
            "import celery: CPU ms": lambda python: _cpu([python, "-c", "import celery"], folder),
            "celery --help: CPU ms": lambda python: _cpu(
                [python, "-m", "celery", "--help"], folder
            ),
            "celery --help: wall ms": lambda python: _wall(
                [python, "-m", "celery", "--help"], folder
            ),
            "apply_async: CPU us": lambda python: _sending(python, redis.url, folder),
        }
        for name, measure in measures.items():
            _compare(name, measure, given.shim, given.celery, given.rounds)


def _compare(name: str, measure: Measure, shim_python: str, celery: str, rounds: int) -> None:
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(measure(shim_python))
        theirs.append(measure(celery))
    shim, real = statistics.median(ours), statistics.median(theirs)
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    print(
        f"{name:24} shim {shim:8.1f}  Celery {real:8.1f}  ratio {ratio:.2f}"
        f"  (least {min(ours):.1f} and {min(theirs):.1f}, {rounds} rounds)",
        flush=True,
    )


def _cpu(command: list[str], folder: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _run(command, folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def _wall(command: list[str], folder: str) -> float:
    begun = time.perf_counter()
    _run(command, folder)
    return (time.perf_counter() - begun) * 1e3


def _sending(python: str, url: str, folder: str) -> float:
    return float(_run([python, "-c", SEND, url], folder).split()[-1])


def _run(command: list[str], folder: str) -> str:
    """In a folder without modules, so that nothing but what is installed is imported."""
    program = str(Path(command[0]).absolute())
    environment = {name: v for name, v in os.environ.items() if name not in NOT_HERE}
    done = subprocess.run(
        [program, *command[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


if __name__ == "__main__":
    main()
