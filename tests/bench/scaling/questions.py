"""What is asked of a store: how its cost grows with workers, depth, queues, scheduled jobs, bytes.

All sizes of a question are there at once, each a store of its own, and are measured in turns, in
another order each round: so they share the noise of the machine.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from tests.bench.contestants.workloads import SETTLING
from tests.bench.processes import cpu_seconds, proportional_bytes
from tests.bench.rounds import Manner, plan_of, run_all
from tests.bench.stores import Place, a_store

from .hands import BATCH, BULK, BULK_BYTES, Hands, Took, job

MILLI, MEBI, YEAR = 1e3, 1 << 20, 365 * 86_400.0
Figures = dict[str, float]
STORES = ("sqlite", "redis", "postgres")
"""Those that hold queues themselves. RabbitMQ and memory are asked what makes sense there."""
BROKERS = (*STORES, "rabbitmq")


@dataclass(frozen=True)
class Amounts:
    """How much of everything; the sizes of each question are those it is measured at."""

    rounds: int = 5
    sample: int = 800
    """Jobs that are claimed at each size in each round."""
    drained: int = 20_000
    per_queue: int = 20
    few: int = 10
    """Queues that a worker of a few serves."""
    megabytes: int = 16
    """Of one run with payloads, about."""
    lead: float = 1.0
    """Seconds from the storing of scheduled jobs until they are due."""
    seconds: float = 30.0
    """How long a fleet at rest is watched."""
    most_seconds: float = 5.0
    """For the claims of one size in one round."""


@dataclass(frozen=True)
class Point:
    """What a question came to at one size, in one round. ``who``: of several that are compared."""

    question: str
    store: str
    who: str
    size: int
    round: int
    figures: Figures


@dataclass(frozen=True)
class Question:
    """One thing that may grow."""

    name: str
    of: str
    """What its sizes are."""
    sizes: tuple[int, ...]
    ask: Callable[[str, Amounts, Sequence[int]], Iterator[Point]]
    stores: tuple[str, ...] = STORES


def workers(store: str, amounts: Amounts, sizes: Sequence[int]) -> Iterator[Point]:
    """Worker processes that drain one store together; it was full before they started."""
    crews = [("threads", count, 8) for count in sizes]
    plan = plan_of([store], ["drain"], crews, ["native"])
    for run in run_all(plan, Manner(amounts.rounds, amounts.drained)):
        if run.error:
            raise RuntimeError(f"{run.cell.title}: {run.error}")
        yield Point("workers", store, "", run.processes, run.round, run.figures)


def depth(store: str, amounts: Amounts, sizes: Sequence[int]) -> Iterator[Point]:
    """Jobs that wait in one queue: claiming the first of them, and adding some."""

    def fill(hands: Hands, size: int) -> None:
        hands.submit(job() for _ in range(size))

    def measure(hands: Hands, size: int) -> dict[str, Figures]:
        figures, _ = _claims(hands, ["default"], amounts)
        figures["submit"] = _median(hands.submit(job() for _ in range(amounts.sample)))
        return {"": figures}

    yield from _beside("depth", store, amounts, sizes, fill, measure)


def queues(store: str, amounts: Amounts, sizes: Sequence[int]) -> Iterator[Point]:
    """Queues with some jobs each: a worker that serves a few of them, one that serves all, and a
    producer."""

    def names(size: int) -> list[str]:
        return [f"tenant-{number:05}" for number in range(size)]

    def fill(hands: Hands, size: int) -> None:
        each = max(amounts.per_queue, amounts.sample // amounts.few * 2)
        few = names(size)[: amounts.few]
        hands.submit(job(name) for name in few for _ in range(each))
        hands.submit(
            job(name) for name in names(size)[amounts.few :] for _ in range(amounts.per_queue)
        )

    def measure(hands: Hands, size: int) -> dict[str, Figures]:
        found: dict[str, Figures] = {}
        for who, served in (
            (f"serves {amounts.few}", names(size)[: amounts.few]),
            ("serves all", names(size)),
        ):
            figures, taken = _claims(hands, served, amounts)
            figures["look"] = _median([hands.look(served) for _ in range(5)])
            hands.submit(job(name) for name, count in taken.items() for _ in range(count))
            found[who] = figures
        chosen = random.choices(names(size), k=BULK)
        found["submits"] = {
            "submit": _median(hands.submit(map(job, chosen))),
            "one": _median(hands.submit((job(name) for name in chosen[:50]), 1)),
        }
        return found

    yield from _beside("queues", store, amounts, sizes, fill, measure)


def scheduled(store: str, amounts: Amounts, sizes: Sequence[int]) -> Iterator[Point]:
    """Jobs of the coming year in the same queue: claiming what is due, and adding more."""

    def later(size: int) -> Iterator[float]:
        now = time.time()
        return (now + 3600 + random.random() * YEAR for _ in range(size))

    def fill(hands: Hands, size: int) -> None:
        hands.submit(job(eta=at) for at in later(size))

    def measure(hands: Hands, size: int) -> dict[str, Figures]:
        due = time.time() + amounts.lead
        hands.submit(job(eta=due) for _ in range(amounts.sample))
        schedule = _median(hands.submit(job(eta=at) for at in later(BULK)))
        hands.submit(job() for _ in range(amounts.sample))
        figures, _ = _claims(hands, ["default"], amounts)
        figures["submit"] = _median(hands.submit(job() for _ in range(amounts.sample)))
        figures["schedule"] = schedule
        time.sleep(max(0.0, due - time.time()))
        figures["promote"] = hands.exchange(["default"])[0].cpu * MILLI
        while hands.exchange(["default"], BULK)[1]:
            pass
        return {"": figures}

    yield from _beside("scheduled", store, amounts, sizes, fill, measure)


def payloads(store: str, amounts: Amounts, sizes: Sequence[int]) -> Iterator[Point]:
    """Bytes of arguments of each job: storing many, and draining them."""

    def fill(hands: Hands, size: int) -> None:
        hands.submit(job(size=size) for _ in range(10))

    def measure(hands: Hands, size: int) -> dict[str, Figures]:
        count = max(BATCH, min(10 * amounts.sample, (amounts.megabytes << 20) // size))
        jobs = [job(size=size) for _ in range(count)]
        batch = max(1, min(BULK, BULK_BYTES // size))
        figures = {"": _rates("submit", hands.submit(jobs, batch), size, count)}
        drain, got, taken = list[Took](), 0, True
        while taken:
            took, found = hands.exchange(["default"], batch)
            drain.append(took)
            got += sum(found.values())
            taken = bool(found)
        figures[""] |= _rates("drain", drain, size, got)
        return figures

    yield from _beside("payloads", store, amounts, sizes, fill, measure)


def rest(store: str, amounts: Amounts, sizes: Sequence[int]) -> Iterator[Point]:
    """Worker processes with nothing to do: what each of them asks of the store, and holds there."""
    for count in sizes:
        with a_store(store) as place, ExitStack() as stack:
            stack.enter_context(place.at_rest())
            url = place.new_url()
            before = place.connections() if place.connections else 0
            pids = [stack.enter_context(_idle_worker(url)) for _ in range(count)]
            time.sleep(min(SETTLING, amounts.seconds))
            cpu, asked = cpu_seconds(pids), _asked(place)
            server = cpu_seconds([place.server]) if place.server else 0.0
            began = time.monotonic()
            time.sleep(amounts.seconds)
            seconds = time.monotonic() - began
            cpu, asked = cpu_seconds(pids) - cpu, _asked(place) - asked
            figures = {
                "CPU %": cpu / seconds / count * 100,
                "MiB": proportional_bytes(pids) / MEBI / count,
            }
            if place.probe:
                figures["commands/s"] = max(0, asked - 1) / seconds / count
            if place.server:
                server = cpu_seconds([place.server]) - server
                figures["server CPU %"] = server / seconds / count * 100
            if place.connections:
                figures["connections"] = (place.connections() - before) / count
            yield Point("rest", store, "", count, 0, figures)


QUESTIONS = {
    each.name: each
    for each in (
        Question("workers", "worker processes", (1, 2, 4, 8), workers, BROKERS),
        Question("depth", "jobs that wait", (1_000, 10_000, 100_000, 1_000_000), depth),
        Question("queues", "queues", (100, 1_000, 10_000), queues),
        Question("scheduled", "scheduled jobs", (0, 1_000_000), scheduled),
        Question("payloads", "bytes", (100, 1_000, 10_000, 100_000, 200_000), payloads),
        Question("rest", "workers at rest", (1, 10, 100), rest, BROKERS),
    )
}


def _beside(
    question: str,
    store: str,
    amounts: Amounts,
    sizes: Sequence[int],
    fill: Callable[[Hands, int], None],
    measure: Callable[[Hands, int], dict[str, Figures]],
) -> Iterator[Point]:
    """Fill a store for each size, then measure them in turns."""
    chance = random.Random(1)
    with a_store(store) as place, ExitStack() as stack:
        stores = {
            size: stack.enter_context(closing(Hands(place.beside(), place.server)))
            for size in sizes
        }
        for size, hands in stores.items():
            fill(hands, size)
        for number in range(amounts.rounds):
            order = list(stores)
            chance.shuffle(order)
            for size in order:
                for who, figures in measure(stores[size], size).items():
                    yield Point(question, store, who, size, number, figures)


def _rates(what: str, took: Sequence[Took], size: int, jobs: int) -> Figures:
    cpu = sum(each.cpu for each in took)
    return {
        f"{what} µs": cpu / jobs * 1e6,
        f"{what} jobs/s": jobs / sum(each.wall for each in took),
        f"{what} MB": jobs * size / 1e6 / cpu,
    }


def _claims(
    hands: Hands, served: Sequence[str], amounts: Amounts
) -> tuple[Figures, dict[str, int]]:
    """Exchange batches until the sample is taken; what a batch took, and what came of which queue.
    The first of them settles nothing, and does not count."""
    taken: dict[str, int] = {}
    took, began = list[Took](), time.perf_counter()
    for _ in range(max(2, amounts.sample // BATCH)):
        each, found = hands.exchange(served)
        took.append(each)
        for name, count in found.items():
            taken[name] = taken.get(name, 0) + count
        if time.perf_counter() - began > amounts.most_seconds and len(took) > 1:
            break
    hands.finish()
    if not taken:
        raise RuntimeError("nothing could be claimed")
    return {"claim": _median(took[1:])}, taken


def _median(took: Sequence[Took]) -> float:
    """Milliseconds of processors."""
    return statistics.median(each.cpu for each in took) * MILLI


def _asked(place: Place) -> int:
    return int(subprocess.check_output(place.probe)) if place.probe else 0


@contextmanager
def _idle_worker(url: str) -> Iterator[int]:
    """The process of a worker that has started, while it is needed."""
    command = [sys.executable, "-m", "tests.bench.tasks", url, "threads", "8"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout is None or process.stdout.readline() != "ready\n":
                raise RuntimeError("a worker process did not start")
            yield process.pid
        finally:
            process.terminate()
