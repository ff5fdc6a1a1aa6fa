"""How the Redis transport talks to its server: round trips, scripts, memory, bounds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import services

from taskmq.codec import Payload
from taskmq.envelope import Dependency
from taskmq.errors import TransportError
from taskmq.transport import Ack, Delegate, Delivery, Settled
from taskmq.transports.redis import RedisTransport

from .redis_tools import job, open_store, wanted

JOBS = int(os.environ.get("TASKMQ_REDIS_JOBS", "5000"))
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


def test_what_is_not_there_yet_is_refused(store: RedisTransport) -> None:
    first = job()
    store.enqueue([first])
    for fields in (
        {"run_if": "failed", "after": (Dependency(first.envelope.id),)},
        {"fail_fast": True},
    ):
        with pytest.raises(TransportError, match="does not know that yet"):
            store.enqueue([job(**fields)])
    (held,) = store.exchange((), wanted(5)).deliveries
    for settlement in (Ack(held, spawn=[job()]), Delegate(held, [job()], "x")):
        with pytest.raises(TransportError, match="does not know that yet"):
            store.settle([settlement])
    assert store.settle([Ack(held)]) == [Settled.DONE]
