"""Runs one task: everything that Celery promises around the call of its body.

`build_tracer` gives the function that does it, for workers and for ``Task.apply`` alike. Its users
are told apart from its makers on purpose: libraries replace ``celery.app.trace.build_tracer``, so
everybody looks it up here at the time of use, and what it gives takes exactly four positional
arguments, ``(uuid, args, kwargs, request)``.

Around the body, in this order: ``task_prerun``, ``before_start``; the body; then

* success: ``on_success``, ``task_success``, the log line, ``after_return``;
* failure: ``on_failure``, ``task_failure``, the log line, error callbacks, ``after_return``;
* retry: ``on_retry``, ``task_retry``, the log line;
* `Ignore` and `Reject`: the log line;

and ``task_postrun`` last of all. What the tracer gives back becomes one settlement in the engine
(`taskmq_celery.lifecycle`); a result backend that is not the engine's own store is written to from
here, before the settlement: a task that is acknowledged has its record.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from warnings import warn

from billiard.einfo import ExceptionInfo, ExceptionWithTraceback
from kombu.exceptions import EncodeError
from kombu.serialization import loads as loads_message
from kombu.serialization import prepare_accept_content
from kombu.utils.encoding import safe_repr

from celery import signals
from celery._state import _task_stack, get_current_app
from celery.app.callbacks import call_errbacks as _call_errbacks
from celery.app.callbacks import follow_up
from celery.app.duplicates import successful_requests
from celery.app.log_policies import (
    LOG_FAILURE,
    LOG_IGNORED,
    LOG_INTERNAL_ERROR,
    LOG_REJECTED,
    get_log_policy,
    log_policy_expected,
    log_policy_ignore,
    log_policy_internal,
    log_policy_reject,
    log_policy_t,
    log_policy_unexpected,
)
from celery.app.task import Context
from celery.app.task import Task as BaseTask
from celery.canvas import group
from celery.exceptions import BackendGetMetaError, Ignore, InvalidTaskError, Reject, Retry
from celery.result import AsyncResult
from celery.states import EXCEPTION_STATES, FAILURE, IGNORED, REJECTED, RETRY, STARTED, SUCCESS
from celery.utils.log import get_logger
from celery.utils.nodenames import gethostname
from celery.utils.objects import mro_lookup
from celery.utils.saferepr import saferepr

__all__ = (
    "TraceInfo",
    "build_tracer",
    "reset_worker_optimizations",
    "setup_worker_optimizations",
    "trace_task",
)

logger = get_logger(__name__)

# Applications assign their own formats to these.
LOG_RECEIVED = "Task %(name)s[%(id)s] received"
LOG_SUCCESS = "Task %(name)s[%(id)s] succeeded in %(runtime)ss: %(return_value)s"
HOOK_FAILED = {
    "on_success": "Task %(name)s[%(id)s] on_success handler raised: %(exc)s",
    "after_return": "Task %(name)s[%(id)s] after_return handler raised: %(exc)s",
}
LOG_RETRY = "Task %(name)s[%(id)s] retry: %(exc)s"

IGNORE_STATES = frozenset({IGNORED, RETRY, REJECTED})
"""States in which the task has not returned: ``after_return`` is not called."""

trace_ok_t = namedtuple("trace_ok_t", ("retval", "info", "runtime", "retstr"))

send_prerun = signals.task_prerun.send
send_postrun = signals.task_postrun.send
send_success = signals.task_success.send


def get_task_name(request: Any, default: str) -> str:
    """What logs call the task: its ``shadow`` name if the caller gave one."""
    return getattr(request, "shadow", None) or default


def info(fmt: str, context: Mapping[str, Any]) -> None:
    """Log a line at INFO; ``record.data`` has what it is made of."""
    logger.info(fmt, context, extra={"data": context})


class TraceInfo:
    """How a task that did not simply succeed ended: its state, and the exception as ``retval``."""

    __slots__ = ("retval", "state")

    def __init__(self, state: str, retval: Any = None) -> None:
        self.state = state
        self.retval = retval

    def handle_error_state(
        self, task: Any, req: Any, eager: bool = False, call_errbacks: bool = True
    ) -> Any:
        """Tell hooks, signals and the log; gives the ``ExceptionInfo``."""
        if _is_ignored(task, req):
            store = bool(task.store_errors_even_if_ignored)
        else:
            store = not eager or bool(task.store_eager_result)
        handle = self.handle_retry if self.state == RETRY else self.handle_failure
        return handle(task, req, store_errors=store, call_errbacks=call_errbacks)

    def handle_reject(self, task: Any, req: Any, **kwargs: Any) -> Any:
        einfo = ExceptionInfo(internal=True)
        self._log_error(task, req, einfo)
        return einfo

    handle_ignore = handle_reject

    def handle_retry(self, task: Any, req: Any, store_errors: bool = True, **kwargs: Any) -> Any:
        kind, _, trace = sys.exc_info()
        try:
            einfo = ExceptionInfo((kind, self.retval, trace))
            if _is_told(task):
                record = req.id, self.retval.exc, einfo.traceback
                _record(task, "mark_as_retry", *record, request=req, store_result=store_errors)
            task.on_retry(self.retval.exc, req.id, req.args, req.kwargs, einfo)
            signals.task_retry.send(sender=task, request=req, reason=self.retval, einfo=einfo)
            name = get_task_name(req, task.name)
            info(LOG_RETRY, {"id": req.id, "name": name, "exc": str(self.retval)})
            return einfo
        finally:
            del trace  # a frame that refers to its own traceback lives on

    def handle_failure(
        self, task: Any, req: Any, store_errors: bool = True, call_errbacks: bool = True
    ) -> Any:
        exc, trace = self.retval, self.retval.__traceback__
        try:
            einfo = ExceptionInfo((type(exc), exc, trace))
            if _is_told(task):
                _record(
                    task,
                    "mark_as_failure",
                    *(req.id, exc, einfo.traceback),
                    request=_without_chord(req),
                    store_result=store_errors,
                    call_errbacks=False,  # below
                )
            elif req.get("_children"):
                _keep_children(task, req)
            task.on_failure(exc, req.id, req.args, req.kwargs, einfo)
            signals.task_failure.send(
                sender=task,
                task_id=req.id,
                exception=exc,
                args=req.args,
                kwargs=req.kwargs,
                traceback=trace,
                einfo=einfo,
            )
            self._log_error(task, req, einfo)
            if call_errbacks:
                _call_errbacks(task.app, req, exc, einfo.traceback)
            return _unwrapped(einfo)
        finally:
            del trace

    def _log_error(self, task: Any, req: Any, einfo: Any) -> None:
        exc = self.retval
        policy = get_log_policy(task, einfo, exc)
        context = {
            "hostname": req.hostname,
            "id": req.id,
            "name": get_task_name(req, task.name),
            "exc": _repr(exc),
            "traceback": einfo.traceback,
            "args": req.get("argsrepr") or _repr(req.args),
            "kwargs": req.get("kwargsrepr") or _repr(req.kwargs),
            "description": policy.description,
            "internal": einfo.internal,
        }
        exc_info = (type(exc), exc, exc.__traceback__) if policy.traceback else None
        logger.log(
            policy.severity, policy.format, context, exc_info=exc_info, extra={"data": context}
        )


def _is_told(task: Any) -> bool:
    """Whether the result backend is told of the outcome of a run from here.

    Otherwise the engine's own record is all there is: it is written in the step that settles the
    task.
    """
    return bool(getattr(task.backend, "written_by_worker", False))


def _is_ignored(task: Any, req: Any) -> bool:
    """Whether nobody wants the result: the message says it, or else the task."""
    said = None if req is None else vars(req).get("ignore_result")
    return bool(task.ignore_result if said is None else said)


def _keep_children(task: Any, req: Any) -> None:
    """Let the engine's record tell of the tasks that this one has called."""
    if not (req.called_directly or req.is_eager) and hasattr(task.backend, "keep_children"):
        _record(task, "keep_children", req.id, req)


def _record(task: Any, method: str, *args: Any, **kwargs: Any) -> None:
    """Write to the result backend. A backend that fails costs no task: the engine's record has
    the outcome, and whoever asks through an `AsyncResult` gets it from there."""
    try:
        getattr(task.backend, method)(*args, **kwargs)
    except EncodeError:
        raise
    except Exception:
        logger.exception(
            "Task %s[%s]: the result backend failed in %s; the outcome is in the engine's record "
            "alone",
            *(task.name, args[0], method),
        )


def _without_chord(req: Any) -> Any:
    """A request as the backend is to see it: the engine joins the parts of a chord, so that the
    backend must not count them."""
    if req.chord is None or req.is_eager:
        return req
    return Context(vars(req), chord=None)


def _unwrapped(einfo: Any) -> Any:
    """An ExceptionInfo that has the exception itself, for those who read it after the signals."""
    if isinstance(einfo.exception, ExceptionWithTraceback):
        einfo.exception = einfo.exception.exc
    return einfo


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:
        return f"<no text: repr() raised {type(error).__name__}>"


def task_has_custom(task: Any, attr: str) -> bool:
    """Whether ``attr`` of a task is not simply what Celery's own `Task` has: a class of the user
    overrides it, or somebody has patched it there."""
    kind, own = task.__class__, BaseTask.__module__  # not type(): a task may be a proxy
    return mro_lookup(kind, attr, stop={BaseTask, object}, monkey_patched=[own]) is not None


def traceback_clear(exc: Any = None) -> None:
    """Let go of the local variables that the traceback of an exception holds, or else that of the
    one that is being handled."""
    trace = getattr(exc, "__traceback__", None) or sys.exc_info()[2]
    traceback.clear_frames(trace)


def build_tracer(
    name: str,
    task: Any,
    loader: Any = None,
    hostname: str | None = None,
    store_errors: bool = True,
    Info: type[TraceInfo] = TraceInfo,  # noqa: N803  # Celery's parameter
    eager: bool = False,
    propagate: bool = False,
    app: Any = None,
    monotonic: Callable[[], float] = time.monotonic,
    trace_ok_t: Any = trace_ok_t,
    IGNORE_STATES: frozenset[str] = IGNORE_STATES,  # noqa: N803  # Celery's parameter
) -> Callable[..., Any]:
    """The function that runs ``task`` once: ``tracer(uuid, args, kwargs, request)``.

    It gives a `trace_ok_t`: ``info`` is ``None`` after a success and has the state otherwise. An
    exception of the task is raised only with ``propagate``; one that came from elsewhere (a hook,
    a bad message) is reported, and raised if ``eager``.

    ``request`` is the mapping that becomes ``task.request``. ``store_errors`` and ``hostname``
    are accepted: the engine stores every outcome, and the request has the worker's name.
    """
    app = app or task.app
    made = _Tracer(name, task, app, loader or app.loader)
    made.outcome_type, made.answer_type, made.ignored = Info, trace_ok_t, IGNORE_STATES
    made.eager, made.propagate, made.monotonic = eager, propagate, monotonic
    return made.trace_task


class _Tracer:
    """What `build_tracer` makes. Which hooks a task has is looked up once; its body each time,
    since libraries replace ``run`` on the instance whenever they like."""

    outcome_type: type[TraceInfo]
    answer_type: Any
    ignored: frozenset[str]
    eager: bool
    propagate: bool
    monotonic: Callable[[], float]

    def __init__(self, name: str, task: Any, app: Any, loader: Any) -> None:
        self.name = name
        self.task = task
        self.app = app
        self.loader = loader
        self.deduplicates = app.conf.worker_deduplicate_successful_tasks and task.acks_late
        self.has_call = task_has_custom(task, "__call__")
        self.has_before_start = task_has_custom(task, "before_start")
        self.has_on_success = task_has_custom(task, "on_success")
        self.has_after_return = task_has_custom(task, "after_return")

    def trace_task(self, uuid: str, args: Any, kwargs: Any, request: Any = None) -> Any:
        """Run the task once. See `build_tracer`."""
        outcome = returned = runtime = text = None
        try:
            if not hasattr(kwargs, "items"):
                raise InvalidTaskError("Task keyword arguments is not a mapping")
            context = Context(request or {}, args=args, called_directly=False, kwargs=kwargs)
            if self.deduplicates and (done := self._done_before(context, uuid)):
                context.get("_done_before", []).append(done[0])  # whoever settles it stores that
                return self.answer_type(None, None, 0.0, None)
            outcome, returned, runtime, text = self._current(context, uuid, args, kwargs)
        except (MemoryError, Reject):  # a task cannot fail by these; hooks and duplicates can
            raise
        except Exception as exc:
            if self.propagate:
                raise
            _signal_internal_error(self.task, uuid, args, kwargs, request, exc)
            if self.eager:
                raise
            returned = report_internal_error(self.task, exc)
        return self.answer_type(returned, outcome, runtime, text)

    def _done_before(self, context: Any, uuid: str) -> tuple[Any] | None:
        """The result of a task whose message has come again although it has succeeded.

        If that was in another process, perhaps at its end, what follows the task is sent unless
        the record says that it was. Raises `Reject` where that fails: the message stays.
        """
        if not (context.delivery_info or {}).get("redelivered"):
            return None
        known = uuid in successful_requests
        found = AsyncResult(uuid, app=self.app)
        try:
            if found.state != SUCCESS:
                return (None,) if known else None
        except BackendGetMetaError:
            return (None,) if known else None
        try:
            meta = found._get_task_meta()
            if not known and not meta.get("children"):
                self._follow_up(context, uuid, meta["result"])
        except MemoryError:
            raise
        except Exception as exc:
            logger.error(  # noqa: G201  # not an error of the task, whose traceback one looks for
                "What follows the deduplicated task %s[%s] could not be sent: it is not settled",
                *(self.name, uuid),
                exc_info=True,
            )
            raise Reject(exc, requeue=True) from exc
        successful_requests.add(uuid)
        return (meta["result"],)

    def _follow_up(self, context: Any, uuid: str, retval: Any) -> None:
        follow_up(self.app, context, retval, uuid)

    def _current(self, context: Any, uuid: str, args: Any, kwargs: Any) -> Any:
        """Run it as the current task, between ``task_prerun`` and ``task_postrun``."""
        task = self.task
        retval = state = None
        _task_stack.push(task)
        task.push_request(context)
        told = {"task_id": uuid, "task": task, "args": args, "kwargs": kwargs}
        try:
            if signals.task_prerun.receivers:
                send_prerun(sender=task, **told)
            self.loader.on_task_init(uuid, task)
            if task.track_started and self._stores(context) and not self.eager:
                fields = {"pid": os.getpid(), "hostname": context.hostname}
                _record(task, "store_result", uuid, fields, STARTED, request=context)
            outcome, returned, runtime, text = self._outcome(context, uuid, args, kwargs)
            state, retval = (outcome.state, outcome.retval) if outcome else (SUCCESS, returned)
            if self.has_after_return and state not in self.ignored:
                self._guard(context, "after_return", state, retval, uuid, args, kwargs, None)
            return outcome, returned, runtime, text
        finally:
            try:
                if signals.task_postrun.receivers:
                    send_postrun(sender=task, retval=retval, state=state, **told)
            finally:
                _task_stack.pop()
                task.pop_request()
                self._clean_up()

    def _clean_up(self) -> None:
        """Tell the loader that the task is over; whatever it does, the outcome stands."""
        if self.eager:
            return
        try:
            if getattr(self.task.backend, "written_by_worker", False):
                self.task.backend.process_cleanup()
            self.loader.on_process_cleanup()
        except MemoryError:
            raise
        except Exception as exc:
            logger.error(  # noqa: G201  # not an error of the task, whose traceback one looks for
                "Process cleanup failed: %r", exc, exc_info=True
            )

    def _outcome(self, context: Any, uuid: str, args: Any, kwargs: Any) -> Any:
        """Run the body and report how it ended: (outcome, returned, runtime, text)."""
        task = self.task
        started = self.monotonic()
        try:
            if self.has_before_start:
                task.before_start(uuid, args, kwargs)
            # A __call__ of the user's that goes on to Task.__call__ is still this run, not another.
            context._protected = not self.has_call
            body = task if self.has_call else task.run
            retval = body(*args, **kwargs)
            runtime = self.monotonic() - started
            check = context.get("_check_result")
            if check is not None:
                check(retval)
            self._follow_up(context, uuid, retval)
            if _is_told(task):
                seen = context if self.eager else _without_chord(context)
                told = uuid, retval, seen, self._stores(context)
                _record(task, "mark_as_done", *told)
            elif context.get("_children"):
                _keep_children(task, context)
        except Reject as exc:
            outcome = self.outcome_type(REJECTED, exc)
            einfo = outcome.handle_reject(task, context)
            if not exc.requeue and not self.eager:  # it has failed, for others
                _call_errbacks(task.app, context, exc, einfo.traceback)
            return self._cleared(exc, outcome, einfo)
        except Ignore as exc:
            outcome = self.outcome_type(IGNORED, exc)
            return self._cleared(exc, outcome, outcome.handle_ignore(task, context))
        except Retry as exc:
            return self._on_error(context, RETRY, exc)
        except Exception as exc:
            return self._on_error(context, FAILURE, exc)
        if self.has_on_success:
            self._guard(context, "on_success", retval, uuid, args, kwargs)
        if signals.task_success.receivers:
            send_success(sender=task, result=retval, runtime=runtime)
        return None, retval, runtime, self._log_success(context, retval, runtime)

    def _on_error(self, context: Any, state: str, exc: BaseException) -> Any:
        if self.propagate:
            raise exc
        outcome = self.outcome_type(state, exc)
        failed = state == FAILURE
        einfo = outcome.handle_error_state(
            self.task, context, eager=self.eager, call_errbacks=failed
        )
        return self._cleared(exc, outcome, einfo)

    def _cleared(self, exc: BaseException, outcome: TraceInfo, einfo: Any) -> Any:
        """The outcome; what the frames of the body held is let go."""
        traceback_clear(exc)
        return outcome, einfo, None, None

    def _stores(self, context: Any) -> bool:
        """Whether the result of a run that succeeds is to be stored."""
        stored = bool(self.task.store_eager_result) if self.eager else _is_told(self.task)
        return stored and not _is_ignored(self.task, context)

    def _log_success(self, context: Any, retval: Any, runtime: float) -> str:
        text = saferepr(retval, self.task.resultrepr_maxsize)
        if logger.isEnabledFor(logging.INFO):
            fields = {
                "id": context.id,
                "name": get_task_name(context, self.name),
                "return_value": text,
                "runtime": runtime,
                "args": context.get("argsrepr") or saferepr(context.args),
                "kwargs": context.get("kwargsrepr") or saferepr(context.kwargs),
            }
            info(LOG_SUCCESS, fields)
        return text

    def _guard(self, context: Any, hook: str, *args: Any) -> None:
        """Call a hook that comes after the outcome is decided: its failure is logged, no more.
        Whoever calls a task eagerly is there to see it."""
        try:
            getattr(self.task, hook)(*args)
        except (MemoryError, Reject):
            raise
        except Exception as exc:
            if self.eager:
                raise
            fields = {
                "name": get_task_name(context, self.name),
                "id": context.id,
                "exc": _repr(exc),
            }
            logger.exception(HOOK_FAILED[hook], fields)


def trace_task(
    task: Any,
    uuid: str,
    args: Iterable[Any],
    kwargs: dict[str, Any],
    request: Any = None,
    **opts: Any,
) -> Any:
    """Run a task through its tracer, which is built once and kept as ``task.__trace__``.

    Gives a `trace_ok_t`, also where something around the body failed.
    """
    given = {} if request is None else request
    try:
        run = task.__trace__ = task.__trace__ or build_tracer(task.name, task, **opts)
        return run(uuid, args, kwargs, given)
    except Reject:
        raise
    except Exception as error:
        _signal_internal_error(task, uuid, args, kwargs, given, error)
        einfo = report_internal_error(task, error)
    return trace_ok_t(einfo, TraceInfo(FAILURE, einfo.exception), 0.0, None)


_localized: list[Any] = []
"""Of this process's worker: its tasks, the content types that it accepts, and its name."""


def fast_trace_task(
    task: str,
    uuid: str,
    request: dict[str, Any],
    body: Any,
    content_type: str | None,
    content_encoding: str | None,
    loads: Callable[..., Any] = loads_message,
    _loc: Sequence[Any] | None = None,
    hostname: str | None = None,
    **_: Any,
) -> tuple[int, Any, float | None]:
    """`trace_task_ret` for the app whose worker this process is."""
    known = _localized if _loc is None else _loc
    if not known:
        raise RuntimeError(
            "The worker task registry is empty: call celery.app.trace.setup_worker_optimizations"
            "(app) in this process first"
        )
    tasks, accept, host = known
    message = body, content_type, content_encoding, loads, accept
    return _trace_message(tasks[task], uuid, request, message, hostname or host)


def trace_task_ret(
    name: str,
    uuid: str,
    request: dict[str, Any],
    body: Any,
    content_type: str | None,
    content_encoding: str | None,
    loads: Callable[..., Any] = loads_message,
    app: Any = None,
    **extra_request: Any,
) -> tuple[int, Any, float | None]:
    """Run the task of one message, whose body is ``(args, kwargs, embed)``; encoded, unless its
    content type is empty.

    Gives ``(0, the result as text, seconds)``, or ``(1, its ExceptionInfo, ...)`` if the task did
    not simply succeed.
    """
    app = app or get_current_app()
    accept = prepare_accept_content(app.conf.accept_content)
    message = body, content_type, content_encoding, loads, accept
    return _trace_message(
        app.tasks[name], uuid, {**request, **extra_request}, message, gethostname(), app=app
    )


def _trace_message(
    task: Any,
    uuid: str,
    request: dict[str, Any],
    message: tuple[Any, str | None, str | None, Callable[..., Any], Any],
    hostname: str,
    **opts: Any,
) -> tuple[int, Any, float | None]:
    body, content_type, content_encoding, loads, accept = message
    if content_type:
        body = loads(body, content_type, content_encoding, accept=accept)
    args, kwargs, embed = body
    given = {"args": args, "kwargs": kwargs, "hostname": hostname, "is_eager": False}
    request = {**request, **given, **(embed or {})}
    returned, info, runtime, text = trace_task(task, uuid, args, kwargs, request, **opts)
    return (0, text, runtime) if info is None else (1, returned, runtime)


def report_internal_error(task: Any, exc: BaseException) -> Any:
    """Warn of an exception that came not from the task's body; gives its ``ExceptionInfo``."""
    kind, value, trace = sys.exc_info()
    try:
        einfo = ExceptionInfo((kind, value, trace), internal=True)
        warn(
            RuntimeWarning(f"Exception raised outside body: {exc!r}:\n{einfo.traceback}"),
            stacklevel=2,
        )
        return einfo
    finally:
        del trace


def _signal_internal_error(
    task: Any, uuid: str, args: Any, kwargs: Any, request: Any, exc: BaseException
) -> None:
    trace = exc.__traceback__
    try:
        signals.task_internal_error.send(
            sender=task,
            task_id=uuid,
            args=args,
            kwargs=kwargs,
            request=request,
            exception=exc,
            traceback=trace,
            einfo=ExceptionInfo((type(exc), exc, trace), internal=True),
        )
    finally:
        del trace


def setup_worker_optimizations(app: Any, hostname: str | None = None) -> None:
    """Make ``app`` the one of the whole process. A worker calls it when it starts."""
    app.set_current()
    app.set_default()
    app.finalize(auto=True)
    accept = prepare_accept_content(app.conf.accept_content)
    _localized[:] = [app._tasks, accept, hostname or gethostname()]


def reset_worker_optimizations(app: Any = None) -> None:
    """Undo what `setup_worker_optimizations` left behind, apart from the current app."""
    _localized.clear()
