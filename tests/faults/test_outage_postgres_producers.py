"""What producers on PostgreSQL are told in an outage, and what their calls have changed then."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from tests import services

from taskmq import App, Config
from taskmq.envelope import Envelope, Sealed, seal
from taskmq.errors import StoreFull, TransportError, TransportUnavailable
from taskmq.ids import new_id
from taskmq.plugins import open_transport
from taskmq.transport import Transport

from .outages import PUBLISH_TIMEOUT, SLACK

ROOM = 24 * 1024 * 1024
"""Of the small disk, in bytes: an empty database has a third of it."""
LARGE = 200_000


def job(size: int = 0) -> Sealed:
    """With so many bytes of arguments that cannot be compressed."""
    args = msgspec.json.encode([os.urandom(size // 2).hex()])
    envelope = Envelope(v=1, id=new_id(), task="demo", queue="q", args=msgspec.Raw(args))
    return seal(envelope, 1 << 20)


def ready(store: Transport) -> int:
    return sum(each.ready for each in store.stats(["q"]))


@pytest.fixture
def proxy(postgres_server: services.Postgres) -> Iterator[services.Proxy]:
    with services.Proxy(postgres_server) as made:
        yield made


@pytest.mark.parametrize("is_used_before", [False, True], ids=["new", "used"])
@pytest.mark.parametrize("publish_timeout", [2.0, PUBLISH_TIMEOUT])
def test_told_within_publish_timeout(
    proxy: services.Proxy, postgres_url: str, is_used_before: bool, publish_timeout: float
) -> None:
    """By whatever step it is that gets no answer, the connection or the call."""
    config = Config(transport=proxy.through(postgres_url), publish_timeout=publish_timeout)
    with App(config) as app:
        task = app.task(name="demo")(lambda: None)
        if is_used_before:
            task.delay()
        proxy.black_hole()
        began = time.monotonic()
        with pytest.raises(TransportUnavailable) as caught:
            task.delay()
        assert time.monotonic() - began < publish_timeout + SLACK
        assert "\n" not in str(caught.value)
        proxy.heal()
        assert task.delay().id


@pytest.mark.parametrize("way", services.Way, ids=["before", "after"])
def test_reset_in_mid_command_and_repeated(
    proxy: services.Proxy, postgres_url: str, way: services.Way
) -> None:
    """Before the server has it, and after it was done: repeated, the job is there once."""
    wanted = job()
    with (
        closing(open_transport(proxy.through(postgres_url))) as store,
        closing(open_transport(postgres_url)) as direct,
    ):
        store.enqueue([job()])
        proxy.reset_after(10 if way is services.Way.REQUESTS else 0, way)
        with pytest.raises(TransportUnavailable):
            store.enqueue([wanted])
        proxy.heal()
        if way is services.Way.ANSWERS:
            assert ready(direct) == 2  # it was stored
        assert [answer.job_id for answer in store.enqueue([wanted])] == [wanted.envelope.id]
        assert ready(direct) == 2


def test_a_standby_is_read_only(start_service: Callable[..., services.Postgres]) -> None:
    primary = start_service(services.Postgres)
    with closing(open_transport(primary.url)) as store:
        store.enqueue([job()])
    standby = start_service(services.Standby, primary)
    standby.catch_up()  # type: ignore[attr-defined]  # a Standby
    with closing(open_transport(standby.url)) as store:
        with pytest.raises(TransportUnavailable, match=r"read-only.*target_session_attrs"):
            store.enqueue([job()])
        assert ready(store) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that PostgreSQL may write to."""
    disk = Path("/tmp") / f"taskmq-disk-{new_id().lower()}"  # noqa: S108  # its user passes
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        disk.rmdir()
        pytest.skip("may not mount a file system here")
    shutil.chown(disk, "postgres")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)
    disk.rmdir()


def fill(store: Transport) -> tuple[int, TransportError | None]:
    """Store jobs until one is refused: how many there are, and what was said."""
    for stored in range(ROOM // LARGE):
        try:
            store.enqueue([job(LARGE)])
        except TransportError as error:
            return stored, error
    return ROOM // LARGE, None


def test_a_disk_that_is_full(
    small_disk: Path, start_service: Callable[..., services.Postgres]
) -> None:
    """Where the tables are; a server that cannot write its log any more ends by itself."""
    server = start_service(services.Postgres)
    server.query(f"CREATE TABLESPACE small LOCATION '{small_disk}'")
    server.query("CREATE DATABASE jobs TABLESPACE small")
    with closing(open_transport(server.url_of("jobs"))) as store:
        ballast = small_disk / "ballast"
        ballast.write_bytes(bytes(5 * LARGE))
        stored, refusal = fill(store)
        assert isinstance(refusal, StoreFull), refusal
        ballast.unlink()
        assert ready(store) == stored  # only now: to read, too, it may have to write a page first
        assert store.enqueue([job()])
