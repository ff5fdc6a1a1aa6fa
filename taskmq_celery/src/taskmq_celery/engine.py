"""One engine `taskmq.App` for each Celery app.

It is made when it is first needed, again when the settings change, and again in a forked child:
connections do not survive a fork. Every Celery task is registered in it under its name, as a job
whose body is `taskmq_celery.lifecycle.run_job`.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple
from weakref import WeakSet, WeakValueDictionary

from billiard.exceptions import SoftTimeLimitExceeded, TimeLimitExceeded, WorkerLostError
from kombu.exceptions import EncodeError, OperationalError
from kombu.serialization import registry

import taskmq
from taskmq import JobState, current_task, errors
from taskmq.builtin import COLLECT, MAP
from taskmq.codec import Payload

from .codec import JsonCodec, Kept, KombuCodec
from .config import native_config
from .lifecycle import ENDS, MEMBER_TASK, call_unreached, run_job, run_member
from .message import waits_longer
from .premature import premature
from .rates import rate_of_task
from .received import Received

__all__ = [
    "ERRBACKS_TASK",
    "OWN_TASKS",
    "CeleryEngine",
    "CeleryJob",
    "close_engine",
    "engine_for",
    "job_named",
    "purge",
    "register_task",
    "translated",
]


logger = logging.getLogger("celery.worker.request")

RAISED = "Task handler raised error: %r"


class CeleryJob(taskmq.Task[..., Any]):
    """The engine's side of one Celery task: runs whatever is registered under its name."""

    rate_scope = "worker"

    def __init__(self, app: Any, name: str) -> None:
        self.name = name
        self.rate_limit = rate_of_task(app, name)  # type: ignore[misc]  # of one task
        super().__init__()
        self._celery_app = app
        self._late: set[str] = set()

    def run(self, /, *args: Any, **kwargs: Any) -> Any:
        ctx = current_task()
        wait = waits_longer(ctx)
        if wait is None:
            self._late.add(ctx.id)
            raise errors.JobCancelled("expired")
        if wait > 0:
            raise errors.ReleaseJob("countdown", delay=wait)
        # Looked up at every run: a task may be registered again, and its class be patched.
        try:
            return run_job(self._celery_app._tasks[self.name], ctx, args, kwargs)
        except SystemExit as error:
            if ctx.app.config.pool != "processes":
                raise
            # In Celery the process ends with such a task. Here it ends next, having told of it.
            os.kill(os.getpid(), signal.SIGTERM)
            lost = lost_error(f"exit code {error.code if isinstance(error.code, int) else 1}", ctx)
            logger.error(RAISED, lost)
            raise lost from None

    def on_failure(self, ctx: taskmq.TaskContext, error: BaseException) -> None:
        # The tracer has told of every other failure, in the process where the task ran.
        if isinstance(error, errors.HardTimeLimit):
            self._tell_request(ctx, error.seconds)
            over: Exception = TimeLimitExceeded(error.seconds)
        elif isinstance(error, (errors.WorkerLost, WorkerLostError)):
            over = error if isinstance(error, WorkerLostError) else lost_error(error, ctx)
            self._tell_backend(ctx.id, over)
        else:
            return
        eventer = self._eventer(ctx)
        if eventer is not None:
            eventer.failed(ctx.id, over)

    def on_lost(self, ctx: taskmq.TaskContext, error: BaseException) -> None:
        logger.error(RAISED, lost_error(error, ctx))

    def after_return(self, ctx: taskmq.TaskContext, state: JobState) -> None:
        if state is JobState.REVOKED:  # it was ended from outside, or came too late
            eventer = self._eventer(ctx)
            if eventer is not None:
                late = ctx.id in self._late
                eventer.revoked(ctx.id, terminated=not late, expired=late)
            self._late.discard(ctx.id)

    def _eventer(self, ctx: taskmq.TaskContext) -> Any:
        """What tells of this task's runs, if anybody wants to hear of them."""
        eventer = self._celery_app._eventers.get(ctx.worker)
        wanted = eventer is not None and eventer.tells_of(self._celery_app._tasks.get(self.name))
        return eventer if wanted else None

    def _tell_backend(self, task_id: str, error: Exception) -> None:
        backend = self._celery_app.backend
        if getattr(backend, "written_by_worker", False):
            try:
                backend.mark_as_failure(task_id, error)
            except Exception:
                logger.exception("The result backend was not told of the end of task %s", task_id)

    def _tell_request(self, ctx: taskmq.TaskContext, seconds: float) -> None:
        task = self._celery_app._tasks.get(self.name)
        if task is not None:
            job = Received(ctx.app, ctx.delivery, ctx.envelope, ctx.worker)
            import_module(ENDS).tell_hard_limit(task, job, ctx.worker, seconds)


def lost_error(told: object, ctx: taskmq.TaskContext) -> Exception:
    """What Celery's users get where the process of a task died, from what the engine says."""
    error: Exception = WorkerLostError(f"{premature(told)} Job: {ctx.id}.")
    return error


ERRBACKS_TASK = "taskmq_celery.errbacks"
OWN_TASKS = frozenset({ERRBACKS_TASK, MEMBER_TASK, COLLECT, MAP})
"""What canvases are held together by: no tasks of the program's, so nobody is told of them."""


class ErrbacksJob(taskmq.Task[..., None]):
    """Calls the error callbacks of a task that does not run, because of the group before it."""

    def __init__(self, app: Any) -> None:
        self.name = ERRBACKS_TASK
        super().__init__()
        self._celery_app = app

    def run(
        self,
        request: dict[str, Any],
        before: list[str],
        joins: int,
        told: dict[str, list[int]] | None = None,
    ) -> None:
        call_unreached(self._celery_app, current_task(), request, before, joins, told or {})


class MemberJob(taskmq.Task[..., Any]):
    """Stands for a canvas that a task has added to its group."""

    def __init__(self, app: Any) -> None:
        self.name = MEMBER_TASK
        super().__init__()
        self._celery_app = app

    def run(self, signature: str, place: dict[str, Any]) -> Any:
        return run_member(self._celery_app, current_task(), signature, place)


class CeleryEngine(taskmq.App):
    """The engine's side of one Celery app."""

    @staticmethod
    def soft_limit_error(text: str) -> Exception:
        """What Celery's users catch; they know it without arguments."""
        error: Exception = SoftTimeLimitExceeded()
        return error

    def __init__(self, app: Any, config: taskmq.Config, transport: taskmq.Transport | None) -> None:
        super().__init__(config, transport=transport)
        self._celery_app = app
        self.drafts: dict[str, Any] = {}
        """Of calls, by the name of their task: see `celery.app.drafts`."""
        accept = tuple(app.conf.accept_content or ())
        others = [KombuCodec(each, accept) for each in _serializers(app, accept)]
        made: list[JsonCodec | KombuCodec] = [JsonCodec(), *others]
        self._codecs = {codec.name: codec for codec in made}
        for codec in self._codecs.values():
            self.add_codec(codec)
        self.register(ErrbacksJob(app))
        self.register(MemberJob(app))
        if app.finalized:
            self._register_all()

    def load(self) -> None:
        """Complete the Celery app: a worker calls this when it starts."""
        super().load()
        self._celery_app.finalize(auto=True)
        self._register_all()

    def _register_all(self) -> None:
        for name in list(self._celery_app._tasks):
            self.add_job(name)

    def kept(self, payload: Payload) -> Kept:
        """A result with what was kept beside it. Raises `taskmq.errors.DecodeError`."""
        codec = self._codecs.get(payload.codec)
        if codec is None:  # there is nothing beside it
            return Kept(self.codecs.decode(payload), [])
        try:
            return codec.decode_kept(payload.data)
        except Exception as error:
            raise errors.DecodeError(f"{payload.codec} cannot read a result: {error}") from error

    def add_job(self, name: str) -> None:
        """Make the Celery task of that name known, unless it is."""
        if name not in self.tasks:
            self.register(CeleryJob(self._celery_app, name))


class _Built(NamedTuple):
    """An engine, what it was made from, and the workers' engines on the same store."""

    pid: int
    revision: int
    url: str | None
    engine: CeleryEngine
    workers: WeakSet[CeleryEngine]


def engine_for(app: Any, **changes: Any) -> CeleryEngine:
    """The engine of a Celery app.

    ``changes`` are fields of `taskmq.Config`: then it is a new App, for a worker, on the same
    store. Raises `taskmq.ConfigError` for settings that the engine cannot work with.
    """
    conf, built = app.conf, app._engine
    key = (os.getpid(), conf.revision, _url_of(conf))
    if built is None or (built.pid, built.revision, built.url) != key:
        with app._finalize_mutex:  # two threads must not make two stores in memory
            built = app._engine
            if built is None or (built.pid, built.revision, built.url) != key:
                built = app._engine = _build(app, built)
    engine: CeleryEngine = built.engine
    if changes:
        engine = CeleryEngine(app, engine.config.replace(**changes), engine.transport)
        built.workers.add(engine)
    return engine


def close_engine(app: Any) -> None:
    """Close the store of an app; the next use opens it again."""
    built, app._engine = app._engine, None
    if built is not None and built.pid == os.getpid():
        built.engine.close()


def register_task(app: Any, name: str) -> None:
    """Make a task that was registered after the engine was made known to it."""
    if app._engine is None:
        return
    for engine in (app._engine.engine, *app._engine.workers):
        engine.add_job(name)


def purge(app: Any, queues: Sequence[str]) -> int:
    """Delete what waits in these queues; how many jobs there were."""
    with translated():
        transport = engine_for(app).transport
        return sum(transport.purge(queue) for queue in queues)


def job_named(app: Any, engine: taskmq.App, name: str) -> taskmq.Task[..., Any]:
    """The engine's task of that name, known here or not."""
    found = engine.tasks.find(name)
    if found is None and name in app._tasks and isinstance(engine, CeleryEngine):
        engine.add_job(name)  # of an app that nobody has finalized yet
        found = engine.tasks.find(name)
    return found or CeleryJob(app, name)


class translated:  # noqa: N801  # read as a statement
    """Lets the engine's errors appear as the ones that Celery's users catch."""

    # A class, not a generator: every task that is sent is sent in such a block.
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, errors.EncodeError):
            raise EncodeError(str(error.__cause__ or error)) from error
        if isinstance(error, (errors.TransportUnavailable, errors.StoreFull)):
            raise OperationalError(str(error)) from error


_memories: WeakValueDictionary[tuple[int, str], taskmq.Transport] = WeakValueDictionary()
"""Stores in memory, by process and URL: as with kombu, two apps of a process that have the same
URL have the same queues. A store is there for as long as an app uses it."""


def _build(app: Any, before: _Built | None) -> _Built:
    conf = app.conf
    conf.load()  # may change the revision
    config = native_config(conf)
    transport, workers = None, WeakSet[CeleryEngine]()
    if before is not None and before.pid == os.getpid():
        if before.engine.config.transport == config.transport:
            # The store stays: what is in memory must not go with a changed setting.
            transport, workers = before.engine.transport, before.workers
        else:
            before.engine.close()
    in_memory = config.transport.startswith("memory://")
    if in_memory and transport is None:
        transport = _memories.get((os.getpid(), config.transport))
    engine = CeleryEngine(app, config, transport)
    opened = engine.transport  # opens the store, while no other thread can
    if in_memory:
        _memories[os.getpid(), config.transport] = opened
    return _Built(os.getpid(), conf.revision, _url_of(conf), engine, workers)


def _url_of(conf: Any) -> str | None:
    """The URL of the broker, where it may change without a new revision of the settings. As with
    Celery, its environment variables do not: they were read when it was needed first."""
    return conf.broker_write_url if conf.is_live else None


def _serializers(app: Any, accept: Sequence[str]) -> list[str]:
    """Names of the serializers, besides json, that may be read or written."""
    names = [registry.type_to_name.get(each, each) for each in (*accept, app.conf.task_serializer)]
    return [name for name in dict.fromkeys(names) if name not in ("json", "application/json")]
