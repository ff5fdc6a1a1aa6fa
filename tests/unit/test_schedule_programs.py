"""Several programs on one store, deploys, damaged documents, clocks that are set."""

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest

from taskmq import App, Config, ConfigError, QueueConfig, Retry
from taskmq.documents import DocumentChange
from taskmq.envelope import Envelope, load
from taskmq.errors import UnknownTask
from taskmq.events import Event, JobSubmitted
from taskmq.records import JobFilter
from taskmq.schedule import Schedule, at, cron, every
from taskmq.scheduler import DUE_AT, SCHEDULE, Entry, Scheduler, Schedules
from taskmq.scheduler.leader import TTL
from taskmq.scheduler.tick import OVER_FOR
from taskmq.testing import FakeClock
from taskmq.transports.memory import MemoryTransport

NOW = 1_700_000_000.0  # 22:13:20 UTC
MakeApp = Callable[..., App]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def store(clock: FakeClock) -> MemoryTransport:
    return MemoryTransport(clock)


@pytest.fixture
def make_app(clock: FakeClock, store: MemoryTransport) -> MakeApp:
    def make(*tasks: str, config: Config | None = None, **policy: Any) -> App:
        app = App(config or Config(), transport=store, clock=clock)
        decorator: Any = app.task
        for name in tasks:
            decorator(name=name, **policy)(lambda text="": None)
        return app

    return make


def jobs(app: App) -> list[Envelope]:
    return [load(job.envelope) for job in app.transport.find(JobFilter(limit=10_000))]


def names(app: App) -> list[str]:
    return [info.name for info in Schedules(app).all()]


def entry_of(app: App, name: str) -> Entry:
    entry = Schedules(app).get(name).entry
    assert entry is not None
    return entry


def pass_time(app: App, seconds: float, *schedulers: Scheduler) -> None:
    clock: Any = app.clock
    for _ in range(int(seconds)):
        clock.advance(1)
        for scheduler in schedulers:
            scheduler.step()


# -- several programs ------------------------------------------------------------------------------


def test_a_leader_enqueues_what_it_has_no_task_for_as_its_program_wants_it(
    make_app: MakeApp,
) -> None:
    shop = make_app("send", queue="email", timeout=7, retry=Retry(max_attempts=3), expires=100)
    shop.schedule(every("send", seconds=10, kwargs={"text": "hi"}, options={"priority": 4}))
    other = make_app("other")
    leader, follower = Scheduler(other, program="other:app"), Scheduler(shop, program="shop:app")
    other.schedule(every("other", seconds=10))
    for scheduler in (leader, follower):
        scheduler.step()
    leader._stale = True  # what a wake-up does
    pass_time(shop, 11, leader, follower)
    assert (leader.leads, follower.leads) == (True, False)
    found = {envelope.task: envelope for envelope in jobs(shop)}
    assert set(found) == {"send", "other"}
    sent = found["send"]
    assert (sent.queue, sent.priority, sent.timeout) == ("email", 4, 7)
    assert bytes(sent.kwargs) == b'{"text":"hi"}'
    assert sent.enqueued_at == NOW + 10
    assert sent.expires_at == NOW + 110
    assert sent.headers == {SCHEDULE: "send", DUE_AT: NOW + 10}
    assert entry_of(shop, "send").disabled == ""


def test_a_leader_needs_no_app_at_all(make_app: MakeApp, clock: FakeClock) -> None:
    shop = make_app("send")
    shop.schedule(every("send", seconds=10))
    Scheduler(shop, program="shop:app").step()
    clock.advance(TTL)
    pass_time(shop, 20, Scheduler(make_app()))
    assert len(jobs(shop)) == 2


def test_programs_leave_each_others_schedules_alone(make_app: MakeApp) -> None:
    shop, other, third = make_app("send"), make_app("other"), make_app("third")
    shop.schedule(every("send", seconds=10))
    other.schedule(every("other", seconds=10))
    Scheduler(shop, program="shop:app").step()
    Scheduler(other, program="other:app").step()
    Scheduler(third, program="third:app").step()
    Scheduler(third).step()
    assert names(shop) == ["other", "send"]
    other.schedules.clear()
    Scheduler(other, program="other:app").step()
    assert names(shop) == ["send"]


def test_a_program_that_was_renamed_takes_its_schedules_over(
    make_app: MakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    shop = make_app("send")
    shop.schedule(every("send", seconds=10))
    Scheduler(shop, program="shop:app").step()
    Scheduler(shop, program="shop.main:app").step()
    assert "was defined by shop:app, and is by shop.main:app now" in caplog.text
    assert entry_of(shop, "send").program == "shop.main:app"


def test_a_program_that_starts_with_the_same_definitions_writes_nothing(
    make_app: MakeApp, store: MemoryTransport, clock: FakeClock
) -> None:
    shop = make_app("send")
    shop.schedule(every("send", seconds=10, kwargs={"text": "hi"}))
    Scheduler(shop, program="shop:app").step()
    before = store.documents("schedule")
    clock.advance(1)
    Scheduler(shop, program="shop:app").step()
    assert store.documents("schedule") == before


# -- deploys ---------------------------------------------------------------------------------------


def test_a_new_version_decides_though_the_old_one_leads(make_app: MakeApp) -> None:
    old, new = make_app("send", queue="old"), make_app("send", queue="new")
    old.schedule(every("send", seconds=10))
    new.schedule(every("send", seconds=5))
    first = Scheduler(old, program="shop:app")
    first.step()
    second = Scheduler(new, program="shop:app")
    second.step()
    first._stale = True  # what a wake-up does
    pass_time(old, 10, first, second)
    assert first.leads
    assert [(job.queue, job.headers[DUE_AT]) for job in jobs(old)] == [
        ("new", NOW + 5),
        ("new", NOW + 10),
    ]


def test_a_new_rule_is_not_late_for_what_was_before_it(make_app: MakeApp, clock: FakeClock) -> None:
    app = make_app("send")
    app.schedule(cron("send", "0 0 1 * *"))
    pass_time(app, 2, Scheduler(app, program="shop:app"))
    clock.advance(3600)
    app.schedules[:] = [cron("send", "30 22 * * *")]  # 22:30 was meanwhile
    scheduler = Scheduler(app, program="shop:app")
    pass_time(app, 2, scheduler)
    assert jobs(app) == []
    clock.advance(86_400)
    scheduler.step()
    assert len(jobs(app)) == 1


def test_another_policy_is_late_rather_than_lost(make_app: MakeApp, clock: FakeClock) -> None:
    app = make_app("send")
    app.schedule(every("send", seconds=1000))
    pass_time(app, 1, Scheduler(app, program="shop:app"))
    clock.advance(1500)
    app.schedules[:] = [every("send", seconds=1000, options={"priority": 3})]
    Scheduler(app, program="shop:app").step()
    assert [job.priority for job in jobs(app)] == [3]


def test_a_pause_survives_a_deploy(make_app: MakeApp) -> None:
    app = make_app("send")
    app.schedule(every("send", seconds=10))
    Scheduler(app, program="shop:app").step()
    Schedules(app).pause("send", by="ann")
    app.schedules[:] = [every("send", seconds=5)]
    pass_time(app, 20, Scheduler(app, program="shop:app"))
    assert jobs(app) == []
    assert entry_of(app, "send").paused_by == "ann"


def test_schedules_that_are_defined_later_count_too(make_app: MakeApp) -> None:
    app = make_app("send")
    scheduler = Scheduler(app, program="shop:app")
    scheduler.step()
    app.schedule(every("send", seconds=10))
    pass_time(app, 11, scheduler)
    assert len(jobs(app)) == 1


def test_a_definition_that_was_mended_runs_again(make_app: MakeApp, clock: FakeClock) -> None:
    app = make_app("send")
    app.schedule(every("sedn", seconds=10))
    Scheduler(app, program="shop:app").step()
    assert "did you mean 'send'" in entry_of(app, "sedn").disabled
    with pytest.raises(ConfigError, match="is disabled: "):
        Schedules(app).run("sedn")
    app.schedules[:] = [every("send", seconds=10, name="sedn")]
    clock.advance(TTL)
    pass_time(app, 11, Scheduler(app, program="shop:app"))
    assert len(jobs(app)) == 1


def test_large_arguments_are_in_the_payload_store_once_for_each_run(
    store: MemoryTransport, clock: FakeClock, tmp_path: Path
) -> None:
    folder = tmp_path / "payloads"
    config = Config(payload_store=f"file://{folder}", offload_above=1000)
    app = App(config, transport=store, clock=clock)
    app.task(name="send")(lambda text: None)
    app.schedule(every("send", seconds=10, args=["x" * 2000]))
    scheduler = Scheduler(app)
    scheduler.step()
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    pass_time(app, 20, scheduler)
    assert len([path for path in folder.rglob("*") if path.is_file()]) == 2
    assert {app.arguments_of(job)[0][0] for job in jobs(app)} == {"x" * 2000}


# -- what is in the store --------------------------------------------------------------------------


def test_a_scheduler_without_schedules_neither_leads_nor_asks(
    make_app: MakeApp, store: MemoryTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app("send")
    scheduler = Scheduler(app)
    asked: list[str] = []

    def watched(name: str) -> Callable[..., Any]:
        call = getattr(store, name)

        def ask(*arguments: Any) -> Any:
            asked.append(name)
            return call(*arguments)

        return ask

    for name in ("acquire", "documents", "write", "find", "get"):
        monkeypatch.setattr(store, name, watched(name))
    assert scheduler.step() >= 60
    assert scheduler.step() >= 60
    assert asked == ["documents"]
    Schedules(app).add(every("send", seconds=10), by="ann")
    scheduler._stale = True  # what a wake-up does
    scheduler.step()
    assert scheduler.leads
    Schedules(app).remove("send")
    scheduler._stale = True
    scheduler.step()
    assert not scheduler.leads


def test_a_document_that_cannot_be_read_stops_nothing_else(
    make_app: MakeApp, store: MemoryTransport, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app("send")
    schedules = Schedules(app)
    for name in ("good", "no zone", "no json"):
        schedules.add(every("send", seconds=10, name=name), by="ann")
    documents = {each.name: each for each in store.documents("schedule")}
    bad_zone = msgspec.json.decode(documents["no zone"].data)
    bad_zone["schedule"]["rule"] = {"type": "cron", "expression": "@daily", "tz": "Mars/Tharsis"}
    damaged = {"no zone": msgspec.json.encode(bad_zone), "no json": b"\xff{"}
    store.write(
        [
            DocumentChange(
                kind="schedule",
                name=name,
                data=data,
                revision="x",
                expected=documents[name].revision,
            )
            for name, data in damaged.items()
        ]
    )
    pass_time(app, 11, Scheduler(app))
    assert [job.headers[SCHEDULE] for job in jobs(app)] == ["good"]
    assert caplog.text.count("schedule 'no zone' is left out") == 1
    infos = {info.name: info for info in schedules.all()}
    assert "Mars/Tharsis" in infos["no zone"].broken
    with pytest.raises(ConfigError, match="cannot be read"):
        schedules.pause("no zone")
    schedules.remove("no zone")


def test_a_journal_that_cannot_be_read_is_begun_anew(
    make_app: MakeApp, store: MemoryTransport
) -> None:
    app = make_app("send")
    app.schedule(every("send", seconds=10))
    scheduler = Scheduler(app)
    pass_time(app, 11, scheduler)
    (journal,) = store.documents("schedule-journal")
    store.write(
        [
            DocumentChange(
                kind="schedule-journal",
                name="send",
                data=b"?",
                revision="x",
                expected=journal.revision,
            )
        ]
    )
    pass_time(app, 20, scheduler)
    assert [job.headers[DUE_AT] - NOW for job in jobs(app)] == [10, 20, 30]


def test_what_is_over_does_not_stay(
    make_app: MakeApp, store: MemoryTransport, clock: FakeClock
) -> None:
    app = make_app("send")
    soon = datetime.fromtimestamp(NOW + 5, timezone.utc)
    Schedules(app).add(at("send", soon, name="added"), by="ann")
    app.schedule(at("send", soon, name="defined"))
    scheduler = Scheduler(app, program="shop:app")
    pass_time(app, 10, scheduler)
    assert len(jobs(app)) == 2
    clock.advance(OVER_FOR)
    Schedules(app).add(every("send", seconds=10, name="another"), by="ann")
    scheduler._stale = True
    pass_time(app, 10, scheduler)
    assert names(app) == ["another", "defined"]
    assert [each.name for each in store.documents("schedule-journal")] == ["another", "defined"]
    assert len([job for job in jobs(app) if job.headers[SCHEDULE] == "defined"]) == 1


def test_a_journal_whose_schedule_is_gone_goes_too(
    make_app: MakeApp, store: MemoryTransport, clock: FakeClock
) -> None:
    app = make_app("send")
    Schedules(app).add(every("send", seconds=10, name="gone"), by="ann")
    Schedules(app).add(every("send", seconds=10, name="stays"), by="ann")
    scheduler = Scheduler(app)
    pass_time(app, 11, scheduler)
    (page, _) = store.documents("schedule")
    gone = DocumentChange(
        kind="schedule", name="gone", data=None, revision="x", expected=page.revision
    )
    assert store.write([gone]) == [True]  # by somebody who ended before he forgot the runs
    scheduler._stale = True
    pass_time(app, 11, scheduler)
    assert [each.name for each in store.documents("schedule-journal")] == ["stays"]


def test_a_journal_does_not_grow(make_app: MakeApp, store: MemoryTransport) -> None:
    app = make_app("send")
    app.schedule(every("send", seconds=1))
    scheduler = Scheduler(app)
    pass_time(app, 10, scheduler)
    size = len(store.documents("schedule-journal")[0].data)
    pass_time(app, 300, scheduler)
    assert len(store.documents("schedule-journal")[0].data) <= size + 20


# -- refusals --------------------------------------------------------------------------------------


def test_a_full_queue_puts_off_its_own_runs_alone(
    make_app: MakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config(queues={"small": QueueConfig(capacity=1, overflow="block")})
    app = make_app("send", config=config)
    app.schedule(
        every("send", seconds=10, name="a", options={"queue": "small"}),
        every("send", seconds=10, name="b"),
    )
    scheduler = Scheduler(app)
    pass_time(app, 21, scheduler)
    by_name = [job.headers[SCHEDULE] for job in jobs(app)]
    assert (by_name.count("a"), by_name.count("b")) == (1, 2)
    assert "schedule 'a': a run is put off" in caplog.text
    app.transport.purge("small")
    pass_time(app, 6, scheduler)
    assert [job.headers[DUE_AT] - NOW for job in jobs(app) if job.queue == "small"] == [20]


def test_what_cannot_be_added(make_app: MakeApp, store: MemoryTransport) -> None:
    app = make_app("send")
    schedules = Schedules(app)
    with pytest.raises(UnknownTask, match="did you mean 'send'"):
        schedules.add(every("sned", seconds=1))
    with pytest.raises(ConfigError, match="the arguments do not fit"):
        schedules.add(every("send", seconds=1, kwargs={"no": 1}))
    with pytest.raises(ConfigError, match="no option 'qeue'"):
        schedules.add(every("send", seconds=1, options={"qeue": "q"}))
    app.schedule(every("send", seconds=1))
    Scheduler(app, program="shop:app").step()
    with pytest.raises(ConfigError, match="is defined by shop:app: change it there"):
        schedules.add(every("send", seconds=1), replace=True)
    schedules.add(every("send", seconds=1, name="mine"))
    with pytest.raises(ConfigError, match="there is a schedule 'mine' already"):
        schedules.add(every("send", seconds=1, name="mine"))
    schedules.pause("mine", by="ann")
    schedules.add(every("send", seconds=2, name="mine"), by="bob", replace=True)
    entry = entry_of(app, "mine")
    assert (entry.by, entry.paused_by) == ("bob", "ann")


def test_who_changes_something_is_the_user_unless_said(make_app: MakeApp) -> None:
    app = make_app("send")
    Schedules(app).add(every("send", seconds=1))
    Schedules(app).pause("send")
    entry = entry_of(app, "send")
    assert "@" in entry.by
    assert "@" in entry.paused_by


# -- runs ------------------------------------------------------------------------------------------


def test_a_run_by_hand_counts_for_those_that_must_not_overlap(make_app: MakeApp) -> None:
    app = make_app("send")
    app.schedule(every("send", seconds=10, overlap="skip"))
    scheduler = Scheduler(app)
    pass_time(app, 1, scheduler)
    Schedules(app).run("send")
    pass_time(app, 20, scheduler)
    assert len(jobs(app)) == 1


def test_events_tell_of_runs(make_app: MakeApp) -> None:
    class Sink:
        def __init__(self) -> None:
            self.events: list[Event] = []

        def handle(self, events: Any) -> None:
            self.events += events

    app, sink = make_app("send"), Sink()
    app.add_sink(sink)
    app.schedule(every("send", seconds=10))
    pass_time(app, 11, Scheduler(app))
    (event,) = sink.events
    assert isinstance(event, JobSubmitted)
    assert (event.task, event.created) == ("send", True)


@pytest.mark.parametrize("jump", [-3600.0, -10 * 86_400.0 + 1, 3600.0, 86_400.0 * 400])
def test_a_clock_that_was_wrong_for_a_while(
    make_app: MakeApp, clock: FakeClock, jump: float
) -> None:
    """Nothing is run twice for an instant, and it goes on when the clock is right again."""
    app = make_app("send")
    app.schedule(every("send", seconds=60))
    scheduler = Scheduler(app)
    pass_time(app, 120, scheduler)
    clock.set(clock.now() + jump)
    pass_time(app, 120, scheduler)
    clock.set(clock.now() - jump)
    right = clock.now()
    pass_time(app, 180, scheduler)
    due = [job.headers[DUE_AT] for job in jobs(app)]
    assert len([each for each in due if right < each <= right + 180]) == 3
    assert len(due) == len(set(due))


def test_a_first_run_that_is_due_before_anybody_looks_is_not_lost(
    make_app: MakeApp, clock: FakeClock
) -> None:
    app = make_app("send")
    Schedules(app).add(every("send", seconds=10), by="ann")
    clock.advance(15)
    Scheduler(app).step()
    assert [job.headers[DUE_AT] for job in jobs(app)] == [NOW + 10]


def test_start_and_end(make_app: MakeApp, clock: FakeClock) -> None:
    app = make_app("send")
    start, end = (datetime.fromtimestamp(NOW + each, timezone.utc) for each in (20, 40))
    app.schedule(every("send", seconds=10, start=start, end=end))
    pass_time(app, 100, Scheduler(app))
    assert [job.headers[DUE_AT] - NOW for job in jobs(app)] == [20, 30, 40]
    with pytest.raises(ConfigError, match="end is before start"):
        every("send", seconds=10, start=end, end=start)


def test_the_names_of_fields_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"schedule of 'send'.*'oops'"):
        every("send", seconds=1, oops=1)
    with pytest.raises(ConfigError, match="misfire"):
        every("send", seconds=1, misfire="never")
    with pytest.raises(ConfigError, match="needs a time zone"):
        every("send", seconds=1, start=datetime(2030, 1, 1))
    with pytest.raises(ConfigError, match="must be JSON"):
        Schedule(name="x", task="send", rule=every("send", seconds=1).rule, args=(object(),))
