"""Jobs of the engine as Celery's result records.

A record is a dict with ``status``, ``result``, ``traceback``, ``date_done`` and so on, as Celery's
result backends give it. Exceptions are rebuilt from text: only a class that is imported already
and derives from ``BaseException`` is ever called, with arguments that are plain literals.
"""

from __future__ import annotations

import ast
import datetime
import logging
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from kombu.exceptions import EncodeError, OperationalError

from taskmq import ConfigError, JobState
from taskmq.builtin import COLLECT
from taskmq.envelope import Envelope, load
from taskmq.errors import MessageError, TransportError
from taskmq.records import Failure, JobFilter, JobRecord
from taskmq.states import TERMINAL

from .codec import Kept
from .engine import CeleryEngine, engine_for, translated
from .message import ABOVE, JOINED, JOINS, NOBODY, SPREAD, WITHIN
from .premature import premature

__all__ = [
    "are_known",
    "ended",
    "ended_among",
    "error_behind",
    "forget",
    "is_known",
    "meta",
    "rebuilt",
    "revoke",
    "tell_backend",
    "tell_of_unknown",
    "wait",
    "wait_many",
]

logger = logging.getLogger(__name__)

PENDING, STARTED, RETRY = "PENDING", "STARTED", "RETRY"
SUCCESS, FAILURE, REVOKED = "SUCCESS", "FAILURE", "REVOKED"

GIVEN_BACK = "celery.exceptions.Reject"
"""What "failed" where a task gave itself back."""

LOST = frozenset(TERMINAL) - {JobState.SUCCEEDED}
MAX_ANCESTORS = 10_000
LOOK_AGAIN = 1.0
"""Seconds between two looks for an id that nobody knows: its job may not be stored yet."""


def meta(app: Any, task_id: str) -> dict[str, Any]:
    """The result record of a task, as it is now."""
    with translated():
        engine = engine_for(app)
        return _meta(app, engine, task_id, engine.transport.get([task_id])[0])


def ended(app: Any, task_id: str) -> dict[str, Any] | None:
    """The record of a task that the engine knows to have ended; ``None`` for any other."""
    return ended_among(app, [task_id]).get(task_id)


def ended_among(app: Any, task_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The records of those tasks that have ended."""
    metas = {
        task_id: _meta(app, engine_for(app), task_id, record)
        for task_id, record in zip(task_ids, _records(app, task_ids), strict=True)
        if record is not None and record.state in TERMINAL
    }
    return {task_id: meta for task_id, meta in metas.items() if meta["status"] != PENDING}


def is_known(app: Any, task_id: str) -> bool:
    """Whether the engine has a record of a task."""
    return _found(app, task_id) is not None


def are_known(app: Any, task_ids: Sequence[Any]) -> bool:
    """Whether the engine has a record of each of these tasks."""
    return None not in _records(app, task_ids)


def _found(app: Any, task_id: Any) -> JobRecord | None:
    return _records(app, [task_id])[0]


def _records(app: Any, task_ids: Sequence[Any]) -> Sequence[JobRecord | None]:
    """The engine's records, for whoever can do without: programs read results of brokers that are
    away, or that the engine does not have."""
    nothing = [None] * len(task_ids)
    if not all(isinstance(each, str) for each in task_ids):
        return nothing
    if app._engine is None and not app.conf.broker_url:
        return nothing
    try:
        with translated():
            return engine_for(app).transport.get(task_ids)
    except (ConfigError, OperationalError, TransportError) as error:
        logger.debug("no look at the engine for tasks %s: %r", task_ids, error)
        return nothing


def wait(
    app: Any,
    task_id: str,
    *,
    timeout: float | None = None,
    interval: float = LOOK_AGAIN,
    on_interval: Callable[[], Any] | None = None,
) -> dict[str, Any] | None:
    """Block until a task is finished and give its record; ``None`` after ``timeout`` seconds.

    It wakes when the job ends; ``on_interval`` is called every ``interval`` seconds meanwhile. The
    record of a task that is ignored, or behind one, is ``PENDING``: the engine has no more to tell.
    """
    with translated():
        engine = engine_for(app)
        deadline = None if timeout is None else time.monotonic() + timeout
        record = engine.transport.get([task_id])[0]
        if record is None or record.state not in TERMINAL:
            listener = engine.transport.listen(jobs=[task_id])
            try:
                while True:
                    listener.clear()
                    record = engine.transport.get([task_id])[0]
                    if record is not None and record.state in TERMINAL:
                        break
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        return None
                    pause = interval if on_interval else None if record else LOOK_AGAIN
                    listener.wait(
                        min((each for each in (pause, left) if each is not None), default=None)
                    )
                    if on_interval is not None:
                        on_interval()
            finally:
                listener.close()
        return _meta(app, engine, task_id, record)


def wait_many(
    app: Any,
    task_ids: Sequence[str],
    *,
    timeout: float | None = None,
    interval: float = LOOK_AGAIN,
    on_interval: Callable[[], Any] | None = None,
    told: Callable[[str], dict[str, Any]],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Ids and records of tasks, as they end. Raises `celery.exceptions.TimeoutError`.

    It wakes when a job ends; one round trip looks at all that are left. ``told`` gives what a
    program has said of a task: of one that is ignored the engine has nothing to tell.
    """
    left = list(dict.fromkeys(task_ids))
    deadline = None if timeout is None else time.monotonic() + timeout
    with translated():
        engine = engine_for(app)
        listener = engine.transport.listen(jobs=left)
    try:
        while left:
            listener.clear()
            with translated():
                records = engine.transport.get(left)
            pairs, ignored = list(zip(left, records, strict=True)), False
            for task_id, record in pairs:
                if record is not None and record.state in TERMINAL:
                    meta = _meta(app, engine, task_id, record)
                    if meta["status"] == PENDING:
                        meta = told(task_id)
                    if meta["status"] not in (SUCCESS, FAILURE, REVOKED):
                        ignored = True
                        continue
                    left.remove(task_id)
                    yield task_id, meta
            if not left:
                return
            if on_interval is not None:
                on_interval()
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                raise _class_named("celery.exceptions.TimeoutError")("The operation timed out.")
            known = all(record is not None for _, record in pairs)
            pause = interval if on_interval else None if known and not ignored else LOOK_AGAIN
            listener.wait(min((e for e in (pause, remaining) if e is not None), default=None))
    finally:
        listener.close()


def forget(app: Any, task_id: str) -> None:
    """Delete a finished task and its result, whatever it was."""
    with translated():
        transport = engine_for(app).transport
        if not transport.forget([task_id]):
            transport.bury([task_id])


def revoke(app: Any, task_ids: list[str], *, terminate: bool = False) -> list[bool]:
    """Take tasks out; see `taskmq.Result.revoke`."""
    with translated():
        revoked = engine_for(app).transport.revoke(task_ids, terminate=terminate)
    tell_backend(app, task_ids)
    return revoked


def tell_backend(app: Any, task_ids: Sequence[str]) -> None:
    """Write the ends of tasks that no run of theirs could tell of (revoked, expired, lost) to the
    result backend, for those who read there alone. A backend that fails is logged."""
    backend = app.backend
    if not getattr(backend, "written_by_worker", False):
        return
    for task_id, meta in ended_among(app, task_ids).items():
        if meta["status"] == SUCCESS:
            continue
        try:
            backend.store_result(
                task_id, meta["result"], meta["status"], traceback=meta["traceback"]
            )
        except Exception:
            logger.exception("The result backend was not told of the end of task %s", task_id)


def tell_of_unknown(app: Any, task_ids: Sequence[str]) -> None:
    """Write to the result backend that tasks are revoked which the store does not know: they may
    come yet. What others have written of one that has started stays."""
    backend = app.backend
    if not getattr(backend, "written_by_worker", False):
        return
    for task_id, record in zip(task_ids, _records(app, task_ids), strict=True):
        if record is not None:
            continue
        try:
            if backend.get_state(task_id) == PENDING:
                backend.mark_as_revoked(task_id, "revoked")
        except Exception:
            logger.exception("The result backend was not told of the end of task %s", task_id)


# -- one record ----------------------------------------------------------------------------------


def _meta(app: Any, engine: CeleryEngine, task_id: str, record: JobRecord | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "task_id": task_id,
        "status": PENDING,
        "result": None,
        "traceback": None,
        "children": None,
        "date_done": None,
    }
    if record is None:
        return found
    found |= {
        "name": record.task,
        "queue": record.queue,
        "worker": record.worker,
        "retries": record.attempt - 1,
        "parent_id": None,
    }
    if record.finished_at is not None:
        found["date_done"] = datetime.datetime.fromtimestamp(
            record.finished_at, datetime.timezone.utc
        )
    state = record.state
    if state is JobState.SUCCEEDED:
        kept = Kept(None, []) if record.result is None else engine.kept(record.result)
        return {**found, "status": SUCCESS, "result": kept.value, "children": kept.children}
    if state is JobState.FAILED:
        return {**found, "status": FAILURE, **_failure(record)}
    if state in (JobState.REVOKED, JobState.EXPIRED):
        return {**found, **_revoked(state)}
    if state is JobState.SKIPPED:
        return {**found, **_skipped(app, engine, record)}
    return {**found, **_unfinished(app, record)}


def _failure(record: JobRecord) -> dict[str, Any]:
    failure = record.failure
    if record.dead_reason == "worker_lost":
        deaths = [each.detail for each in record.history if each.event == "nack" and each.detail]
        told = deaths[-1] if deaths else f"it was given out {record.deliveries} times"
        error: BaseException = WorkerLostError(f"{premature(told)} Job: {record.id}.")
        return {"result": error, "traceback": failure.traceback if failure else None}
    if failure is None:
        reason = record.dead_reason or "failed"
        return {"result": _class_named("celery.exceptions.TaskError")(reason), "traceback": None}
    return {"result": rebuilt(failure), "traceback": failure.traceback}


def _revoked(state: JobState) -> dict[str, Any]:
    word = "expired" if state is JobState.EXPIRED else "revoked"
    return {"status": REVOKED, "result": _class_named("celery.exceptions.TaskRevokedError")(word)}


def _skipped(app: Any, engine: CeleryEngine, record: JobRecord) -> dict[str, Any]:
    """As Celery does: a task behind one that failed has its error, a task behind a group that
    failed has a `ChordError`, and one that was replaced has that of its replacement. Behind a group
    that never started, it is the error of the task before the group. Behind one that was ignored
    nothing comes any more, nor an error."""
    current: JobRecord | None = record
    for _ in range(MAX_ANCESTORS):
        if current is None or current.state is not JobState.SKIPPED:
            break
        if current.delegated_to == NOBODY:
            return {"status": PENDING}
        above = _lost_above(engine, current)
        if above is not None:
            current = above
            continue
        joins, lost = _lost(engine, current)
        if joins in (JOINED, WITHIN) and lost:
            error = _error_behind(app, engine, lost, joins)
            return {"status": PENDING if error is None else FAILURE, "result": error}
        current = lost[0] if lost else None
    if current is not None and current.state is JobState.FAILED:
        return {"status": FAILURE, **_failure(current)}
    if current is not None and current.state in (JobState.REVOKED, JobState.EXPIRED):
        return _revoked(current.state)
    return {
        "status": FAILURE,
        "result": _class_named("celery.exceptions.TaskError")(
            "never ran: a task before it did not succeed"
        ),
    }


def _lost_above(engine: CeleryEngine, record: JobRecord) -> JobRecord | None:
    """The job that kept the group which it waits for from starting, if one did."""
    envelope = _envelope(record)
    above = None if envelope is None else envelope.headers.get(ABOVE)
    return next(iter(_by_guilt(engine.transport.get([above]))), None) if above else None


def _envelope(record: JobRecord) -> Envelope | None:
    try:
        return load(record.envelope)
    except MessageError:  # stored by something else
        return None


def _lost(engine: CeleryEngine, record: JobRecord) -> tuple[int, list[JobRecord]]:
    """How it waits for a group, if it does; and the jobs that kept it from running, by guilt."""
    joins, names = 0, []
    if record.delegated_to is not None:
        names = [record.delegated_to]
    else:
        envelope = _envelope(record)
        if envelope is None:
            return 0, []
        joins = envelope.headers.get(JOINS, 0)
        names = [one.job for one in envelope.after]
    lost = _by_guilt(engine.transport.get(names))
    if joins and not lost and record.workflow is not None:
        # One that was added to the group later: nothing but the workflow tells of it.
        wanted = JobFilter(workflow=record.workflow, states=(JobState.FAILED,), limit=1)
        lost = engine.transport.find(wanted)
    return joins, lost


def _by_guilt(records: Sequence[JobRecord | None]) -> list[JobRecord]:
    """Those that did not succeed: first the ones that failed themselves, the earliest first."""
    lost = [one for one in records if one is not None and one.state in LOST]
    return sorted(
        lost, key=lambda one: (one.state is not JobState.FAILED, one.finished_at or math.inf)
    )


def _error_behind(
    app: Any, engine: CeleryEngine, lost: Sequence[JobRecord], joins: int
) -> BaseException | None:
    culprit, is_spread = lost[0], False
    for _ in range(MAX_ANCESTORS):
        if culprit.task != COLLECT and culprit.state is not JobState.SKIPPED:
            break
        waits, behind = _lost(engine, culprit)
        if not behind:
            break
        if culprit.task == COLLECT or waits == SPREAD:
            is_spread = waits == SPREAD and culprit.task != COLLECT
            culprit = behind[0]  # that one hands on what others give, or did not start for others
            continue
        first = _start_of(engine, culprit)
        if first is None:
            break
        culprit = first
    meta = _meta(app, engine, culprit.id, culprit)
    error: BaseException = meta["result"]
    if meta["status"] == PENDING:
        return None
    if joins == SPREAD or (joins == WITHIN and _never_started(engine, lost[0])):
        return error
    if is_spread and culprit.state is JobState.SKIPPED:
        return error  # the group before the group did not start either
    make = _class_named("celery.exceptions.ChordError")
    return make(f"Dependency {culprit.id} raised {error!r}")


def _start_of(engine: CeleryEngine, record: JobRecord) -> JobRecord | None:
    """Of the end of a chain in a header that did not start because of a group before that header,
    the task at its begin."""
    for _ in range(MAX_ANCESTORS):
        joins, lost = _lost(engine, record)
        if joins == SPREAD:
            return record
        if joins or not lost or lost[0].state is not JobState.SKIPPED:
            return None
        record = lost[0]
    return None


def _never_started(engine: CeleryEngine, record: JobRecord) -> bool:
    """Whether a task of a header did not run because of a group before that header."""
    for _ in range(MAX_ANCESTORS):
        if record.state is not JobState.SKIPPED:
            return False
        joins, lost = _lost(engine, record)
        if joins == SPREAD or not lost:
            return joins == SPREAD
        record = lost[0]
    return False


def error_behind(app: Any, jobs: Sequence[str], joins: int) -> BaseException | None:
    """The error of a task behind a group of which these jobs are lost; ``None`` where none has
    failed, since they were ignored."""
    with translated():
        engine = engine_for(app)
        lost = _by_guilt(engine.transport.get(jobs))
        if not lost:
            return _class_named("celery.exceptions.ChordError")("a task of the group is gone")
        return _error_behind(app, engine, lost, joins)


def _unfinished(app: Any, record: JobRecord) -> dict[str, Any]:
    failure = record.failure
    if record.state is JobState.RUNNING and _tracks_start(app, record.task):
        return {"status": STARTED, "result": {"hostname": record.worker}}
    if failure is not None and failure.type == GIVEN_BACK:
        return {"status": PENDING}
    if failure is not None and (record.state is JobState.RETRYING or record.attempt > 1):
        return {"status": RETRY, "result": rebuilt(failure), "traceback": failure.traceback}
    return {"status": PENDING}


def _tracks_start(app: Any, name: str) -> bool:
    task = app._tasks.get(name)
    tracked = None if task is None else getattr(task, "track_started", None)
    return bool(app.conf.task_track_started if tracked is None else tracked)


# -- exceptions ----------------------------------------------------------------------------------


def rebuilt(failure: Failure) -> BaseException:
    """The exception that a failure tells of, of its own class where that is imported here.

    Otherwise it is of a class of the same name, made here.
    """
    if failure.type == "taskmq.errors.EncodeError":
        return EncodeError(failure.message)
    if failure.type == "taskmq.errors.HardTimeLimit":
        over: BaseException = TimeLimitExceeded(_literal(failure.args[-1]))
        return over
    kind = _class_named(failure.type)
    arguments = tuple(_literal(text) for text in failure.args)
    made = _made(kind, arguments)
    if made is None or (not arguments and str(made) != failure.message):
        made = _made(kind, (failure.message,))
    return made or Exception(f"{failure.type}({failure.message})")


def _made(kind: type[BaseException], arguments: tuple[Any, ...]) -> BaseException | None:
    try:
        return kind(*arguments)
    except Exception:  # its constructor wants something else
        return None


def _class_named(path: str) -> type[BaseException]:
    """An exception class by its path. Only imported modules are looked into."""
    parts = path.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:cut]))
        if module is None:
            continue
        found = _attribute(module, parts[cut:])
        if isinstance(found, type) and issubclass(found, BaseException):
            return found
        break
    module_name, _, name = path.rpartition(".")
    return type(name or path, (Exception,), {"__module__": module_name or __name__})


def _attribute(module: Any, names: list[str]) -> Any:
    """What is found without running anything: no descriptor, no ``__getattr__``."""
    found: Any = module
    for name in names:
        found = vars(found).get(name) if hasattr(found, "__dict__") else None
        if not isinstance(found, type):
            return None
    return found


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
