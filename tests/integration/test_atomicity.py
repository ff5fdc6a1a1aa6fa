"""Several processes at once on one store: every operation is whole, whoever else calls one.

Each test takes `SECONDS`; ``ATOMICITY_SECONDS`` asks for more, ``ATOMICITY_SEED`` for the same
choices again.
"""

from __future__ import annotations

import os
import random
import traceback
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from taskmq.plugins import open_transport
from taskmq.records import JobFilter
from taskmq.states import TERMINAL, JobState
from taskmq.transport import Ack, Delivery, Reservation, Settled, Transport

from .atomicity_work import QUEUES, TWO, Journal, disagreement, work

PROCESSES = 3
SECONDS = float(os.environ.get("ATOMICITY_SECONDS", "6"))
PATIENCE = 120.0
"""Seconds that starting and stopping may take on a busy machine."""
FIXTURES = {"sqlite": "tmp_path", "redis": "redis_url", "postgres": "postgres_url"}


@pytest.fixture(params=FIXTURES)
def url(request: pytest.FixtureRequest) -> str:
    found = request.getfixturevalue(FIXTURES[request.param])
    if request.param == "sqlite":
        return f"sqlite:///{found}/jobs.db?busy_timeout=60"
    return f"{found}?timeout=60"


def _child(url: str, folder: str, seed: int, together: Any, answers: Any) -> None:
    try:
        answers.put(work(url, folder, seed, SECONDS, partial(together.wait, PATIENCE)))
    except BaseException:
        answers.put(traceback.format_exc())


@pytest.mark.timeout(SECONDS + 5 * PATIENCE)
def test_processes_do_not_get_in_each_others_way(url: str, tmp_path: Path) -> None:
    """At most one holder, nothing lost or doubled, and all sums add up."""
    seed = int(os.environ.get("ATOMICITY_SEED", random.randrange(1 << 30)))  # no secret
    holders = tmp_path / "holders"
    holders.mkdir()
    context = get_context("spawn")
    answers, together = context.Queue(), context.Barrier(PROCESSES)
    children = [
        context.Process(
            target=_child, args=(url, str(holders), seed + number, together, answers), daemon=True
        )
        for number in range(PROCESSES)
    ]
    for child in children:
        child.start()
    found = [answers.get(timeout=SECONDS + 2 * PATIENCE) for _ in children]
    for child in children:
        child.join(PATIENCE)
    hint = f"ATOMICITY_SEED={seed}"
    journals: list[Journal] = []
    for each in found:
        assert isinstance(each, Journal), f"{hint}\n{each}"
        assert not each.wrong, f"{hint}: {each.wrong}"
        journals.append(each)
    figures = {
        "steps": sum(each.steps for each in journals),
        "jobs": sum(len(each.created) for each in journals),
        "deliveries": sum(len(each.deliveries) for each in journals),
        "lost leases": sum(o is Settled.LEASE_LOST for each in journals for *_, o in each.settled),
    }
    print(f"\n{figures}")
    store = open_transport(url)
    try:
        check_settlements(journals)
        check_counters(journals)
        check_keys_and_documents(store, journals)
        check_books(store, journals)
        check_nothing_is_stranded(store, journals)
    except AssertionError as error:
        raise AssertionError(f"{hint}: {error}") from error
    finally:
        store.close()


def check_settlements(journals: Sequence[Journal]) -> None:
    """Of each delivery at most one took effect, and a job succeeds once."""
    tokens = Counter((d.job_id, d.token) for each in journals for d in each.deliveries)
    assert max(tokens.values(), default=1) == 1, "a delivery was made twice"
    done = Counter(
        job
        for each in journals
        for job, _, kind, outcome in each.settled
        if kind == "Ack" and outcome is Settled.DONE
    )
    assert max(done.values(), default=1) == 1, "a job succeeded twice"


def check_counters(journals: Sequence[Journal]) -> None:
    """From one delivery of a job to the next they go on as its settlement says."""
    lives: defaultdict[str, list[Delivery]] = defaultdict(list)
    for each in journals:
        for delivery in each.deliveries:
            lives[delivery.job_id].append(delivery)
    ends = {
        (job, token): kind
        for each in journals
        for job, token, kind, outcome in each.settled
        if outcome is Settled.DONE
    }
    for job, life in lives.items():
        life.sort(key=lambda delivery: delivery.token)
        seen = [(d.attempt, d.deliveries, d.reclaims, d.yields) for d in life]
        assert seen[0] == (1, 1, 0, 0), f"{job} begins with {seen[0]}"
        for now, then, delivery in zip(seen, seen[1:], life, strict=False):
            end = ends.get((job, delivery.token), "lost")
            assert then == following(now, end), f"{job}: {then} follows {now}, {end}"


def following(counters: tuple[int, int, int, int], end: str) -> tuple[int, int, int, int]:
    """Attempt, deliveries, reclaims and yields of the next delivery."""
    attempt, deliveries, reclaims, yields = counters
    return {
        "RetryLater": (attempt + 1, deliveries + 1, reclaims, yields),
        "Nack": (attempt, deliveries + 1, reclaims + 1, yields),
        "lost": (attempt, deliveries + 1, reclaims + 1, yields),
        "Release": (attempt, deliveries, reclaims, yields + 1),
        "Defer": (attempt, deliveries, reclaims, yields),
        "DeadLetter": (1, 1, 0, 0),
    }[end]


def check_keys_and_documents(store: Transport, journals: Sequence[Journal]) -> None:
    by_key: defaultdict[str, list[tuple[str, bool]]] = defaultdict(list)
    for each in journals:
        for key, job, created in each.keys:
            by_key[key].append((job, created))
    for key, answers in by_key.items():
        assert len({job for job, _ in answers}) == 1, f"key {key} stands for several jobs"
        assert sum(created for _, created in answers) == 1, f"key {key} was taken several times"
    written = Counter(name for each in journals for name in each.written)
    numbers = {each.name: int(each.data) for each in store.documents("number")}
    assert numbers == written, "a document was written over"


def check_books(store: Transport, journals: Sequence[Journal]) -> None:
    """Every job is where its record says, and nothing is counted that is not there."""
    created = {job: after for each in journals for job, after in each.created.items()}
    assert len(created) == sum(len(each.created) for each in journals), "a job was stored twice"
    found = store.find(JobFilter(limit=len(created) + 1))
    records = {record.id: record for record in found}
    assert len(found) == len(records)
    assert records.keys() == created.keys(), "jobs were lost, or made up"
    for job, after in created.items():
        complaint = disagreement(records[job], [records[each] for each in after])
        assert not complaint, complaint
    states = Counter(record.state for record in found)
    stats = store.stats(list(QUEUES))
    counted = sum(each.ready + each.delayed + each.held + each.running for each in stats)
    waiting = states[JobState.WAITING]
    unfinished = sum(count for state, count in states.items() if state not in TERMINAL)
    assert counted == unfinished - waiting, f"{stats}, {states}"
    assert sum(each.running for each in stats) == states[JobState.RUNNING]
    assert sum(each.dead for each in stats) == states[JobState.FAILED]
    succeeded, died = outcomes(journals, "Ack"), outcomes(journals, "DeadLetter")
    replayed = Counter(job for each in journals for job in each.replayed)
    revoked = set().union(*(each.revoked for each in journals))
    for job, record in records.items():
        assert (record.state is JobState.SUCCEEDED) == (job in succeeded), job
        assert died[job] - replayed[job] == (record.state is JobState.FAILED), job
        assert record.state is not JobState.REVOKED or job in revoked, job


def outcomes(journals: Sequence[Journal], kind: str) -> Counter[str]:
    """How often each job was settled so."""
    return Counter(
        job
        for each in journals
        for job, _, how, outcome in each.settled
        if how == kind and outcome is Settled.DONE
    )


def check_nothing_is_stranded(store: Transport, journals: Sequence[Journal]) -> None:
    """Whatever has not ended can be taken, and ends; so does what waits for it."""
    listener = store.listen(list(QUEUES))
    wanted = Reservation(queues=QUEUES, worker="last", lease=3600.0, limit=500)
    for _ in range(100_000):
        listener.clear()
        answer = store.exchange((), wanted)
        limited = sum(b'"two"' in each.envelope for each in answer.deliveries)
        assert limited <= TWO.amount
        assert set(store.settle([Ack(each) for each in answer.deliveries])) <= {Settled.DONE}
        if answer.deliveries:
            continue
        if answer.next_due_at is None:
            break
        listener.wait(0.1)
    listener.close()
    left = [each for each in store.find(JobFilter(limit=1_000_000)) if each.state not in TERMINAL]
    assert not left, f"{len(left)} jobs are stranded, e.g. {left[0]}"
    for each in store.stats(list(QUEUES)):
        assert (each.ready, each.delayed, each.held, each.running) == (0, 0, 0, 0), each
    assert sum(each.dead for each in store.stats()) == len(
        store.find(JobFilter(dead=True, limit=1_000_000))
    )
    assert sum(len(each.created) for each in journals) == len(
        store.find(JobFilter(limit=1_000_000))
    )
