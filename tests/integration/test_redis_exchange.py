"""How the Redis transport talks to its server: round trips, scripts, memory, bounds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests import services

from taskmq.codec import Payload
from taskmq.envelope import Dependency, Sealed
from taskmq.errors import IdempotencyConflict, QueueFull, UnknownDependency
from taskmq.limits import Capacity, Limit
from taskmq.records import Failure, JobFilter, JobRecord
from taskmq.states import JobState
from taskmq.transport import Ack, DeadLetter, Delegate, Delivery, LeaseStatus, Nack, Settled
from taskmq.transports.redis import RedisTransport

from .redis_tools import job, open_store, wanted

JOBS = int(os.environ.get("REDIS_TEST_JOBS", "5000"))
WIDTH = int(os.environ.get("REDIS_TEST_WIDTH", "1200"))
FAILURE = Failure(type="builtins.ValueError", message="broken")
CORE = Path(__file__).parents[2] / "taskmq_core"


@pytest.fixture
def store(redis_url: str) -> Iterator[RedisTransport]:
    store = open_store(f"{redis_url}?namespace=shop")
    yield store
    store.close()


def scripts_run(server: services.Redis) -> int:
    found = re.search(r"cmdstat_evalsha:calls=(\d+)", server.cli("INFO", "commandstats"))
    return 0 if found is None else int(found[1])


def test_an_exchange_of_128_is_one_round_trip(
    store: RedisTransport, redis_server: services.Redis
) -> None:
    store.enqueue([job() for _ in range(256)])
    held = store.exchange((), wanted(128)).deliveries
    redis_server.cli("CONFIG", "RESETSTAT")
    answer = store.exchange([Ack(delivery) for delivery in held], wanted(128))
    assert (len(answer.deliveries), set(answer.settled)) == (128, {Settled.DONE})
    assert scripts_run(redis_server) == 1
    store.enqueue([job() for _ in range(128)])
    assert scripts_run(redis_server) == 2


def test_scripts_are_sent_again_to_a_server_that_forgot_them(
    store: RedisTransport, redis_server: services.Redis
) -> None:
    store.enqueue([job()])
    redis_server.cli("SCRIPT", "FLUSH")
    store.enqueue([job()])
    assert len(store.exchange((), wanted(10)).deliveries) == 2


def test_bytes_stay_what_they_are(store: RedisTransport) -> None:
    every_byte = bytes(range(256)) * 300
    sealed = job()
    store.enqueue([sealed])
    (held,) = store.exchange((), wanted()).deliveries
    assert held.envelope == sealed.data
    store.settle([Ack(held, Payload("raw", every_byte))])
    (record,) = store.get([held.job_id])
    assert record is not None
    assert record.result == Payload("raw", every_byte)


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_both_protocols(redis_url: str, protocol: str) -> None:
    store = open_store(f"{redis_url}?namespace=shop&protocol={protocol}")
    listener = store.listen(["q"])
    listener.clear()
    store.enqueue([job()])
    assert listener.wait(60.0)
    store.pause("q", by="ann")
    assert [pause.by for pause in store.paused()] == ["ann"]
    listener.close()
    store.close()


def test_every_key_is_in_one_slot(store: RedisTransport, redis_server: services.Redis) -> None:
    first = job()
    store.enqueue([first, job(key="k"), job(after=[]), job(queue="other")])
    store.exchange((), wanted(1))
    names = redis_server.cli("KEYS", "*").splitlines()
    assert names
    assert all(name.startswith("{shop}:") for name in names)


def test_finished_jobs_leave_nothing(store: RedisTransport, redis_server: services.Redis) -> None:
    """Memory is for what lives: jobs, their results until they are due, and a handful of names."""
    store.enqueue([job(result_ttl=0.0)])
    store.settle([Ack(each) for each in store.exchange((), wanted()).deliveries])
    store.maintain()
    before = redis_server.cli("KEYS", "*").splitlines()
    done = 0
    held: list[Delivery] = []
    for start in range(0, JOBS, 500):
        store.enqueue([job(result_ttl=0.0) for _ in range(min(500, JOBS - start))])
        while True:
            answer = store.exchange(
                [Ack(each, Payload("json", b"1")) for each in held], wanted(100)
            )
            done += len(held)
            held = list(answer.deliveries)
            if not held:
                break
    assert done == JOBS
    store.maintain()
    assert redis_server.cli("KEYS", "*").splitlines() == before == ["{shop}:meta"]
    assert store.stats() == []


def test_finished_jobs_go_by_their_retention(
    store: RedisTransport, redis_server: services.Redis
) -> None:
    store.enqueue([job(result_ttl=0.01) for _ in range(300)])
    held = store.exchange((), wanted(300)).deliveries
    store.settle([Ack(each, Payload("json", b"1")) for each in held])
    purged = 0
    while purged < 300:
        purged += store.maintain(100).purged
    assert redis_server.cli("EXISTS", "{shop}:jobs", "{shop}:results", "{shop}:order") == "0"


def test_the_wheel_holds_the_scripts(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir"]
    subprocess.run([*command, str(tmp_path), str(CORE)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    here = {path.name for path in (CORE / "src/taskmq/transports/redis/lua").iterdir()}
    names = zipfile.ZipFile(wheel).namelist()
    assert {Path(name).name for name in names if "/redis/lua/" in name} == here


def test_jobs_that_a_settlement_stores_are_part_of_its_step(
    store: RedisTransport, redis_server: services.Redis
) -> None:
    store.enqueue([job() for _ in range(128)])
    held = store.exchange((), wanted(128)).deliveries
    redis_server.cli("CONFIG", "RESETSTAT")
    settlements = [Ack(each, spawn=[job(key=each.job_id), job()]) for each in held]
    assert set(store.settle(settlements)) == {Settled.DONE}
    assert scripts_run(redis_server) == 1
    assert store.stats(["q"])[0].ready == 256


def test_a_settlement_that_is_refused_has_changed_nothing(
    store: RedisTransport, redis_server: services.Redis
) -> None:
    """Nor has any other one of the same exchange."""
    store.enqueue([job(key="k", args=msgspec.Raw(b"[1]")), job(queue="r"), job(queue="r")])
    first, second = store.exchange((), wanted(5, queues={"r": 1})).deliveries
    full = Sealed(job().envelope, job().data, Capacity(1, "reject"))
    lost = job(after=(Dependency("nobody"),))
    before = contents(store, redis_server)
    for error, more in (
        (IdempotencyConflict, job(key="k", args=msgspec.Raw(b"[2]"))),
        (QueueFull, full),
        (UnknownDependency, lost),
    ):
        for settlement in (Ack(second, spawn=[job(), more]), Delegate(second, [more], "x")):
            with pytest.raises(error):
                store.settle([Ack(first), settlement])
    assert contents(store, redis_server) == before
    assert store.settle([Ack(first), Ack(second)]) == [Settled.DONE] * 2


def contents(store: RedisTransport, server: services.Redis) -> dict[str, bytes]:
    """What is stored, but for the number of the last job: numbers may be left out."""
    names = [name.removeprefix("{shop}:") for name in server.cli("KEYS", "*").splitlines()]
    return {name: store._server.ask("DUMP", name) for name in names if name != "meta"}


def test_a_wide_fan_in_is_linear(store: RedisTransport, redis_server: services.Redis) -> None:
    """What one member costs does not grow with the others: counted in commands of the scripts."""
    last: list[int] = []
    for width in (WIDTH // 4, WIDTH):
        members = [job(queue="m", result_ttl=0.0) for _ in range(width)]
        dependencies = tuple(Dependency(each.envelope.id) for each in members)
        store.enqueue([*members, job(queue="last", after=dependencies, result_ttl=0.0)])
        redis_server.cli("CONFIG", "RESETSTAT")
        held: list[Delivery] = []
        while True:
            done = [Ack(each, Payload("json", b"1")) for each in held]
            held = list(store.exchange(done, wanted(128, queues={"m": 1})).deliveries)
            if not held:
                break
        last.append(commands_run(redis_server))
        (delivery,) = store.exchange((), wanted(1, queues={"last": 1})).deliveries
        assert len(delivery.inputs or ()) == width
        store.settle([Ack(delivery)])
    assert last[1] < 5 * last[0]


def commands_run(server: services.Redis) -> int:
    """All of them, those inside scripts as well."""
    lines = server.cli("INFO", "commandstats").splitlines()
    return sum(int(line.partition("calls=")[2].partition(",")[0]) for line in lines if "=" in line)


def test_workflows_leave_nothing(store: RedisTransport, redis_server: services.Redis) -> None:
    """Nor do those that failed fast, nor jobs that were waited for."""
    first = job(workflow="w", fail_fast=True, result_ttl=0.0)
    handler = job(workflow="w", after=(Dependency(first.envelope.id),), run_if="failed")
    store.enqueue([first, handler, job(workflow="w", queue="other")])
    (held,) = store.exchange((), wanted()).deliveries
    store.settle([DeadLetter(held, "error", FAILURE)])
    assert redis_server.cli("EXISTS", "{shop}:stopped", "{shop}:workflow:w") == "2"
    (held,) = store.exchange((), wanted()).deliveries
    assert held.losses is not None
    to = job(workflow="w")
    store.settle([Delegate(held, [to], to.envelope.id)])
    (held,) = store.exchange((), wanted()).deliveries
    store.settle([Ack(held, Payload("json", b"1"))])
    ids = [record.id for record in store.find(JobFilter(workflow="w"))]
    assert len(ids) == 4
    assert (store.bury(ids), store.forget(ids)) == (1, 3)
    store.maintain()
    assert redis_server.cli("KEYS", "*").splitlines() == ["{shop}:meta"]


def test_a_search_by_state_does_not_look_at_every_job(
    store: RedisTransport, redis_server: services.Redis
) -> None:
    """Of few that wait, run or have finished among many others."""
    for _ in range(5):
        store.enqueue([job(queue="many") for _ in range(1000)])
    first = job(workflow="w", queue="few")
    waits = job(workflow="w", queue="few", after=(Dependency(first.envelope.id),))
    store.enqueue([first, waits, job(queue="few")])
    (held,) = store.exchange((), wanted(1, queues={"few": 1})).deliveries
    ids = [first.envelope.id, waits.envelope.id]
    redis_server.cli("CONFIG", "RESETSTAT")
    assert [each.id for each in store.find(JobFilter(workflow="w"))] == ids
    for state, job_id in zip((JobState.RUNNING, JobState.WAITING), ids, strict=True):
        assert [each.id for each in store.find(JobFilter(states=(state,)))] == [job_id]
    assert len(store.find(JobFilter(states=tuple(JobState), queue="few"))) == 3
    store.settle([Ack(held)])
    (done,) = store.find(JobFilter(states=(JobState.SUCCEEDED, JobState.EXPIRED)))
    assert done.id == first.envelope.id
    assert commands_run(redis_server) < 250
    assert len(store.find(JobFilter(states=(JobState.QUEUED,), limit=10_000))) == 5002


def plain_and_other() -> tuple[Sealed, Sealed]:
    """A job that lua/plain.lua sees to, and one that the other files do, since it could expire."""
    return job(), job(expires_at=32503680000.0)


def alike(store: RedisTransport, one: str, other: str) -> JobRecord:
    """The record of one of two jobs that have had the same life."""
    first, second = store.get([one, other])
    assert first is not None
    assert second is not None
    apart = {"id": one, "envelope": second.envelope, "expires_at": second.expires_at}
    instants = ("enqueued_at", "visible_at", "started_at", "finished_at", "lease_until")
    apart |= {name: getattr(first, name) for name in instants}
    present = [[getattr(each, name) is None for name in instants] for each in (first, second)]
    assert msgspec.structs.replace(second, **apart) == msgspec.structs.replace(
        first, envelope=second.envelope, expires_at=second.expires_at
    )
    assert present[0] == present[1]
    assert bool(first.envelope) == bool(second.envelope)
    return first


def test_a_plain_job_is_left_as_any_other(store: RedisTransport) -> None:
    jobs = plain_and_other()
    store.enqueue(jobs)
    ids = [each.envelope.id for each in jobs]
    assert alike(store, *ids).state is JobState.QUEUED
    held = store.exchange((), wanted(2)).deliveries
    assert [each.job_id for each in held] == ids
    (first, second) = held
    same = msgspec.structs.replace(first, job_id=ids[1], envelope=second.envelope)
    assert same == second
    assert alike(store, *ids).state is JobState.RUNNING
    assert store.settle([Ack(each, Payload("json", b"1")) for each in held]) == [Settled.DONE] * 2
    record = alike(store, *ids)
    assert (record.state, record.result) == (JobState.SUCCEEDED, Payload("json", b"1"))
    assert store.settle([Ack(each) for each in held]) == [Settled.REPEATED] * 2
    assert store.settle([Nack(each) for each in held]) == [Settled.LEASE_LOST] * 2
    assert store.stats() == []


def test_a_plain_job_can_take_the_long_way_at_any_time(store: RedisTransport) -> None:
    """It is extended, asked to stop, given back, and settled with others."""
    both = [plain_and_other() for _ in range(4)]
    store.enqueue([each for pair in both for each in pair])
    pairs = [[each.envelope.id for each in pair] for pair in both]
    held = store.exchange((), wanted(8)).deliveries
    assert [each.job_id for each in held] == [job_id for pair in pairs for job_id in pair]
    assert store.extend(held[:2], 90.0) == [LeaseStatus.HELD] * 2
    store.revoke(pairs[1])
    assert store.check(held[:4]) == [*[LeaseStatus.HELD] * 2, *[LeaseStatus.CANCEL_REQUESTED] * 2]
    store.settle([Nack(each) for each in held[4:6]])
    assert set(store.settle([Ack(each) for each in (*held[:4], *held[6:])])) == {Settled.DONE}
    states = [alike(store, *pair).state for pair in pairs]
    assert states == [*[JobState.SUCCEEDED] * 2, JobState.QUEUED, JobState.SUCCEEDED]
    again = store.exchange((), wanted(8)).deliveries
    assert [(each.job_id, each.token, each.deliveries) for each in again] == [
        (job_id, 2, 2) for job_id in pairs[2]
    ]
    assert store.settle([Ack(each) for each in held[4:6]]) == [Settled.LEASE_LOST] * 2
    assert store.settle([Ack(each) for each in again]) == [Settled.DONE] * 2


def test_two_words_about_one_plain_job_are_taken_in_their_order(store: RedisTransport) -> None:
    store.enqueue([job(), job()])
    first, second = store.exchange((), wanted(2)).deliveries
    outcomes = store.settle([Ack(first), Ack(first), Nack(second), Ack(second)])
    done = Settled.DONE
    assert outcomes == [done, Settled.REPEATED, done, Settled.LEASE_LOST]


def test_plain_jobs_are_delivered_in_line_with_others(store: RedisTransport) -> None:
    one = Limit("concurrency", "one", 1)
    line = [job(), job(), job(limits=(one,)), job(), job(limits=(one,)), job(priority=3), job()]
    store.enqueue(line)
    ids = [each.envelope.id for each in line]
    held = store.exchange((), wanted(4)).deliveries
    assert [each.job_id for each in held] == [ids[5], *ids[:3]]
    assert [(each.priority, each.queue) for each in held] == [(3, "q"), *[(0, "q")] * 3]
    held = store.exchange([Ack(each) for each in held[:3]], wanted(4)).deliveries
    assert [each.job_id for each in held] == [ids[3], ids[6]]
