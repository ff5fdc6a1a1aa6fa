"""Why is this job not running? A pure answer from what the store knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .checks import nearest
from .records import Held, JobRecord, PausedQueue, PausedWorkflow, QueueStats, WorkerRecord
from .states import JobState

__all__ = ["Finding", "Situation", "diagnose", "in_words"]

UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"))
PARKED = {
    "unknown_task": "no worker that took it knows the task",
    "arguments_do_not_fit": "its arguments do not fit the task's signature on the worker",
    "undecodable_arguments": "the worker cannot decode its arguments",
    "unsupported_version": "it was written by a later version of taskmq than the worker's",
}


@dataclass(frozen=True, slots=True)
class Situation:
    """What is around a job. ``now`` is epoch seconds; ``dependencies`` by job id."""

    now: float
    workers: Sequence[WorkerRecord] = ()
    queues: Sequence[QueueStats] = ()
    dependencies: Mapping[str, JobRecord | None] = field(default_factory=dict)
    paused: Sequence[PausedQueue] = ()
    paused_workflows: Sequence[PausedWorkflow] = ()

    def live(self) -> list[WorkerRecord]:
        return [worker for worker in self.workers if not worker.is_stale(self.now)]

    def serving(self, queue: str) -> list[WorkerRecord]:
        return [worker for worker in self.live() if queue in worker.queues]


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason. ``code`` is stable, ``text`` is for people."""

    code: str
    text: str


def diagnose(job: JobRecord | None, situation: Situation) -> list[Finding]:
    """The reasons, the most telling first. Never empty.

    >>> diagnose(None, Situation(now=0.0))[0].code
    'unknown_job'
    """
    if job is None:
        text = "the store knows no such job: it never existed there, or its result_ttl is over"
        return [Finding("unknown_job", text)]
    return _BY_STATE[job.state](job, situation)


def in_words(seconds: float) -> str:
    """A duration as people say it: ``0.3 s``, ``45 s``, ``3 min``, ``5 h``, ``2 d``."""
    seconds = abs(seconds)
    for size, unit in UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


# -- waiting for a worker ------------------------------------------------------------------------


def _queued(job: JobRecord, situation: Situation) -> list[Finding]:
    now = situation.now
    if job.expires_at is not None and job.expires_at <= now:
        text = f"it expired {in_words(now - job.expires_at)} ago and will never run; "
        return [Finding("expired", f"{text}the next look at its queue takes it out")]
    findings = [_paused(pause, now) for pause in situation.paused if pause.queue == job.queue]
    stopped = (pause for pause in situation.paused_workflows if pause.workflow == job.workflow)
    findings += [_workflow_paused(pause, now) for pause in stopped]
    if job.held is not None:
        findings.append(_held(job.held))
    elif job.parked_reason is not None:
        findings += _parked(job, situation)
    elif job.visible_at > now:
        findings.append(_delayed(job, now))
    findings += _nobody_serves(job, situation)
    if not findings:
        findings += _ahead(job, situation)
    return findings or [Finding("ready", "it is ready: the next free slot takes it")]


def _paused(pause: PausedQueue, now: float) -> Finding:
    why = f" ({_first_line(pause.reason)})" if pause.reason else ""
    text = f"its queue {pause.queue!r} was paused by {pause.by} {in_words(now - pause.paused_at)}"
    return Finding("paused", f"{text} ago{why}; to go on: taskmq resume {pause.queue}")


def _workflow_paused(pause: PausedWorkflow, now: float) -> Finding:
    why = f" ({_first_line(pause.reason)})" if pause.reason else ""
    text = f"its workflow was paused by {pause.by} {in_words(now - pause.paused_at)} ago{why}"
    go_on = f"to go on: taskmq workflow resume {pause.workflow}"
    return Finding("workflow_paused", f"{text}; {go_on}")


def _held(held: Held) -> Finding:
    limit = held.limit
    if limit.kind == "concurrency":
        text = f"held: {held.running} of {limit.amount} running for key {limit.key}"
    else:
        every = in_words(limit.interval)
        text = f"held: one job starts every {every} for key {limit.key}, and others are before it"
    return Finding("held", text)


def _delayed(job: JobRecord, now: float) -> Finding:
    wait = f"for another {in_words(job.visible_at - now)}"
    if job.state is JobState.RETRYING:
        text = f"attempt {job.attempt - 1} failed; attempt {job.attempt} is delayed {wait}"
        if job.failure is not None:
            text += f" ({job.failure.type}: {_first_line(job.failure.message)})"
        return Finding("retrying", text)
    return Finding("delayed", f"it is delayed {wait}")


def _parked(job: JobRecord, situation: Situation) -> list[Finding]:
    now, reason = situation.now, job.parked_reason or ""
    since = "" if job.parked_at is None else f" since {in_words(now - job.parked_at)}"
    again = max(0.0, job.visible_at - now)
    text = f"it is parked{since}: {PARKED.get(reason, reason)}"
    findings = [Finding("parked", f"{text}; it is offered again in {in_words(again)}")]
    if reason == "unknown_task":
        knowing = [worker for worker in situation.live() if job.task in worker.tasks]
        if knowing:
            text = f"{_names(knowing)} knows the task {job.task!r}"
            if not any(job.queue in worker.queues for worker in knowing):
                text += f", but does not serve the queue {job.queue!r}"
            findings.append(Finding("task_known_elsewhere", text))
        else:
            known = sorted({task for worker in situation.live() for task in worker.tasks})
            text = f"no live worker knows the task {job.task!r}{nearest(job.task, known)}"
            findings.append(Finding("task_unknown", text))
    return findings


def _nobody_serves(job: JobRecord, situation: Situation) -> list[Finding]:
    live = situation.live()
    if situation.serving(job.queue):
        return []
    if live:
        queues = sorted({queue for worker in live for queue in worker.queues})
        text = f"no live worker serves the queue {job.queue!r}{nearest(job.queue, queues)}"
        return [Finding("queue_not_served", f"{text} (served: {', '.join(queues)})")]
    stale = len(situation.workers)
    text = "no worker is running"
    if stale:
        text += f" ({stale} registered, silent for too long)"
    return [Finding("no_worker", text)]


def _ahead(job: JobRecord, situation: Situation) -> list[Finding]:
    serving = situation.serving(job.queue)
    queues = {queue for worker in serving for queue in worker.queues}
    waiting = [
        (stats.queue, priority, count)
        for stats in situation.queues
        if stats.queue in queues
        for priority, count in stats.ready_by_priority.items()
    ]
    urgent = sum(count for _, priority, count in waiting if priority > job.priority)
    equal = sum(count for _, priority, count in waiting if priority == job.priority)
    findings = []
    if not any(job.task in worker.tasks for worker in serving):
        text = f"{_names(serving)} serves its queue, but does not know the task {job.task!r}"
        findings.append(Finding("task_unknown", text))
    if urgent:
        text = f"{urgent:,} jobs of higher priority are ready in the queues of its workers"
        findings.append(Finding("higher_priority", text))
    if all(worker.running >= worker.concurrency for worker in serving):
        slots = sum(worker.concurrency for worker in serving)
        findings.append(Finding("workers_busy", f"all {slots} slots that serve its queue are busy"))
    if findings and equal > 1:
        text = f"{equal:,} jobs of its priority are ready, itself included; the oldest is first"
        findings.append(Finding("in_line", text))
    return findings


# -- other states --------------------------------------------------------------------------------


def _running(job: JobRecord, situation: Situation) -> list[Finding]:
    findings = []
    now, until = situation.now, job.lease_until or situation.now
    holder = next((w for w in situation.workers if w.id == job.worker), None)
    started = "" if job.started_at is None else f" for {in_words(now - job.started_at)}"
    if until > now:
        text = f"it runs{started}: {job.worker} holds its lease for another {in_words(until - now)}"
        findings.append(Finding("running", text))
    else:
        text = f"{job.worker} let its lease end {in_words(now - until)} ago"
        findings.append(Finding("lease_over", f"{text}; the next worker to look takes it over"))
    if job.cancel_requested:
        text = f"it was revoked{_by(job)} and has been asked to stop"
        findings.append(Finding("cancel_requested", text))
    if holder is None:
        text = f"{job.worker} is not registered any more: it ended without giving the job back"
        findings.append(Finding("worker_gone", text))
    elif holder.is_stale(now):
        text = f"{job.worker} has been silent for {in_words(now - holder.heartbeat_at)}"
        findings.append(Finding("worker_stale", text))
    return findings


def _waiting(job: JobRecord, situation: Situation) -> list[Finding]:
    findings = [Finding("waiting", f"it waits for {job.pending} of the jobs that it depends on")]
    for job_id, dependency in situation.dependencies.items():
        if dependency is None:
            findings.append(Finding("dependency_gone", f"{job_id} is not in the store"))
        elif dependency.state is not JobState.SUCCEEDED:
            text = f"{job_id} ({dependency.task}) is {dependency.state}"
            findings.append(Finding("dependency", text))
    return findings


def _failed(job: JobRecord, situation: Situation) -> list[Finding]:
    text = f"it is in the dead letters: {job.dead_reason or 'failed'}"
    if job.failure is not None:
        text += f" ({job.failure.type}: {_first_line(job.failure.message)})"
    return [Finding("dead", f"{text}; to run it again: taskmq dlq replay {job.id}")]


def _by(job: JobRecord) -> str:
    return f" by {job.revoked_by}" if job.revoked_by else ""


def _ended(code: str, text: str) -> Callable[[JobRecord, Situation], list[Finding]]:
    def told(job: JobRecord, situation: Situation) -> list[Finding]:
        ended = job.finished_at
        when = "" if ended is None else f" {in_words(situation.now - ended)} ago"
        return [Finding(code, text.format(when=when, by=_by(job)))]

    return told


_BY_STATE: dict[JobState, Callable[[JobRecord, Situation], list[Finding]]] = {
    JobState.WAITING: _waiting,
    JobState.QUEUED: _queued,
    JobState.RETRYING: _queued,
    JobState.RUNNING: _running,
    JobState.SUCCEEDED: _ended("succeeded", "it succeeded{when}"),
    JobState.FAILED: _failed,
    JobState.EXPIRED: _ended("expired", "it expired{when}, before a worker could start it"),
    JobState.REVOKED: _ended("revoked", "it was revoked{by}{when}"),
    JobState.SKIPPED: _ended(
        "skipped", "it was skipped{when}: a job that it needed did not succeed"
    ),
}


def _names(workers: Sequence[WorkerRecord]) -> str:
    names = [worker.id for worker in workers]
    return names[0] if len(names) == 1 else f"{names[0]} (and {len(names) - 1} more)"


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
