"""The scheduler, step by step: who leads, what is enqueued, what is noted."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import pytest

from taskmq import App, Config, ConfigError
from taskmq.documents import DocumentChange
from taskmq.envelope import load
from taskmq.errors import TransportUnavailable, UnknownSchedule
from taskmq.records import JobFilter
from taskmq.schedule import Schedule, at, cron, every
from taskmq.scheduler import DUE_AT, SCHEDULE, Scheduler, Schedules
from taskmq.scheduler.leader import TTL
from taskmq.testing import FakeClock
from taskmq.transports.memory import MemoryTransport

NOW = 1_700_000_000.0  # 22:13:20 UTC


class Died(BaseException):
    """In place of a SIGKILL."""


class MortalStore(MemoryTransport):
    """Whoever writes documents while ``deadly`` is set dies before anything is written."""

    deadly = False

    def write(self, changes: Sequence[DocumentChange]) -> list[bool]:
        if self.deadly and any(change.kind == "schedule-journal" for change in changes):
            raise Died
        return super().write(changes)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def store(clock: FakeClock) -> MortalStore:
    return MortalStore(clock)


@pytest.fixture
def app(clock: FakeClock, store: MortalStore) -> App:
    app = App(Config(), transport=store, clock=clock)

    @app.task(name="note")
    def note(text: str = "") -> None: ...

    return app


def due_of(app: App) -> list[float]:
    """The instants of all jobs there are, in order."""
    jobs = app.transport.find(JobFilter(limit=10_000))
    return [load(job.envelope).headers[DUE_AT] for job in jobs]


def run_all(app: App, seconds: float, *schedulers: Scheduler, step: float = 1.0) -> None:
    clock: Any = app.clock
    for _ in range(int(seconds / step)):
        clock.advance(step)
        for scheduler in schedulers:
            scheduler.step()


def test_a_run_is_enqueued_when_it_is_due_and_says_when_that_was(app: App) -> None:
    app.schedule(every("note", seconds=60, kwargs={"text": "hi"}, options={"queue": "q"}))
    scheduler = Scheduler(app)
    scheduler.step()
    run_all(app, 150, scheduler)
    job = app.transport.find(JobFilter())[0]
    envelope = load(job.envelope)
    assert (envelope.queue, bytes(envelope.kwargs)) == ("q", b'{"text":"hi"}')
    assert envelope.headers == {SCHEDULE: "note", DUE_AT: 1_700_000_040.0}
    assert due_of(app) == [1_700_000_040.0, 1_700_000_100.0]
    assert job.enqueued_at == pytest.approx(1_700_000_040.0, abs=1.0)


def test_one_of_several_leads(app: App) -> None:
    app.schedule(every("note", seconds=10))
    schedulers = [Scheduler(app) for _ in range(3)]
    for scheduler in schedulers:
        scheduler.step()
    assert [scheduler.leads for scheduler in schedulers] == [True, False, False]
    run_all(app, 100, *schedulers)
    assert Counter(due_of(app)).most_common(1)[0][1] == 1
    assert len(due_of(app)) == 10


def test_another_one_leads_soon_after_the_leader_is_gone(app: App) -> None:
    app.schedule(every("note", seconds=10, misfire="run_all"))
    first, second = Scheduler(app), Scheduler(app)
    first.step()
    run_all(app, 30, first, second)
    run_all(app, 10, second)
    assert second.leads
    run_all(app, 60, second)
    assert due_of(app) == [NOW + 10 * n for n in range(1, 11)]


def test_a_frozen_leader_finds_out_before_it_enqueues(app: App, clock: FakeClock) -> None:
    app.schedule(every("note", seconds=10))
    first, second = Scheduler(app), Scheduler(app)
    first.step()
    assert first.leads
    clock.advance(TTL)
    assert not first.leads
    second.step()
    assert second.leads
    clock.advance(5)
    first.step()
    assert due_of(app) == []
    second.step()
    assert due_of(app) == [NOW + 10]


def test_every_run_once_though_leaders_die_before_they_note_it(
    app: App, store: MortalStore, clock: FakeClock
) -> None:
    app.schedule(every("note", seconds=60, misfire="run_all"))
    scheduler = Scheduler(app)
    scheduler.step()
    for number in range(1000):
        store.deadly = number % 3 == 0
        clock.advance(60)
        try:
            scheduler.step()
        except Died:
            store.deadly = False
            scheduler = Scheduler(app)
            clock.advance(TTL)
            scheduler.step()
            clock.set(clock.now() - TTL)
    assert due_of(app) == [NOW + 40 + 60 * n for n in range(1000)]


def test_a_broken_schedule_disables_itself_and_no_other(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    app.schedule(
        every("unknown", seconds=10),
        every("note", seconds=10, kwargs={"no": "such"}, name="bad arguments"),
        every("note", seconds=10),
    )
    scheduler = Scheduler(app)
    scheduler.step()
    run_all(app, 30, scheduler)
    assert len(due_of(app)) == 3
    infos = {info.name: info for info in Schedules(app).all()}
    for name in ("unknown", "bad arguments"):
        entry = infos[name].entry
        assert entry is not None
        assert entry.disabled
        assert f"schedule {name!r} is disabled" in caplog.text
        assert infos[name].next_run is None


@pytest.mark.parametrize(
    ("misfire", "runs"), [("run_once", [600]), ("skip", []), ("run_all", [400, 500, 600])]
)
def test_what_nobody_enqueued_in_time(
    app: App, clock: FakeClock, misfire: Any, runs: list[int]
) -> None:
    anchor = datetime.fromtimestamp(NOW, timezone.utc)
    app.schedule(every("note", seconds=100, anchor=anchor, misfire=misfire, most=3))
    scheduler = Scheduler(app)
    scheduler.step()
    clock.advance(690)
    scheduler.step()
    assert due_of(app) == [NOW + each for each in runs]
    clock.advance(11)
    scheduler.step()
    assert due_of(app) == [NOW + each for each in (*runs, 700)]


@pytest.mark.parametrize(("overlap", "jobs"), [("allow", 5), ("skip", 1), ("queue_one", 2)])
def test_runs_while_an_earlier_one_has_not_ended(app: App, overlap: Any, jobs: int) -> None:
    app.schedule(every("note", seconds=10, overlap=overlap))
    scheduler = Scheduler(app)
    scheduler.step()
    run_all(app, 50, scheduler)
    assert len(due_of(app)) == jobs
    journal = Schedules(app).get("note").journal
    assert journal is not None
    assert journal.skipped == 5 - jobs


def test_jitter_puts_a_run_off_by_the_same_time_in_every_process(app: App) -> None:
    app.schedule(every("note", seconds=100, jitter=50))
    scheduler = Scheduler(app)
    scheduler.step()
    run_all(app, 1000, scheduler, step=10)
    jobs = app.transport.find(JobFilter())
    late = [job.visible_at - load(job.envelope).headers[DUE_AT] for job in jobs]
    assert all(0 <= seconds < 61 for seconds in late)
    assert len(set(late)) > 5
    one = Schedule(name="note", task="note", rule=app.schedules[0].rule, jitter=50)
    due = datetime.fromtimestamp(NOW, timezone.utc)
    assert one.delay(due) == app.schedules[0].delay(due)


def test_a_single_run_is_late_rather_than_lost(app: App, clock: FakeClock) -> None:
    Schedules(app).add(
        at("note", datetime.fromtimestamp(NOW - 5, timezone.utc), name="once"), by="ann"
    )
    scheduler = Scheduler(app)
    scheduler.step()
    run_all(app, 30, scheduler)
    assert due_of(app) == [NOW - 5]


def test_changes_take_effect_at_once(app: App, clock: FakeClock) -> None:
    app.schedule(every("note", seconds=10))
    schedules, scheduler = Schedules(app), Scheduler(app)
    scheduler.step()
    assert schedules.pause("note", by="ann")
    assert not schedules.pause("note", by="bob")
    scheduler._stale = True  # what a wake-up does
    run_all(app, 30, scheduler)
    assert due_of(app) == []
    entry = schedules.get("note").entry
    assert entry is not None
    assert (entry.paused_by, entry.paused_at) == ("ann", NOW)
    assert schedules.resume("note")
    scheduler._stale = True
    run_all(app, 10, scheduler)
    assert due_of(app) == [NOW + 30, NOW + 40]
    job_id = schedules.run("note")
    assert app.transport.get([job_id])[0] is not None


def test_what_the_program_defines_follows_the_program(app: App, clock: FakeClock) -> None:
    schedules = Schedules(app)
    schedules.add(every("note", seconds=5, name="added"), by="ann")
    app.schedule(every("note", seconds=10), every("note", seconds=20, name="gone"))
    Scheduler(app, program="shop:app").step()
    del app.schedules[1]
    app.schedules[0] = cron("note", "@daily")
    Scheduler(app, program="shop:app").step()
    assert [info.name for info in schedules.all()] == ["added", "note"]
    entry = schedules.get("note").entry
    assert entry is not None
    assert str(entry.schedule.rule) == "0 0 * * *" or str(entry.schedule.rule) == "@daily"
    with pytest.raises(ConfigError, match="defined by shop:app"):
        schedules.remove("note")
    schedules.remove("added")
    with pytest.raises(UnknownSchedule, match="no schedule 'ntoe'; did you mean 'note'"):
        schedules.get("ntoe")


def test_an_outage_is_waited_for(
    app: App, store: MortalStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    app.schedule(every("note", seconds=10))
    scheduler = Scheduler(app)
    scheduler.step()

    def fail(*args: object) -> Any:
        raise TransportUnavailable("gone")

    with monkeypatch.context() as patch:
        patch.setattr(store, "acquire", fail)
        run_all(app, 20, scheduler)
    assert caplog.text.count("cannot look at schedules") == 1
    run_all(app, 20, scheduler)
    assert "schedules go on" in caplog.text
    assert due_of(app)[-1] == NOW + 40


def test_a_thread_wakes_up_for_a_change(app: App) -> None:
    """By the machine's clock: nothing here waits for a time to pass."""
    real = App(Config(transport="memory://"))
    real.register(app.tasks["note"]) if app.tasks["note"].is_free_for(real) else None

    @real.task(name="now")
    def now() -> None: ...

    scheduler = Scheduler(real)
    scheduler.start()
    try:
        listener = real.transport.listen(queues=["default"])
        past = datetime.fromtimestamp(real.clock.now() - 1, timezone.utc)
        Schedules(real).add(at("now", past, name="once"))
        assert listener.wait(10)
        listener.close()
    finally:
        scheduler.stop()
    assert len(real.transport.find(JobFilter())) == 1


def test_two_schedules_cannot_share_a_name(app: App) -> None:
    app.schedule(every("note", seconds=10))
    with pytest.raises(ConfigError, match="two schedules 'note'"):
        app.schedule(cron("note", "@daily"))
    with pytest.raises(ConfigError, match="'eta' is the scheduler's own"):
        every("note", seconds=1, options={"eta": 5})
