"""The acts. Each does one thing and gives what was promised beside what was seen."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stage import LEASE, Place, Stage, Worker

HERE = Path(__file__).parent
RUSH = 40
QUEUES = ("-Q", "celery,warehouse")

TUTORIAL = """
import json
from tasks import add
print(json.dumps([add.delay(n, n).get(timeout=30) for n in (2, 4, 8)]))
"""

NEXT_STEPS = """
import json
from celery import chain
from proj.tasks import add, mul, xsum
print(json.dumps({
    "mul": mul.delay(6, 7).get(timeout=30),
    "xsum": xsum.delay([1, 2, 3, 4]).get(timeout=30),
    "chain": chain(add.s(2, 2), mul.s(8), add.s(10)).apply_async().get(timeout=30),
    "countdown": add.apply_async((2, 2), countdown=0.5).get(timeout=30),
}))
"""

APP = """
import json
from myapp import add
print(json.dumps(add.delay(16, 16).get(timeout=60)))
"""


@dataclass(frozen=True)
class Check:
    """One promise."""

    act: str
    promise: str
    expected: Any
    seen: Any

    @property
    def kept(self) -> bool:
        return bool(self.expected == self.seen)


def tutorial(stage: Stage) -> Iterator[Check]:
    """examples/tutorial: one task, called three times."""
    place = stage.place(stage.root / "tutorial")
    worker = stage.worker(place, "tasks", "-c", "2")
    worker.wait_for(r" ready\.")
    yield Check("tutorial", "add(2,2), add(4,4), add(8,8)", [4, 8, 16], place.ask("-c", TUTORIAL))
    yield Check("tutorial", "SIGTERM: the worker exits with", 0, worker.stop())


def next_steps(stage: Stage) -> Iterator[Check]:
    """examples/next-steps: a package, three tasks, a chain, a countdown."""
    place = stage.place(stage.root / "next-steps")
    worker = stage.worker(place, "proj", "-c", "2")
    worker.wait_for(r" ready\.")
    seen = place.ask("-c", NEXT_STEPS)
    yield Check("next-steps", "mul(6, 7)", 42, seen["mul"])
    yield Check("next-steps", "xsum([1, 2, 3, 4])", 10, seen["xsum"])
    yield Check("next-steps", "chain: add(2, 2) | mul(8) | add(10)", 42, seen["chain"])
    yield Check("next-steps", "add(2, 2) with countdown=0.5", 4, seen["countdown"])
    yield Check("next-steps", "SIGTERM: the worker exits with", 0, worker.stop())


class App:
    """examples/app: its task sleeps for ten seconds, so it is started first and seen to last."""

    def __init__(self, stage: Stage) -> None:
        self._place = stage.place(stage.root / "app")
        self._worker = stage.worker(self._place, "myapp", "-c", "1")
        self._worker.wait_for(r" ready\.")
        self._began = time.monotonic()
        # Sent now, asked for later: the id is all that is needed.
        self._id = self._place.ask(
            "-c", "import json; from myapp import add; print(json.dumps(add.delay(16, 16).id))"
        )

    def finish(self) -> Iterator[Check]:
        ask = f"import json; from myapp import app; print(json.dumps(app.AsyncResult({self._id!r})"
        yield Check("app", "add(16, 16)", 32, self._place.ask("-c", f"{ask}.get(timeout=30)))"))
        took = time.monotonic() - self._began
        yield Check("app", "its task slept for 10 s", True, 10 <= took < 60)
        yield Check("app", "SIGTERM: the worker exits with", 0, self._worker.stop())


def program_place(stage: Stage) -> Place:
    """A copy of our own program, with a journal of its runs."""
    folder = stage.root / "program"
    shutil.copytree(HERE / "program", folder, ignore=shutil.ignore_patterns("__pycache__"))
    journal = folder / "journal.txt"
    return stage.place(folder, ORDERS_JOURNAL=str(journal), TASKMQ_LEASE=f"{LEASE:g}")


def program(stage: Stage, place: Place) -> Iterator[Check]:
    """Our own, larger program: retries, a chain, a failure, a second queue."""
    worker = stage.worker(place, "orders", "-c", "4", *QUEUES)
    worker.wait_for(r" ready\.")
    seen = place.ask("shop.py", "day")
    bill = "Ada pays 34.87 EUR"
    yield Check("program", "chain: price | add_shipping | invoice", bill, seen["bill"])
    charged = {"order": 1, "attempts": 3}
    yield Check("program", "autoretry_for: done at the third attempt", charged, seen["charged"])
    yield Check("program", "another queue, countdown=0.3", 1, seen["packed"])
    declined = "CardDeclined: order 2: card declined"
    yield Check("program", "a failing task raises at the caller", declined, seen["failure"])
    yield Check("program", "…and its state is", "FAILURE", seen["state"])
    yield Check("program", "SIGTERM: the worker exits with", 0, worker.stop())


def crash(stage: Stage, place: Place) -> Iterator[Check]:
    """SIGKILL in the middle of a task, with more tasks waiting; then the next worker."""
    first = stage.worker(place, "orders", "-c", "1", "-n", "first@%h", *QUEUES)
    first.wait_for(r" ready\.")
    ids = place.ask("shop.py", "rush", str(RUSH))
    journal = Path(place.extra["ORDERS_JOURNAL"])
    wait_for_line(journal, "began A1", first)
    first.kill()
    stage.happened(f"kill -9 {first.pid}: worker {first.name} is gone in the middle of stocktaking")
    killed_at = time.monotonic()
    second = stage.worker(place, "orders", "-c", "4", "-n", "second@%h", *QUEUES)
    seen = place.ask("shop.py", "wait", *ids)
    yield from crash_checks(journal, ids, seen)
    took = time.monotonic() - killed_at
    yield Check(
        "crash", f"all done within {2 * LEASE + 6:g} s of the kill", True, took < 2 * LEASE + 6
    )
    yield Check("crash", "SIGTERM: the worker exits with", 0, second.stop())


def crash_checks(journal: Path, ids: list[str], seen: dict[str, Any]) -> Iterator[Check]:
    lines = journal.read_text().splitlines()
    runs = [line.split() for line in lines if " A1 " in line]
    began = [worker.partition("@")[0] for word, _, worker in runs if word == "began"]
    ended = [worker.partition("@")[0] for word, _, worker in runs if word == "ended"]
    yield Check("crash", "began in the killed worker, then in the next", ["first", "second"], began)
    yield Check("crash", "ended in the next one only", ["second"], ended)
    value = {"shelf": "A1", "redelivered": True}
    yield Check("crash", "the task knows that it is a second delivery", value, seen[ids[0]][1])
    states = Counter(state for state, _ in seen.values())
    yield Check("crash", f"of {len(ids)} tasks, succeeded", len(ids), states["SUCCESS"])
    packed = {line.split()[1] for line in lines if line.startswith("packed")}
    lost = sum(str(order) not in packed for order in range(RUSH)) + (not ended)
    yield Check("crash", "lost", 0, lost)


def wait_for_line(path: Path, start: str, worker: Worker) -> None:
    """Until the journal has it."""
    worker.wait_for(r"stocktaking\[.*received")
    deadline = time.monotonic() + 10
    while not (path.exists() and any(x.startswith(start) for x in path.read_text().splitlines())):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {start!r} in the journal")
        time.sleep(0.02)
