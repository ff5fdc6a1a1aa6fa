"""Why is this job not running? One test for each answer."""

from typing import Any

import pytest

from taskmq import JobState
from taskmq.diagnose import Situation, diagnose, in_words
from taskmq.limits import Limit
from taskmq.records import Failure, Held, JobRecord, PausedQueue, QueueStats, WorkerRecord

NOW = 1_700_000_000.0


def job(**fields: Any) -> JobRecord:
    return JobRecord(
        **{
            "id": "J1",
            "task": "shop.pay",
            "queue": "money",
            "state": JobState.QUEUED,
            "priority": 0,
            "attempt": 1,
            "deliveries": 0,
            "reclaims": 0,
            "max_deliveries": 5,
            "enqueued_at": NOW - 100,
            "visible_at": NOW - 100,
            "envelope": b"",
            **fields,
        }
    )


def worker(**fields: Any) -> WorkerRecord:
    return WorkerRecord(
        **{
            "id": "w1",
            "queues": ("money", "default"),
            "pool": "threads",
            "concurrency": 4,
            "started_at": NOW - 1000,
            "heartbeat_at": NOW - 1,
            "heartbeat_interval": 10.0,
            "tasks": ("shop.pay",),
            **fields,
        }
    )


def told(record: JobRecord | None, *workers: WorkerRecord, **around: Any) -> dict[str, str]:
    findings = diagnose(record, Situation(NOW, workers, **around))
    return {finding.code: finding.text for finding in findings}


def test_an_unknown_job() -> None:
    assert "the store knows no such job" in told(None)["unknown_job"]


def test_nothing_is_in_the_way() -> None:
    assert told(job(), worker()) == {"ready": "it is ready: the next free slot takes it"}


def test_delayed() -> None:
    assert told(job(visible_at=NOW + 45), worker()) == {"delayed": "it is delayed for another 45 s"}


def test_its_queue_is_paused() -> None:
    pause = PausedQueue(queue="money", by="ann@desk", paused_at=NOW - 300, reason="audit\nof may")
    other = PausedQueue(queue="email", by="bob@desk", paused_at=NOW)
    text = "its queue 'money' was paused by ann@desk 5 min ago (audit); to go on: "
    text += "taskmq resume money"
    assert told(job(), worker(), paused=[other, pause]) == {"paused": text}
    assert list(told(job(visible_at=NOW + 45), paused=[pause])) == [
        "paused",
        "delayed",
        "no_worker",
    ]


def test_between_two_attempts() -> None:
    failure = Failure(type="builtins.OSError", message="disk\nfull")
    record = job(state=JobState.RETRYING, attempt=3, visible_at=NOW + 300, failure=failure)
    assert told(record, worker()) == {
        "retrying": "attempt 2 failed; attempt 3 is delayed for another 5 min "
        "(builtins.OSError: disk)"
    }
    assert "ready" in told(job(state=JobState.RETRYING, attempt=2), worker())


def test_expired_but_still_there() -> None:
    assert "it expired 5.0 s ago and will never run" in told(job(expires_at=NOW - 5))["expired"]


def test_no_worker_at_all() -> None:
    assert told(job()) == {"no_worker": "no worker is running"}
    stale = worker(heartbeat_at=NOW - 100)
    assert told(job(), stale)["no_worker"] == (
        "no worker is running (1 registered, silent for too long)"
    )


def test_no_worker_serves_its_queue() -> None:
    finding = told(job(queue="mony"), worker(), worker(id="w2", queues=("email",)))
    assert finding == {
        "queue_not_served": "no live worker serves the queue 'mony'; did you mean 'money'? "
        "(served: default, email, money)"
    }


def parked(reason: str = "unknown_task", **fields: Any) -> JobRecord:
    return job(parked_reason=reason, parked_at=NOW - 600, visible_at=NOW + 20, **fields)


def test_parked_because_nobody_knows_the_task() -> None:
    findings = told(parked(task="shop.payy"), worker())
    assert findings == {
        "parked": "it is parked since 10 min: no worker that took it knows the task; "
        "it is offered again in 20 s",
        "task_unknown": "no live worker knows the task 'shop.payy'; did you mean 'shop.pay'?",
    }


def test_parked_while_another_worker_would_know_it() -> None:
    other = worker(id="w2", queues=("email",))
    findings = told(parked(), worker(tasks=()), other)
    assert findings["task_known_elsewhere"] == (
        "w2 knows the task 'shop.pay', but does not serve the queue 'money'"
    )
    assert told(parked(), worker(), worker(id="w2"))["task_known_elsewhere"] == (
        "w1 (and 1 more) knows the task 'shop.pay'"
    )


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("arguments_do_not_fit", "its arguments do not fit the task's signature"),
        ("undecodable_arguments", "the worker cannot decode its arguments"),
        ("unsupported_version", "written by a later version of taskmq"),
        ("a reason of the future", "a reason of the future"),
    ],
)
def test_parked_for_another_reason(reason: str, words: str) -> None:
    assert words in told(parked(reason), worker())["parked"]


def test_a_worker_that_will_park_it() -> None:
    assert told(job(), worker(tasks=("shop.refund",))) == {
        "task_unknown": "w1 serves its queue, but does not know the task 'shop.pay'"
    }


def test_more_urgent_work_in_any_queue_of_its_workers() -> None:
    queues = [
        QueueStats(queue="money", ready_by_priority={0: 3, 5: 20}),
        QueueStats(queue="default", ready_by_priority={1: 1200, -1: 7}),
        QueueStats(queue="elsewhere", ready_by_priority={9: 99}),
    ]
    assert told(job(), worker(), queues=queues) == {
        "higher_priority": "1,220 jobs of higher priority are ready in the queues of its workers",
        "in_line": "3 jobs of its priority are ready, itself included; the oldest is first",
    }


def test_every_slot_is_busy() -> None:
    busy = [worker(running=4), worker(id="w2", running=4)]
    assert told(job(), *busy) == {"workers_busy": "all 8 slots that serve its queue are busy"}
    assert "ready" in told(job(), busy[0], worker(id="w2", running=3))


def running(**fields: Any) -> JobRecord:
    return job(
        **{
            "state": JobState.RUNNING,
            "worker": "w1",
            "started_at": NOW - 30,
            "lease_until": NOW + 60,
            **fields,
        }
    )


def test_it_runs() -> None:
    assert told(running(), worker()) == {
        "running": "it runs for 30 s: w1 holds its lease for another 60 s"
    }


def test_it_runs_and_was_asked_to_stop() -> None:
    assert "cancel_requested" in told(running(cancel_requested=True), worker())


def test_its_worker_fell_silent() -> None:
    findings = told(running(lease_until=NOW - 3), worker(heartbeat_at=NOW - 63))
    assert findings == {
        "lease_over": "w1 let its lease end 3.0 s ago; the next worker to look takes it over",
        "worker_stale": "w1 has been silent for 63 s",
    }


def test_its_worker_is_gone() -> None:
    assert "ended without giving the job back" in told(running())["worker_gone"]


def test_it_waits_for_others() -> None:
    dependencies = {
        "J7": job(id="J7", task="shop.check"),
        "J8": job(id="J8", state=JobState.SUCCEEDED),
        "J9": None,
    }
    findings = told(job(state=JobState.WAITING, pending=2), dependencies=dependencies)
    assert findings == {
        "waiting": "it waits for 2 of the jobs that it depends on",
        "dependency": "J7 (shop.check) is QUEUED",
        "dependency_gone": "J9 is not in the store",
    }


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (JobState.SUCCEEDED, "it succeeded 3 min ago"),
        (JobState.EXPIRED, "it expired 3 min ago, before a worker could start it"),
        (JobState.REVOKED, "it was revoked 3 min ago"),
        (JobState.SKIPPED, "it was skipped 3 min ago: a job that it needed did not succeed"),
    ],
)
def test_it_is_over(state: JobState, text: str) -> None:
    assert told(job(state=state, finished_at=NOW - 180)) == {state.lower(): text}


def test_it_is_a_dead_letter() -> None:
    failure = Failure(type="builtins.OSError", message="no route")
    record = job(state=JobState.FAILED, dead_reason="max_attempts", failure=failure)
    assert told(record)["dead"] == (
        "it is in the dead letters: max_attempts (builtins.OSError: no route); "
        "to run it again: taskmq dlq replay J1"
    )
    assert told(job(state=JobState.FAILED))["dead"].startswith("it is in the dead letters: failed;")


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.UNKNOWN])
def test_every_state_has_an_answer(state: JobState) -> None:
    assert diagnose(job(state=state), Situation(NOW))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.0 s"),
        (-0.25, "0.2 s"),
        (9.94, "9.9 s"),
        (45, "45 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7199, "120 min"),
        (7200, "2 h"),
        (172_800, "2 d"),
        (1e7, "116 d"),
    ],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_a_held_job_names_its_key_and_who_runs() -> None:
    three = Limit("concurrency", "user:7", 3)
    (finding, *_) = diagnose(job(held=Held(limit=three, running=3)), Situation(now=NOW))
    assert (finding.code, finding.text) == ("held", "held: 3 of 3 running for key user:7")
    slow = Limit("rate", "task:shop.send", 100, 60.0)
    (finding, *_) = diagnose(job(held=Held(limit=slow)), Situation(now=NOW))
    assert "one job starts every 0.6 s for key task:shop.send" in finding.text
