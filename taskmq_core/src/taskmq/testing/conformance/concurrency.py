"""Many at once: threads always, processes where the store is shared."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from taskmq.records import JobFilter
from taskmq.states import JobState
from taskmq.transport import Ack, Delivery, Release, Reservation, RetryLater, Settled

from . import processes
from .case import case
from .checks import equal, holds
from .subject import FAILURE, LEASE, Subject
from .threads import together


@case()
def threads_share_a_queue_without_sharing_a_job(subject: Subject) -> None:
    """Threads that reserve and settle at once: nothing lost, nothing twice."""
    ids = subject.add_many(1_000)
    handles = [subject.open() for _ in range(4)]
    done: list[list[str]] = [[] for _ in handles]

    def work(number: int) -> None:
        wanted = Reservation(queues={"q": 1}, worker=f"w{number}", lease=LEASE, limit=8)
        settlements: list[Ack] = []
        while True:
            answer = handles[number].exchange(settlements, wanted)
            holds(set(answer.settled) <= {Settled.DONE}, "every ack takes effect")
            settlements = [Ack(delivery) for delivery in answer.deliveries]
            done[number] += [delivery.job_id for delivery in answer.deliveries]
            if not settlements:
                return

    together(work, 4)
    equal(sorted(sum(done, [])), sorted(ids), "the jobs done by all threads")  # noqa: RUF017  # four lists


@case()
def one_handle_serves_many_threads(subject: Subject) -> None:
    """A single handle may be used by several threads at once, for everything."""
    done: list[str] = []
    stored: list[str] = []

    def body(number: int) -> None:
        wanted = Reservation(queues={"q": 1}, worker=f"w{number}", lease=LEASE, limit=4)
        for _ in range(25):
            answers = subject.transport.enqueue([subject.job() for _ in range(4)])
            stored.extend(answer.job_id for answer in answers)
            held = subject.transport.reserve(wanted)
            subject.transport.extend(held, LEASE)
            subject.transport.get([delivery.job_id for delivery in held])
            subject.transport.settle([Ack(delivery) for delivery in held])
            done.extend(delivery.job_id for delivery in held)
            subject.transport.stats()

    together(body, 4)
    while held := subject.reserve(limit=100):
        subject.settle(*(Ack(delivery) for delivery in held))
        done.extend(delivery.job_id for delivery in held)
    equal(sorted(done), sorted(stored), "the jobs done")


@case()
def settlements_race_and_one_wins(subject: Subject) -> None:
    """Of two threads that settle one delivery differently, one takes effect."""
    for _ in range(50):
        job_id = subject.add()
        delivery: Delivery = subject.take(job_id)
        handles = [subject.open(), subject.transport]
        outcomes: list[Settled] = []
        batches = ([Ack(delivery)], [RetryLater(delivery, 99.0, FAILURE)])

        def settle(number: int, outcomes: list[Settled] = outcomes) -> None:
            outcomes.extend(handles[number].settle(batches[number]))  # noqa: B023  # ends in this round

        together(settle, 2)
        equal(outcomes.count(Settled.DONE), 1, "settlements that took effect")


@case()
def lost_job_goes_to_one_of_many(subject: Subject) -> None:
    """When a lease ends and several ask at once, one of them gets the job, once counted."""
    for _ in range(20):
        job_id = subject.add()
        subject.take(job_id, lease=5.0)
        subject.clock.advance(5)
        handles = [subject.open() for _ in range(4)]
        got: list[Delivery] = []

        def reserve(number: int, got: list[Delivery] = got) -> None:
            wanted = Reservation(queues={"q": 1}, worker=f"w{number}", lease=LEASE, limit=5)
            got.extend(handles[number].reserve(wanted))  # noqa: B023  # ends in this round

        together(reserve, 4)
        equal([(d.job_id, d.reclaims) for d in got], [(job_id, 1)], "deliveries")
        subject.done(Release(got[0]))
        subject.transport.purge("q")


@case("shared")
def processes_share_a_queue_without_sharing_a_job(subject: Subject) -> None:
    """Four processes drain 2,000 jobs, giving some back and retrying some: no job is held by two
    at once, none is lost, none succeeds twice."""
    ids = subject.add_many(2_000)
    holds_by_job: defaultdict[str, list[processes.Hold]] = defaultdict(list)
    for log in processes.drain(subject, processes=4):
        for hold in log:
            holds_by_job[hold.job_id].append(hold)
    equal(sorted(holds_by_job), sorted(ids), "the jobs that were delivered")
    for job_id, log in holds_by_job.items():
        log.sort(key=lambda hold: hold.began)
        for earlier, later in pairwise(log):
            holds(earlier.ended <= later.began, f"{job_id} is held by one process at a time")
        successes = [hold.outcome for hold in log].count("ack")
        equal(successes, 1, f"successes of {job_id}")
    left = subject.open().find(JobFilter(states=(JobState.QUEUED, JobState.RUNNING)))
    equal(left, [], "jobs left")


@case("shared")
def killed_process_loses_no_job(subject: Subject) -> None:
    """What a process held when it was killed is delivered to another once its lease is over."""
    ids = subject.add_many(20)
    processes.reserve_and_die(subject, limit=5, lease=0.5)
    live = processes.live(subject)
    done: list[str] = []
    reclaims = 0
    wanted = Reservation(queues={"q": 1}, worker="survivor", lease=LEASE, limit=50)
    listener = live.listen(["q"])
    deadline = processes.Deadline()
    while len(done) < len(ids):
        listener.clear()
        answer = live.exchange((), wanted)
        live.settle([Ack(delivery) for delivery in answer.deliveries])
        done += [delivery.job_id for delivery in answer.deliveries]
        reclaims += sum(delivery.reclaims for delivery in answer.deliveries)
        if not answer.deliveries:
            deadline.check("the jobs of a killed process are delivered again")
            listener.wait(deadline.until(answer.next_due_at))
    listener.close()
    live.close()
    equal((sorted(done), reclaims), (sorted(ids), 5), "jobs done, and reclaims")


@case("shared", "wakeups")
def enqueue_of_another_process_wakes(subject: Subject) -> None:
    """A thread that waits is woken by what another process enqueues."""
    live = processes.live(subject)
    listener = live.listen(["q"])
    with processes.enqueuer(subject) as enqueue_one:
        for _ in range(10):
            listener.clear()
            enqueue_one()
            holds(listener.wait(processes.PATIENCE), "the wait ends")
    listener.close()
    live.close()
