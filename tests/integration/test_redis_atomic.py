"""Several processes at once on one store: scripts are whole, whoever else runs one."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

from taskmq.codec import Payload
from taskmq.limits import Limit
from taskmq.records import Failure, JobFilter
from taskmq.states import TERMINAL
from taskmq.transport import (
    Ack,
    DeadLetter,
    Defer,
    Delivery,
    Nack,
    Release,
    RetryLater,
    Settled,
    Settlement,
)

from .redis_tools import PATIENCE, job, open_store, wanted

PROCESSES = 3
STEPS = int(os.environ.get("REDIS_TEST_STEPS", "120"))
FAILURE = Failure(type="builtins.ValueError", message="broken")
TWO = Limit("concurrency", "two", 2)
QUEUES = ("a", "b")


def _settlement(chance: random.Random, delivery: Delivery) -> Settlement:
    kinds: list[Callable[[], Settlement]] = [
        lambda: Ack(delivery, Payload("json", b"1")),
        lambda: Ack(delivery, Payload("json", b"1")),
        lambda: RetryLater(delivery, chance.choice([0.0, 0.01]), FAILURE),
        lambda: Nack(delivery),
        lambda: Release(delivery),
        lambda: Defer(delivery, 0.01),
        lambda: DeadLetter(delivery, "error", FAILURE),
    ]
    return chance.choice(kinds)()


def _batch(chance: random.Random) -> list[Any]:
    first = job(chance.choice(QUEUES))
    batch = [first]
    for _ in range(chance.randrange(4)):
        fields: dict[str, Any] = {"priority": chance.randrange(2)}
        if chance.random() < 0.3:
            fields["limits"] = (TWO,)
        batch.append(job(chance.choice(QUEUES), **fields))
    return batch


def _work(url: str, seed: int, answers: Any) -> None:
    """Do this and that; tell what was enqueued, held and ended."""
    chance = random.Random(seed)  # no secret
    store = open_store(url)
    held: list[Delivery] = []
    enqueued: list[str] = []
    tokens: list[tuple[str, int]] = []
    ended: list[str] = []
    most_limited = 0
    for _ in range(STEPS):
        if chance.random() < 0.5:
            enqueued += [each.job_id for each in store.enqueue(_batch(chance))]
        done, held = held, []
        settlements = [_settlement(chance, delivery) for delivery in done]
        answer = store.exchange(
            settlements, wanted(chance.randrange(6), queues=dict.fromkeys(QUEUES, 1))
        )
        for settlement, outcome in zip(settlements, answer.settled, strict=True):
            assert outcome is Settled.DONE, outcome
            if isinstance(settlement, Ack):
                ended.append(settlement.delivery.job_id)
        held = list(answer.deliveries)
        tokens += [(each.job_id, each.token) for each in held]
        most_limited = max(most_limited, sum(b'"two"' in each.envelope for each in held))
    store.settle([Release(each) for each in held])
    store.close()
    answers.put((enqueued, tokens, ended, most_limited))


def test_processes_do_not_get_in_each_others_way(redis_url: str) -> None:
    seed = random.randrange(1 << 30)  # no secret
    context = get_context("spawn")
    answers = context.Queue()
    children = [
        context.Process(target=_work, args=(redis_url, seed + number, answers))
        for number in range(PROCESSES)
    ]
    for child in children:
        child.start()
    found = [answers.get(timeout=2 * PATIENCE) for _ in children]
    for child in children:
        child.join(PATIENCE)
    enqueued = [job_id for each in found for job_id in each[0]]
    tokens = [token for each in found for token in each[1]]
    ended = [job_id for each in found for job_id in each[2]]
    assert all(each[3] <= TWO.amount for each in found), f"limit, seed {seed}"
    assert max(Counter(tokens).values(), default=1) == 1, f"a delivery was made twice, seed {seed}"
    assert max(Counter(ended).values(), default=1) == 1, f"a success was settled twice, seed {seed}"
    _check_books(redis_url, enqueued, seed)


def _check_books(url: str, enqueued: list[str], seed: int) -> None:
    """Every job is where its record says, and nothing is counted that is not there."""
    store = open_store(url)
    records = store.find(JobFilter(limit=len(enqueued) + 1))
    assert sorted(record.id for record in records) == sorted(enqueued), f"seed {seed}"
    stats = store.stats(list(QUEUES))
    unfinished = [record for record in records if record.state not in TERMINAL]
    counted = sum(each.ready + each.delayed + each.held + each.running for each in stats)
    assert counted == len(unfinished), f"seed {seed}"
    assert sum(each.dead for each in stats) == sum(r.dead_reason is not None for r in records)
    assert sum(each.running for each in stats) == 0
    running = store._server.ask("HGETALL", "running")
    assert not running, f"nobody runs behind a limit, seed {seed}"
    left = {record.id for record in unfinished}
    while left:
        answer = store.exchange((), wanted(500, queues=dict.fromkeys(QUEUES, 1)))
        store.settle([Ack(each) for each in answer.deliveries])
        left -= {each.job_id for each in answer.deliveries}
    store.close()
