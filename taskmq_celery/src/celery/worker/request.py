"""One message for one task, as a worker has received it.

The engine settles its jobs by itself: to them a request is what signals, logs and remote control
are told of, and whose methods tell of an end that the tracer could not see (`Request.on_timeout`).
Classes of the program's own, named by ``Task.Request``, hear of every end.

A request that was made of a broker's own message does all of it: `Request.execute` runs the task
here and now, and acknowledges the message.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from time import monotonic, time
from typing import Any

from billiard.einfo import ExceptionInfo, ExceptionWithTraceback
from kombu.utils.encoding import safe_repr, safe_str
from kombu.utils.objects import cached_property

from celery import signals
from celery.app import trace
from celery.app.callbacks import call_errbacks
from celery.app.task import Context
from celery.exceptions import (
    Ignore,
    InvalidTaskError,
    Reject,
    Retry,
    Terminated,
    TimeLimitExceeded,
    WorkerLostError,
)
from celery.states import FAILURE
from celery.utils.log import get_logger
from celery.utils.nodenames import gethostname
from celery.utils.saferepr import saferepr
from celery.utils.time import maybe_iso8601, maybe_make_aware
from taskmq_celery.message import stamp_values
from taskmq_celery.running import as_given

from . import state
from .pooled import PooledRequest

__all__ = ("Request",)

logger = get_logger(__name__)
debug, info, warn, error = logger.debug, logger.info, logger.warning, logger.error


def noop(*args: Any, **kwargs: Any) -> None:
    """Does nothing."""


class Request(PooledRequest):
    """What ``task_received`` hands out. ``message`` has ``headers``, ``properties``,
    ``delivery_info`` and ``payload`` (args, kwargs, embed), like kombu's.

    Raises `InvalidTaskError` for instants that are none, `KeyError` where no task of that name is
    known and none is given.
    """

    __slots__ = (
        *("app", "connection_errors", "eta", "eventer", "expires"),
        *("hostname", "message", "name", "parent_id", "root_id", "task", "type", "utc"),
    )

    acknowledged = False
    time_start: float | None = None
    worker_pid: int | None = None
    time_limits: tuple[float | None, float | None] = (None, None)
    _already_revoked = False
    _eta_timer_entry: Any = None
    """What has it run once it is due, if a timer does."""

    def __init__(
        self,
        message: Any,
        on_ack: Callable[..., Any] = noop,
        hostname: str | None = None,
        eventer: Any = None,
        app: Any = None,
        connection_errors: Any = None,
        request_dict: dict[str, Any] | None = None,
        task: Any = None,
        on_reject: Callable[..., Any] = noop,
        body: Any = None,
        headers: dict[str, Any] | None = None,
        decoded: bool = False,
        utc: bool = True,
        maybe_make_aware: Callable[..., Any] = maybe_make_aware,
        maybe_iso8601: Callable[..., Any] = maybe_iso8601,
        **opts: Any,
    ) -> None:
        self.message = self._message = message
        self._request_dict = dict((message.headers if headers is None else headers) or {})
        if request_dict is not None:
            self._request_dict.update(request_dict)
        given = self._request_dict
        self._body = message.body if body is None else body
        self._decoded = decoded
        self.id: str = given["id"]
        self.type: str = given["task"]
        self.name: str = given.get("shadow") or self.type
        self.root_id: str | None = given.get("root_id")
        self.parent_id: str | None = given.get("parent_id")
        self.app = app
        self.task = app.tasks[self.type] if task is None else task
        self.hostname = hostname or gethostname()
        self.eventer = eventer
        self.connection_errors = connection_errors or ()
        self._on_ack = on_ack
        self._on_reject = on_reject
        self.utc = utc
        self._tzlocal: Any = None
        said = given.get("ignore_result")
        self._ignore_result = bool(self.task.ignore_result if said is None else said)

        def instant(name: str) -> Any:
            when = given.get(name)
            if when is None:
                return None
            try:
                when = maybe_iso8601(when)
            except (ValueError, TypeError) as exc:
                raise InvalidTaskError(f"invalid {name} value {when!r}: {exc}") from exc
            return maybe_make_aware(when, *(() if utc else (self.tzlocal,)))

        self.eta: Any = instant("eta")
        self.expires: Any = instant("expires")

    # -- the message -------------------------------------------------------------------------

    @property
    def groups(self) -> list[str]:
        """The groups around the task, as its message names them."""
        return self._request_dict.get("groups") or []

    @property
    def request_dict(self) -> dict[str, Any]:
        """What ``task.request`` is made of."""
        return self._request_dict

    @property
    def body(self) -> Any:
        return self._body

    @cached_property
    def _payload(self) -> Any:
        return self._body if self._decoded else self.message.payload

    @property
    def args(self) -> Any:
        return self._payload[0]

    @property
    def kwargs(self) -> Any:
        return self._payload[1]

    @property
    def argsrepr(self) -> str | None:
        if "argsrepr" in self._request_dict:
            given: str | None = self._request_dict["argsrepr"]
            return given
        return saferepr(as_given(self._request_dict, self.args))

    @property
    def kwargsrepr(self) -> str | None:
        given: str | None = self._request_dict.get("kwargsrepr")
        return given if "kwargsrepr" in self._request_dict else saferepr(self.kwargs)

    @property
    def content_type(self) -> Any:
        return self.message.content_type

    @property
    def content_encoding(self) -> Any:
        return self.message.content_encoding

    @property
    def task_id(self) -> str:
        return self.id

    @task_id.setter
    def task_id(self, value: str) -> None:
        self.id = value

    @property
    def task_name(self) -> str:
        return self.name

    @task_name.setter
    def task_name(self, value: str) -> None:
        self.name = value

    @property
    def on_ack(self) -> Callable[..., Any]:
        return self._on_ack

    @on_ack.setter
    def on_ack(self, value: Callable[..., Any]) -> None:
        self._on_ack = value

    @property
    def on_reject(self) -> Callable[..., Any]:
        return self._on_reject

    @on_reject.setter
    def on_reject(self, value: Callable[..., Any]) -> None:
        self._on_reject = value

    @property
    def tzlocal(self) -> Any:
        """The time zone of instants that come without one, in messages that are not in UTC."""
        if self._tzlocal is None:
            self._tzlocal = self.app.conf.timezone
        return self._tzlocal

    @cached_property
    def delivery_info(self) -> dict[str, Any]:
        return dict(self.message.delivery_info)

    @property
    def reply_to(self) -> str | None:
        return self._request_dict.get("reply_to")

    @property
    def correlation_id(self) -> str | None:
        return self._request_dict.get("correlation_id")

    @property
    def ignore_result(self) -> bool:
        """The message says it, or else the task."""
        return self._ignore_result

    @property
    def store_errors(self) -> bool:
        """Whether a failure is to be stored."""
        return not self._ignore_result or bool(self.task.store_errors_even_if_ignored)

    @property
    def group(self) -> str | None:
        return self._request_dict.get("group")

    @property
    def group_index(self) -> int | None:
        return self._request_dict.get("group_index")

    @property
    def chord(self) -> Any:
        """The body of the chord whose header it is in, as the message has it."""
        return self._payload[2].get("chord")

    @property
    def replaced_task_nesting(self) -> int:
        """How many tasks have stood in its place before."""
        return int(self._request_dict.get("replaced_task_nesting") or 0)

    @property
    def errbacks(self) -> Any:
        return self._request_dict.get("errbacks")

    @property
    def stamped_headers(self) -> list[str]:
        """Names of the headers that are stamps."""
        return list(self._request_dict.get("stamped_headers") or ())

    @property
    def stamps(self) -> dict[str, Any]:
        """The stamps, by name."""
        stamps = self._request_dict.get("stamps") or {}
        return {name: stamps.get(name) for name in self.stamped_headers}

    @cached_property
    def _context(self) -> Any:
        """What the task's hooks and the backend see of it."""
        args, kwargs, embed = self._payload
        return Context({**self._request_dict, **(embed or {})}, args=args, kwargs=kwargs)

    # -- its run -----------------------------------------------------------------------------

    def execute(self, loglevel: int | None = None, logfile: str | None = None) -> Any:
        """Run the task in this thread, unless it is revoked or too late.

        Gives what it returned, or the ``ExceptionInfo`` of a failure.
        """
        if self.revoked():
            return None
        if not self.task.acks_late:
            self.acknowledge()
        args, kwargs, embed = self._payload
        given = {"args": args, "kwargs": kwargs, "loglevel": loglevel, "logfile": logfile}
        request = {**self._request_dict, **given, "is_eager": False, **(embed or {})}
        try:
            returned, *_ = trace.trace_task(
                self.task, self.id, args, kwargs, request, hostname=self.hostname, app=self.app
            )
        except Reject as exc:  # by a hook
            return self.reject(requeue=exc.requeue)
        self.acknowledge()
        return returned

    def maybe_expire(self) -> bool:
        """Whether it is too late to run it; then it counts as revoked."""
        if self.expires is None:
            return False
        if datetime.datetime.now(datetime.timezone.utc) <= maybe_make_aware(self.expires):
            return False
        state.revoked.add(self.id)
        return True

    def revoked(self) -> bool:
        """Whether it is not to run: it was revoked, itself or by a stamp, or has expired. The
        first to ask has it told of, and acknowledged."""
        if self._already_revoked:
            return True
        expired = self.maybe_expire()
        if not (expired or self.id in state.revoked or self._has_revoked_stamp()):
            return False
        info("Discarding revoked task: %s[%s]", self.name, self.id)
        self._announce_revoked("expired" if expired else "revoked", False, None, expired)
        return True

    def _has_revoked_stamp(self) -> bool:
        stamps = self.stamps
        return any(
            not stamp_values(values).isdisjoint(stamp_values(stamps.get(name)))
            for name, values in state.revoked_stamps.items()
            if name in stamps
        )

    def _announce_revoked(self, reason: str, terminated: bool, signum: Any, expired: bool) -> None:
        state.task_ready(self)
        told = {"terminated": terminated, "signum": signum, "expired": expired}
        self.send_event("task-revoked", **told)
        if _is_written_to(self.task.backend):
            self.task.backend.mark_as_revoked(
                self.id, reason, request=self._context, store_result=self.store_errors
            )
        self.acknowledge()
        self._already_revoked = True
        signals.task_revoked.send(sender=self.task, request=self._context, **told)

    def send_event(self, type: str, **fields: Any) -> None:
        """Tell those who listen, if anybody does."""
        if self.eventer and self.eventer.enabled and self.task.send_events:
            self.eventer.send(type, uuid=self.id, **fields)

    # -- what became of it: for subclasses, who call these as well ----------------------------

    def on_accepted(self, pid: int, time_accepted: float) -> None:
        """The process ``pid`` has begun with it, at ``time_accepted`` of the monotonic clock."""
        self.worker_pid = pid
        self.time_start = time() - (monotonic() - time_accepted)
        state.task_accepted(self)
        if not self.task.acks_late:
            self.acknowledge()
        self.send_event("task-started")
        debug("Task accepted: %s[%s] pid:%r", self.name, self.id, pid)
        if self._terminate_on_ack is not None:
            self.terminate(*self._terminate_on_ack)

    def on_timeout(self, soft: bool, timeout: float) -> None:
        """It has run for longer than its limit of ``timeout`` seconds.

        After the soft one the task goes on; after the hard one it is ended, and nobody has told
        of that yet: its hooks, the signal, error callbacks and the backend are.
        """
        if state.should_terminate:
            return
        if soft:
            warn("Soft time limit (%ss) exceeded for %s[%s]", timeout, self.name, self.id)
            return
        state.task_ready(self)
        error("Hard time limit (%ss) exceeded for %s[%s]", timeout, self.name, self.id)
        exc = TimeLimitExceeded(timeout)
        try:
            self._fail(exc)
        finally:
            exc.__traceback__ = None  # it holds this frame, and so the request
        if self.task.acks_late:
            self.acknowledge()

    def on_success(self, failed__retval__runtime: tuple[Any, Any, Any], **kwargs: Any) -> Any:
        """It was run: whether it has failed, what came back, and the seconds it took."""
        failed, returned, runtime = failed__retval__runtime
        if failed:
            exc = _exception_of(returned)
            if isinstance(exc, (SystemExit, KeyboardInterrupt)):
                raise exc
            return self.on_failure(returned, return_ok=True)
        state.task_ready(self, successful=True)
        if self.task.acks_late:
            self.acknowledge()
        self.send_event("task-succeeded", result=returned, runtime=runtime)
        return None

    def on_retry(self, exc_info: Any) -> None:
        """It will be run again."""
        if self.task.acks_late:
            self.acknowledge()
        self.send_event(
            "task-retried",
            exception=safe_repr(exc_info.exception.exc),
            traceback=safe_str(exc_info.traceback),
        )

    def on_failure(
        self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False
    ) -> Any:
        """It did not simply succeed: ``exc_info`` is an ``ExceptionInfo``.

        With ``return_ok`` the tracer has seen the end and logged it. Raises `MemoryError` if that
        is what it failed with.
        """
        state.task_ready(self)
        if state.should_terminate:
            return None
        exc = _exception_of(exc_info)
        if self._already_cancelled and isinstance(exc, (SystemExit, Terminated)):
            return None  # by `cancel`: it is to run again
        if self._already_revoked and isinstance(exc, SystemExit):
            return None  # by `terminate`, which has told of it
        if isinstance(exc, (SystemExit, KeyboardInterrupt)):  # it would have ended its child
            exc = WorkerLostError(f"Worker exited prematurely: {_manner(exc)}.")
        if isinstance(exc, MemoryError):
            raise MemoryError(f"Process got: {exc}")
        if isinstance(exc, Reject):
            return self.reject(requeue=exc.requeue)
        if isinstance(exc, Ignore):
            return self.acknowledge()
        if isinstance(exc, Retry):
            return self.on_retry(exc_info)
        if isinstance(exc, Terminated):
            return self._announce_revoked("terminated", True, str(exc), False)
        lost = isinstance(exc, WorkerLostError)
        if lost and self.task.acks_late and self.task.reject_on_worker_lost:
            return self.reject(requeue=True)  # not the end: another worker runs it
        if lost or isinstance(exc, TimeLimitExceeded):
            self._tell_backend(exc)  # the tracer could not
        if self.task.acks_late:
            self.acknowledge()
        if send_failed_event:
            self.send_event(
                "task-failed",
                exception=safe_repr(exc),
                traceback=safe_str(exc_info.traceback),
            )
        if not return_ok:
            error(
                "Task handler raised error: %r",
                exc,
                exc_info=(type(exc), exc, exc.__traceback__),
            )
        return None

    def _fail(self, exc: Exception) -> None:
        """Tell of a failure that happened to the task from outside."""
        task, args, kwargs = self.task, self._context.args, self._context.kwargs
        try:
            raise exc
        except Exception:
            einfo = ExceptionInfo()
        self._tell_backend(exc)
        hooks: list[Callable[[], Any]] = [
            lambda: task.on_failure(exc, self.id, args, kwargs, einfo),
            lambda: signals.task_failure.send(
                sender=task,
                task_id=self.id,
                exception=exc,
                args=args,
                kwargs=kwargs,
                traceback=exc.__traceback__,
                einfo=einfo,
            ),
            lambda: task.after_return(FAILURE, exc, self.id, args, kwargs, einfo),
        ]
        for hook in hooks:
            try:
                hook()
            except Exception:
                logger.exception("A hook of task %s[%s] failed", self.name, self.id)
        fields = {"exception": safe_repr(exc), "traceback": safe_str(einfo.traceback)}
        self.send_event("task-failed", **fields)

    def _tell_backend(self, exc: BaseException) -> None:
        """Have the failure stored, and the error callbacks called."""
        backend, context = self.task.backend, self._context
        try:
            if _is_written_to(backend):
                stored = {"request": context, "store_result": self.store_errors}
                backend.mark_as_failure(self.id, exc, **stored)  # calls them as well
            else:
                call_errbacks(self.app, context, exc, "")
        except Exception:
            logger.exception("The result backend was not told of the end of task %s", self.id)

    # -- its message -------------------------------------------------------------------------

    def acknowledge(self) -> None:
        """Say that the message is done with. The engine settles its jobs by itself."""
        if not self.acknowledged:
            self.acknowledged = True
            self._on_ack(logger, self.connection_errors)

    def reject(self, requeue: bool = False) -> None:
        """Refuse the message."""
        if not self.acknowledged:
            self.acknowledged = True
            self._on_reject(logger, self.connection_errors, requeue)
            self.send_event("task-rejected", requeue=requeue)

    # -- in words ----------------------------------------------------------------------------

    def info(self, safe: bool = False) -> dict[str, Any]:
        """What remote control tells of the request; ``safe``: arguments as text."""
        return {
            "id": self.id,
            "name": self.name,
            "args": self.argsrepr if safe else self.args,
            "kwargs": self.kwargsrepr if safe else self.kwargs,
            "type": self.type,
            "hostname": self.hostname,
            "time_start": self.time_start,
            "acknowledged": self.acknowledged,
            "delivery_info": self.delivery_info,
            "worker_pid": self.worker_pid,
        }

    def humaninfo(self) -> str:
        return f"{self.name}[{self.id}]"

    def __str__(self) -> str:
        extra = [f"ETA:[{self.eta}]"] if self.eta else []
        extra += [f"expires:[{self.expires}]"] if self.expires else []
        return " ".join([self.humaninfo(), *extra])

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.humaninfo()} {self.argsrepr} {self.kwargsrepr}>"


def _is_written_to(backend: Any) -> bool:
    return bool(getattr(backend, "written_by_worker", False))


def _exception_of(exc_info: Any) -> Any:
    exc = exc_info.exception
    return exc.exc if isinstance(exc, ExceptionWithTraceback) else exc


def _manner(exc: BaseException) -> str:
    """How a process ends by it."""
    if not isinstance(exc, SystemExit):
        return type(exc).__name__
    code = exc.code
    return f"exitcode {code if isinstance(code, int) else int(code is not None)}"


def create_request_cls(
    base: type[Request],
    task: Any,
    pool: Any,
    hostname: str | None,
    eventer: Any,
    app: Any = None,
    **options: Any,
) -> type[Request]:
    """A subclass of ``base`` for the messages of one task of one worker, which it need not be
    told of any more. ``pool`` is accepted, as are further options: it is given to
    `Request.execute_using_pool`."""
    defaults = {"task": task, "hostname": hostname, "eventer": eventer, "app": app}

    class TaskRequest(base):  # type: ignore[valid-type,misc]  # made here
        def __init__(self, message: Any, **kwargs: Any) -> None:
            super().__init__(message, **{**defaults, **kwargs})

    if "ref" in options:
        TaskRequest._ref = staticmethod(options["ref"])
    TaskRequest.__name__ = base.__name__
    return TaskRequest
