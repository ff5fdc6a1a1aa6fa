"""Reading: get, find and stats tell what is there and change nothing."""

from __future__ import annotations

from taskmq.records import JobFilter, JobRecord, QueueStats
from taskmq.states import JobState
from taskmq.transport import Ack, DeadLetter, Defer, RetryLater

from .case import case
from .checks import equal, holds, near
from .subject import FAILURE, Subject


def _ids(records: list[JobRecord]) -> list[str]:
    return [record.id for record in records]


@case()
def get_answers_in_the_order_of_the_ids(subject: Subject) -> None:
    """One answer for every id, in order, also for one that is asked twice."""
    first, second = subject.add_many(2)
    records = subject.transport.get([second, first, second])
    equal([record.id if record else None for record in records], [second, first, second], "ids")
    equal(subject.transport.get([]), [], "the answer to no ids")


@case()
def unknown_id_has_no_record(subject: Subject) -> None:
    """An id that the store does not know is ``None``, and does not disturb the others."""
    known = subject.add()
    records = subject.transport.get(["01UNKNOWN", known])
    equal([record and record.id for record in records], [None, known], "records")


@case()
def many_ids_are_one_call(subject: Subject) -> None:
    """Thousands of ids may be asked for at once."""
    ids = subject.add_many(3_000)
    records = subject.transport.get(ids)
    equal([record.id if record else None for record in records] == ids, True, "all are found")
    equal(len(subject.transport.find(JobFilter(ids=tuple(ids), limit=5_000))), 3_000, "all found")


@case()
def find_matches_every_field_given(subject: Subject) -> None:
    """A filter with several fields finds what matches all of them."""
    a1 = subject.add("demo.a", "q1")
    b1 = subject.add("demo.b", "q1")
    a2 = subject.add("demo.a", "q2")
    subject.take(a1, queues=["q1"])
    find = subject.transport.find
    equal(_ids(find(JobFilter(task="demo.a"))), [a1, a2], "by task")
    equal(_ids(find(JobFilter(queue="q1"))), [a1, b1], "by queue")
    equal(_ids(find(JobFilter(task="demo.a", queue="q1"))), [a1], "by both")
    equal(_ids(find(JobFilter(states=(JobState.QUEUED,)))), [b1, a2], "by state")
    either = JobFilter(states=(JobState.QUEUED, JobState.RUNNING))
    equal(_ids(find(either)), [a1, b1, a2], "by either state")
    equal(_ids(find(JobFilter(ids=(a2, a1, "01X")))), [a1, a2], "by ids")
    equal(_ids(find(JobFilter(ids=(a2, b1), queue="q2"))), [a2], "by ids and queue")
    equal(find(JobFilter(task="demo")), [], "part of a name")


@case()
def find_pages_through_everything_once(subject: Subject) -> None:
    """Paging by ``after`` and ``limit`` lists every job once, in store order."""
    ids = subject.add_many(25)
    seen: list[str] = []
    after: str | None = None
    while page := subject.transport.find(JobFilter(after=after, limit=10)):
        equal(len(page), min(10, 25 - len(seen)), "jobs on the page")
        seen += _ids(page)
        after = page[-1].id
    equal(seen, ids, "the pages")


@case()
def nothing_follows_an_unknown_id(subject: Subject) -> None:
    """Paging behind an id that the store does not know ends."""
    subject.add()
    equal(subject.transport.find(JobFilter(after="01UNKNOWN")), [], "what follows")


@case()
def find_looks_for_dead_letters_or_the_others(subject: Subject) -> None:
    """``dead`` is true for dead letters only, false for all others, ``None`` for both."""
    dead, alive = subject.add_many(2)
    subject.done(DeadLetter(subject.take(dead), "error", FAILURE))
    find = subject.transport.find
    equal(_ids(find(JobFilter(dead=True))), [dead], "dead letters")
    equal(_ids(find(JobFilter(dead=False))), [alive], "others")
    equal(_ids(find(JobFilter())), [dead, alive], "both")


@case()
def stats_count_by_what_jobs_wait_for(subject: Subject) -> None:
    """Ready, delayed, running, parked and dead jobs are counted apart."""
    subject.add_many(7, priority=1)
    subject.add(eta=subject.clock.now() + 100)
    _, parked, dead, retried, done = subject.reserve(limit=5)
    subject.settle(
        Defer(parked, 50.0, "unknown_task", 500.0),
        DeadLetter(dead, "error", FAILURE),
        RetryLater(retried, 10.0, FAILURE),
        Ack(done),
    )
    subject.add(priority=-3)
    (stats,) = subject.transport.stats(["q"])
    counts = (stats.ready, stats.delayed, stats.running, stats.parked, stats.dead, stats.waiting)
    equal(counts, (3, 3, 1, 1, 1, 0), "ready, delayed, running, parked, dead, waiting")
    equal(stats.ready_by_priority, {1: 2, -3: 1}, "ready_by_priority")
    subject.clock.advance(10)
    equal(subject.transport.stats(["q"])[0].ready, 4, "ready, when a retry is due")


@case("dependencies")
def stats_count_what_waits_for_dependencies(subject: Subject) -> None:
    """A job that waits for others is ``waiting``, neither ready nor delayed."""
    first = subject.add()
    subject.add(after=[first])
    (stats,) = subject.transport.stats(["q"])
    equal((stats.ready, stats.waiting, stats.delayed), (1, 1, 0), "ready, waiting, delayed")


@case()
def stats_tell_since_when_the_oldest_is_ready(subject: Subject) -> None:
    """``oldest_ready_at`` is the earliest instant at which a ready job became visible."""
    start = subject.clock.now()
    early = subject.add(eta=start + 5)
    subject.clock.advance(3)
    equal(subject.transport.stats(["q"])[0].oldest_ready_at, None, "with nothing ready")
    late = subject.add()
    near(subject.transport.stats(["q"])[0].oldest_ready_at, start + 3, "with one ready")
    subject.clock.advance(7)
    subject.take(early)
    near(subject.transport.stats(["q"])[0].oldest_ready_at, start + 3, "with one left")
    subject.take(late)
    equal(subject.transport.stats(["q"])[0].oldest_ready_at, None, "with none left")


@case()
def stats_name_every_queue_in_use(subject: Subject) -> None:
    """Without names: the queues that hold unfinished or dead jobs, by name. With: those."""
    equal(list(subject.transport.stats()), [], "an empty store")
    subject.add(queue="b")
    subject.add(queue="a")
    subject.add(queue="done")
    subject.done(Ack(subject.take(queues=["done"])))
    equal([stats.queue for stats in subject.transport.stats()], ["a", "b"], "queues in use")
    equal(subject.transport.stats(["none"]), [QueueStats(queue="none")], "an empty queue")
    equal([s.queue for s in subject.transport.stats(["b", "a"])], ["a", "b"], "given names")


@case()
def reading_changes_nothing(subject: Subject) -> None:
    """No read reserves, drops or takes back anything."""
    expired = subject.add(expires_at=subject.clock.now() + 1)
    lost = subject.add(queue="r")
    subject.take(lost, queues=["r"], lease=1.0)
    subject.clock.advance(5)
    for _ in range(2):
        subject.transport.find(JobFilter())
        subject.transport.stats()
        subject.expect(expired, JobState.QUEUED, "after reads")
        subject.expect(lost, JobState.RUNNING, "after reads")


@case()
def what_is_missing_is_said_in_words(subject: Subject) -> None:
    """A store that cannot do everything names its limitations, for people to read."""
    capabilities = subject.transport.capabilities
    names = [name for name in capabilities.__struct_fields__ if name != "limitations"]
    missing = [name for name in names if not getattr(capabilities, name)]
    holds(capabilities.limitations or not missing, f"limitations that tell of {missing}")
