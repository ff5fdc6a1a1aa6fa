"""How contestants are measured. Each workload gives its figures, the one that counts first."""

from __future__ import annotations

import random
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence

from tests.bench.processes import cpu_seconds, proportional_bytes

from .base import Contestant, Crew, Marks, Order

Figures = dict[str, float]
PAUSE = 0.05, 0.15
"""Seconds before a sample, from and to: the worker falls asleep, out of step with any poll."""
BEHIND = 1_000
SETTLING = 15.0
"""Seconds until idle workers are watched: what they asked at their start has been counted by then
(PostgreSQL hears of a connection's transactions up to ten seconds late)."""
MILLI, MICRO, MEBI = 1e3, 1e6, 1 << 20


def enqueue(queue: Contestant, order: Order) -> Figures:
    """One by one: each call is as durable as the queue makes it when it returns."""
    queue.submit(-1)
    return _submitting(lambda: [queue.submit(number) for number in range(order.jobs)], order)


def bulk(queue: Contestant, order: Order) -> Figures:
    """By what the queue has for many at once; one by one where it has nothing."""
    queue.submit(-1)
    return _submitting(lambda: queue.submit_many(range(order.jobs)), order)


def drain(queue: Contestant, order: Order) -> Figures:
    """The queue is full before the worker starts. From the first job to the last: the start does
    not count."""
    marks = Marks(order.marks)
    queue.submit_many(range(order.jobs))
    began = time.monotonic()
    with queue.workers() as crew:
        pids = [worker.pid for worker in crew]
        marks.wait_for(1, crew)
        cpu, earlier = cpu_seconds(pids), marks.count()
        marks.wait_for(order.jobs, crew)
        cpu, ran = cpu_seconds(pids) - cpu, order.jobs - earlier
        memory = proportional_bytes(pids)
    instants = sorted(instant for _, instant in marks.read())
    numbers = [number for number, _ in marks.read()]
    return {
        "jobs/s": (len(instants) - 1) / (instants[-1] - instants[0]),
        "worker CPU µs": cpu / max(1, ran) * MICRO,
        "worker MiB": memory / MEBI,
        "start s": instants[0] - began,
        "lost": order.jobs - len(set(numbers)),
        "repeated": len(numbers) - len(set(numbers)),
    }


def latency(queue: Contestant, order: Order) -> Figures:
    """A worker asleep: from the call of submit to the first line of the job."""
    marks, called = Marks(order.marks), []
    with queue.workers() as crew:
        _warm_up(queue, marks, crew)
        for number in range(order.jobs):
            time.sleep(random.uniform(*PAUSE))
            called.append(time.monotonic())
            queue.submit(number)
            marks.wait_for(number + 2, crew)
    started = dict(marks.read())
    return _percentiles([started[number] - at for number, at in enumerate(called)])


def urgent(queue: Contestant, order: Order) -> Figures:
    """A job of high priority behind many short ones that wait, the worker at work on them: from the
    call of submit to the first line of the job."""
    marks, called, seen = Marks(order.marks), [], 1
    with queue.workers() as crew:
        _warm_up(queue, marks, crew)
        for number in range(order.jobs):
            queue.submit_many(range(BEHIND, 2 * BEHIND))
            called.append(time.monotonic())
            queue.submit_urgent(number)
            seen += BEHIND + 1
            marks.wait_for(seen, crew)
    started = dict(marks.read())
    return _percentiles([started[number] - at for number, at in enumerate(called)])


def round_trip(queue: Contestant, order: Order) -> Figures:
    """Submit, run, and get the result, again and again."""
    with queue.workers() as crew:
        _warm_up(queue, Marks(order.marks), crew)
        queue.echo(-1)
        return _percentiles([_timed(lambda: queue.echo(0)) for _ in range(order.jobs)])


def chain(queue: Contestant, order: Order) -> Figures:
    """Jobs one after the other, each with the result of the one before."""
    return _graph(queue, order, lambda: queue.chain(order.jobs))


def fan_out(queue: Contestant, order: Order) -> Figures:
    """Jobs at once, and one that gets all their results."""
    return _graph(queue, order, lambda: queue.fan_out(order.jobs))


def idle(queue: Contestant, order: Order) -> Figures:
    """Workers with nothing to do: what they cost, and what they ask the store."""
    marks = Marks(order.marks)
    with queue.workers() as crew:
        _warm_up(queue, marks, crew)
        time.sleep(SETTLING)
        pids = [worker.pid for worker in crew]
        own = max(1, -_asked(order) + _asked(order))  # what the probe itself adds
        cpu, asked = cpu_seconds(pids), _asked(order)
        time.sleep(order.seconds)
        cpu, asked = cpu_seconds(pids) - cpu, _asked(order) - asked
    figures = {"CPU %": cpu / order.seconds * 100}
    if order.probe:
        figures["commands/s"] = max(0, asked - own) / order.seconds
    return figures


WORKLOADS: dict[str, Callable[[Contestant, Order], Figures]] = {
    each.__name__: each
    for each in (enqueue, bulk, drain, latency, urgent, round_trip, chain, fan_out, idle)
}


def _warm_up(queue: Contestant, marks: Marks, crew: Crew) -> None:
    """The workers have started."""
    queue.submit(-1)
    marks.wait_for(1, crew)


def _submitting(work: Callable[[], object], order: Order) -> Figures:
    cpu = time.process_time()
    seconds = _timed(work)
    cpu = time.process_time() - cpu
    return {"jobs/s": order.jobs / seconds, "client CPU µs": cpu / order.jobs * MICRO}


def _graph(queue: Contestant, order: Order, run: Callable[[], int]) -> Figures:
    def checked() -> None:
        got = run()
        if got != order.jobs:
            raise RuntimeError(f"got {got} instead of {order.jobs}")

    with queue.workers() as crew:
        _warm_up(queue, Marks(order.marks), crew)
        checked()
        return {"ms": statistics.median(_timed(checked) for _ in range(3)) * MILLI}


def _asked(order: Order) -> int:
    return int(subprocess.check_output(order.probe)) if order.probe else 0


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _percentiles(seconds: Sequence[float]) -> Figures:
    ordered = sorted(seconds)
    return {
        "p50 ms": ordered[len(ordered) // 2] * MILLI,
        "p99 ms": ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * MILLI,
    }
