"""Jobs that wait on this host while their store cannot be reached, on real servers."""

from __future__ import annotations

import multiprocessing
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests import services
from tests.waiting import PATIENCE, wait_for

from taskmq import App, Config, QueueConfig
from taskmq.cli.main import main
from taskmq.envelope import Dependency
from taskmq.errors import StoreCorrupt, TransportUnavailable
from taskmq.records import JobFilter
from taskmq.spool import SpoolFile
from taskmq.worker import Worker

Start = Callable[..., Any]


class Place:
    """A store behind a proxy, and apps that submit to it through one spool."""

    def __init__(self, folder: Path, url: str, proxy: services.Proxy, stack: ExitStack) -> None:
        self.path = folder / "spool.db"
        self.url = url
        self.proxy = proxy
        self._stack = stack

    def app(self, **config: Any) -> App:
        settings = {"transport": self.url, "spool": str(self.path), "publish_timeout": 2.0}
        made = self._stack.enter_context(App(Config(**{**settings, **config})))
        made.task(name="echo")(lambda value: value)
        return made

    @property
    def file(self) -> SpoolFile:
        return SpoolFile(str(self.path))

    def cut(self) -> None:
        self.proxy.refuse()
        self.proxy.reset()

    def heal(self) -> None:
        self.proxy.heal()
        wait_for(lambda: not self.file.waiting(), "an empty spool")


ON_BOTH = pytest.mark.parametrize("place", ["redis", "postgres"], indirect=True)
"""For what may depend on the store."""


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, start_service: Start) -> Iterator[Place]:
    name = getattr(request, "param", "redis")
    url = request.getfixturevalue(f"{name}_url")
    server = request.getfixturevalue(f"{name}_server")
    proxy = start_service(services.Proxy, server)
    with ExitStack() as stack:
        yield Place(tmp_path, proxy.through(url), proxy, stack)
        proxy.heal()


def echo(app: App, *values: object) -> list[str]:
    return [job.id for job in app.tasks["echo"].submit_many([(value,) for value in values])]


def stored(app: App) -> list[str]:
    return [job.id for job in app.transport.find(JobFilter(limit=1000))]


def test_without_an_outage_there_is_no_file(place: Place) -> None:
    app = place.app()
    ids = echo(app, 1)
    assert stored(app) == ids
    assert not place.path.exists()


@ON_BOTH
def test_jobs_are_kept_in_an_outage_and_stored_in_order_after_it(place: Place) -> None:
    app = place.app()
    ids = echo(app, 0)
    place.cut()
    for number in range(20):
        ids += echo(app, number, -number)
    assert place.file.waiting() == 40
    assert stat.S_IMODE(place.path.stat().st_mode) == 0o600
    place.heal()
    assert stored(app) == ids
    Worker(app).run_until_idle(timeout=PATIENCE)
    assert app.result(ids[-1]).get(PATIENCE) == -19


@ON_BOTH
def test_only_the_first_job_waits_for_a_store_that_is_silent(place: Place) -> None:
    app = place.app(publish_timeout=1.0)
    ids = echo(app, 0)
    place.proxy.black_hole()
    began = time.monotonic()
    ids += echo(app, 1)
    first = time.monotonic() - began
    began = time.monotonic()
    for number in range(20):
        ids += echo(app, number)
    others = time.monotonic() - began
    assert 0.9 < first < 15
    assert others < 20 * 0.5  # not a second each
    place.heal()
    assert stored(app) == ids


@ON_BOTH
def test_a_batch_whose_answer_was_lost_is_stored_once(place: Place) -> None:
    app = place.app()
    ids = echo(app, 0)
    place.proxy.reset_after(0, services.Way.ANSWERS)
    ids += echo(app, 1, 2)
    place.heal()
    assert stored(app) == ids


def test_a_job_follows_what_it_waits_for(place: Place) -> None:
    """It is kept too, although the store works again and does not know the other yet."""
    app, other = place.app(), place.app()
    place.cut()
    (first,) = echo(app, 1)
    app.spool.close()  # type: ignore[union-attr]  # it has one; nobody forwards now
    with place.file.forwarding() as is_ours:
        assert is_ours
        place.proxy.heal()
        waiting = replace(other.tasks["echo"].call(2), after=(Dependency(first),))
        second = other.submit(waiting)
        assert place.file.waiting() == 2
    place.heal()
    Worker(app).run_until_idle(timeout=PATIENCE)
    assert second.get(PATIENCE) == 2


@ON_BOTH
def test_a_key_counts_when_the_job_is_stored(place: Place) -> None:
    app = place.app()
    known = app.tasks["echo"].submit(1, key="k")
    place.cut()
    app.tasks["echo"].submit(1, key="k")
    conflict = app.tasks["echo"].submit(2, key="k")
    (last,) = echo(app, 3)
    place.heal()
    assert stored(app) == [known.id, last]
    (refused,) = place.file.refused()
    assert (refused.job_id, refused.task) == (conflict.id, "echo")
    assert "key 'k'" in refused.reason
    assert place.file.reconsider() == 1
    assert app.spool is not None
    assert app.spool.flush() is not None
    assert len(place.file.refused()) == 1
    assert place.file.discard([conflict.id]) == 1


def test_a_full_queue_holds_up_its_own_jobs_alone(place: Place) -> None:
    app = place.app(queues={"small": QueueConfig(capacity=1)})
    app.task(name="small", queue="small")(lambda value: value)
    place.cut()
    small = [app.tasks["small"].delay(number).id for number in range(3)]
    (other,) = echo(app, 1)
    place.proxy.heal()
    wait_for(lambda: place.file.waiting() == 2, "what fits is stored")
    assert sorted(stored(app)) == sorted([small[0], other])
    worker = Worker(app, queues=["small"])
    for _ in small:
        worker.run_until_idle(timeout=PATIENCE)
        wait_for(
            lambda: app.transport.stats(["small"])[0].ready > 0 or not place.file.waiting(), "room"
        )
    worker.run_until_idle(timeout=PATIENCE)
    assert app.result(small[-1]).get(PATIENCE) == 2


def submit_and_die(place: Place, ids: Any) -> None:
    app = place.app()
    ids.put(echo(app, *range(10)))
    ids.close()
    ids.join_thread()
    os._exit(0)


def test_a_worker_stores_what_a_dead_producer_left(place: Place) -> None:
    place.cut()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=submit_and_die, args=(place, queue))
    child.start()
    ids = queue.get(timeout=PATIENCE)
    child.join(PATIENCE)
    assert place.file.waiting() == 10
    place.proxy.heal()
    app = place.app()
    worker = Worker(app)
    thread = threading.Thread(target=worker.run)
    thread.start()
    wait_for(lambda: not place.file.waiting(), "an empty spool")
    assert app.result(ids[-1]).get(PATIENCE) == 9
    worker.stop()
    thread.join(PATIENCE)
    assert not place.file.waiting()


def test_the_next_producer_stores_what_the_last_one_left(place: Place) -> None:
    place.cut()
    app = place.app()
    left = echo(app, 1, 2)
    app.close()
    place.proxy.heal()
    after = place.app()
    new = echo(after, 3)
    wait_for(lambda: not place.file.waiting(), "an empty spool")
    assert sorted(stored(after)) == sorted(left + new)


def test_two_producers_and_every_job_once(place: Place) -> None:
    place.cut()
    apps = [place.app(), place.app()]
    ids = [echo(app, number) for number in range(30) for app in apps]
    place.heal()
    assert stored(apps[0]) == [each for batch in ids for each in batch]


def test_from_the_command_line(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place.cut()
    app = place.app()
    ids = echo(app, 1, 2, 3)
    app.close()
    monkeypatch.setenv("TASKMQ_SPOOL", str(place.path))
    transport = ("--transport", place.url)
    assert main(["spool", "list", *transport]) == 0
    assert "3 jobs to be stored" in capsys.readouterr().out
    assert main(["spool", "flush", *transport]) == 3
    assert main(["spool", "discard", *transport, "--yes", ids[0]]) == 0
    place.proxy.heal()
    capsys.readouterr()
    assert main(["spool", "flush", *transport]) == 0
    assert "2 jobs stored, 0 refused, 0 left" in capsys.readouterr().out
    assert stored(app) == ids[1:]


def test_nothing_is_pretended_if_the_spool_cannot_be_written(place: Place) -> None:
    app = place.app(spool=str(place.path.parent / "missing" / "spool.db"))
    place.cut()
    with pytest.raises(TransportUnavailable, match="nor can the jobs be kept"):
        echo(app, 1)


def test_another_file_is_refused(place: Place) -> None:
    place.path.write_text("a diary, and no spool at all" * 100)
    app = place.app()
    place.cut()
    with pytest.raises(StoreCorrupt, match=r"spool\.db"):
        echo(app, 1)
    assert "diary" in place.path.read_text()
