"""Pausing queues and revoking jobs by what they are, from an app."""

import getpass
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from taskmq import App, Config, ConfigError, JobState
from taskmq.control import BATCH, whoami
from taskmq.envelope import Dependency
from taskmq.records import JobFilter, JobRecord
from taskmq.testing.wrapper import TransportWrapper
from taskmq.transport import LeaseStatus, Reservation


@pytest.fixture(params=["memory://", "sqlite:///{folder}/jobs.db"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    with App(Config(transport=str(request.param).format(folder=tmp_path))) as app:
        app.task(name="one")(lambda n=0: n)
        app.task(name="two", queue="email")(lambda n=0: n)
        yield app


def take(app: App, count: int) -> Sequence[object]:
    wanted = Reservation(queues={"default": 1, "email": 1}, worker="w", lease=60.0, limit=count)
    return app.transport.reserve(wanted)


def test_a_pause_names_its_author(app: App) -> None:
    assert app.pause("email", reason="tidying up")
    assert not app.pause("email")
    (pause,) = app.paused()
    assert (pause.queue, pause.reason) == ("email", "tidying up")
    assert pause.by == whoami()
    assert "@" in pause.by
    assert app.resume("email")
    assert app.paused() == []


def test_a_queue_without_a_name_is_refused(app: App) -> None:
    with pytest.raises(ConfigError, match="which queue"):
        app.pause("")


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr(getpass, "getuser", unknown)
    assert whoami().partition("@")[0].isdigit()


@pytest.mark.parametrize(
    ("selection", "count"),
    [
        ({"task": "one"}, 3),
        ({"queue": "email"}, 2),
        ({"key": "k"}, 1),
        ({"workflow": "w"}, 1),
        ({"task": "one", "queue": "email"}, 0),
        ({"task": "two", "key": "k"}, 1),
    ],
)
def test_what_matches_is_revoked_and_nothing_else(
    app: App, selection: dict[str, Any], count: int
) -> None:
    one, two = app.tasks["one"], app.tasks["two"]
    one.submit_many([(1,), (2,)])
    app.submit(replace(one.call(3), workflow="w"))
    two.submit(1, key="k")
    two.submit(2)
    assert app.revoke(**selection) == count
    assert app.revoke(**selection) == 0
    every = app.transport.find(JobFilter())
    assert sum(job.state is JobState.REVOKED for job in every) == count
    assert len(every) == 5


def test_a_selection_of_everything_is_refused(app: App) -> None:
    with pytest.raises(ConfigError, match="give one of task, queue, key, workflow"):
        app.revoke()


def test_more_jobs_than_a_batch(app: App) -> None:
    app.tasks["one"].submit_many([(n,) for n in range(2 * BATCH + 1)])
    assert app.revoke(task="one") == 2 * BATCH + 1
    assert len(take(app, 10)) == 0


def test_dependents_of_the_revoked_are_skipped(app: App) -> None:
    first = app.tasks["one"].delay()
    after = (Dependency(first.id),)
    second = app.submit(replace(app.tasks["two"].call(), after=after))
    assert app.revoke(task="one") == 1
    assert second.state is JobState.SKIPPED


def test_running_jobs_are_asked_to_stop_and_then_ended_by_force(app: App) -> None:
    app.tasks["one"].submit_many([(1,), (2,)])
    wanted = Reservation(queues={"default": 1}, worker="w", lease=60.0, limit=1)
    deliveries = app.transport.reserve(wanted)
    assert app.revoke(task="one") == 2
    assert app.transport.check(deliveries) == [LeaseStatus.CANCEL_REQUESTED]
    assert app.revoke(task="one") == 0
    assert app.revoke(task="one", terminate=True) == 1
    assert app.transport.check(deliveries) == [LeaseStatus.TERMINATE_REQUESTED]


def test_whoever_follows_at_a_limit_is_revoked_too_and_strands_nobody(app: App) -> None:
    limited = app.task(name="limited", concurrency_limit=1, concurrency_key="k")(lambda: 0)
    other = app.task(name="other", concurrency_limit=1, concurrency_key="k")(lambda: 0)
    limited.submit_many([() for _ in range(3)])
    last = other.delay()
    assert last.record is not None
    assert last.record.held is not None
    assert app.revoke(task="limited") == 3
    assert len(take(app, 10)) == 1
    assert last.state is JobState.RUNNING


class Vacuum(TransportWrapper):
    """What was revoked is deleted before anybody looks again."""

    def find(self, filter: JobFilter) -> list[JobRecord]:
        found = super().find(filter)
        self.revoke([job.id for job in found[-1:]])
        self.forget([job.id for job in found[-1:]])
        return found


def test_a_page_whose_last_job_is_deleted_does_not_end_it(app: App) -> None:
    app.tasks["one"].submit_many([(n,) for n in range(2 * BATCH + 10)])
    App(app.config, transport=Vacuum(app.transport)).revoke(task="one")
    assert app.transport.stats() == []
