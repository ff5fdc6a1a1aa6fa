"""Tasks: what ``@app.task`` makes, and the base of class-based tasks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar

from billiard.einfo import ExceptionInfo, ExceptionWithTraceback
from kombu.exceptions import OperationalError
from kombu.serialization import dumps, loads
from kombu.utils.imports import symbol_by_name
from kombu.utils.uuid import uuid

from celery import states
from celery._state import _task_stack, get_current_app
from celery.exceptions import MaxRetriesExceededError, Retry
from celery.local import Subscriptable, class_property
from celery.utils.functional import head_from_fun
from celery.utils.imports import instantiate
from celery.utils.threads import LocalStack

from .annotations import resolve_all as resolve_all_annotations
from .context import Context
from .eager import eager_request
from .registry import _unpickle_task_v2
from .retrying import changes_of, raise_from_handled, signature_of
from .utils import appstr

if TYPE_CHECKING:
    from celery.canvas import Signature
    from celery.result import AsyncResult, EagerResult

    from .base import Celery

__all__ = ("Context", "Task")

EXEC_OPTIONS = (
    *("queue", "routing_key", "exchange", "priority", "expires", "serializer", "delivery_mode"),
    *("compression", "time_limit", "soft_time_limit", "immediate", "mandatory", "ignore_result"),
)
"""Attributes of a task that are options of every call of it."""

SHOWN_BOUND = "<@task: {0.name} of {app}{flags}>"
SHOWN_UNBOUND = "<unbound {0.__class__.__name__}{flags}>"
SHOWN_CLASS = "<class {0.__name__} of {app}{flags}>"


class Task(Subscriptable):
    """A task. ``run`` is its body; ``@app.task`` makes a subclass with a function as ``run``.

    One instance serves every run of the task in a process, from several threads at once: what is
    particular to a run is in ``self.request``.
    """

    __trace__: Any = None
    __bound__: ClassVar[bool] = False
    __v2_compat__ = False

    MaxRetriesExceededError = MaxRetriesExceededError
    OperationalError = OperationalError

    Strategy: Any = "celery.worker.strategy:default"
    Request: Any = "celery.worker.request:Request"

    _app: Any = None
    name: Any = None
    typing: bool | None = None
    pydantic = False
    """Whether arguments that are annotated as pydantic models are validated."""
    abstract = True
    max_retries: int | None = 3
    default_retry_delay: Any = 3 * 60
    rate_limit: Any = None
    ignore_result: bool | None = None
    trail = True
    send_events = True
    store_errors_even_if_ignored: bool | None = None
    store_eager_result: bool | None = None
    serializer: str | None = None
    time_limit: float | None = None
    soft_time_limit: float | None = None
    track_started: bool | None = None
    acks_late: bool | None = None
    """Not set means at least once, as ``True`` does; ``False`` means at most once."""
    acks_on_failure_or_timeout: bool | None = None
    acks_on_failure: bool | None = None
    acks_on_timeout: bool | None = None
    reject_on_worker_lost: bool | None = None
    retry_on_worker_lost: bool | None = None
    throws: tuple[type[BaseException], ...] = ()
    expires: Any = None
    priority: int | None = None
    resultrepr_maxsize = 1024

    request_stack: LocalStack = LocalStack()
    _default_request: Context | None = None
    _exec_options: dict[str, Any] | None = None
    _backend: Any = None

    from_config: tuple[tuple[str, str], ...] = (
        ("serializer", "task_serializer"),
        ("rate_limit", "task_default_rate_limit"),
        ("priority", "task_default_priority"),
        ("time_limit", "task_time_limit"),
        ("soft_time_limit", "task_soft_time_limit"),
        ("track_started", "task_track_started"),
        ("acks_on_failure_or_timeout", "task_acks_on_failure_or_timeout"),
        ("reject_on_worker_lost", "task_reject_on_worker_lost"),
        ("retry_on_worker_lost", "task_retry_on_worker_lost"),
        ("ignore_result", "task_ignore_result"),
        ("store_eager_result", "task_store_eager_result"),
        ("store_errors_even_if_ignored", "task_store_errors_even_if_ignored"),
    )
    """Attributes that, where the task leaves them ``None``, come from a setting."""

    # -- binding -----------------------------------------------------------------------------

    @classmethod
    def bind(cls, app: Celery) -> Celery:
        """Make this a task of ``app`` and take what it leaves open from the settings."""
        already = "__bound__" in vars(cls) and cls.__bound__ and cls._app is app
        cls._app = app
        cls._exec_options = None
        conf = app.conf
        if cls.typing is None:
            cls.typing = app.strict_typing
        for attribute, setting in cls.from_config:
            if getattr(cls, attribute, None) is None:
                setattr(cls, attribute, conf[setting])
        if cls.acks_late is None and conf.value_set_for("task_acks_late"):
            cls.acks_late = conf.task_acks_late
        if not already:
            cls.__bound__ = True
            cls.request_stack = LocalStack()
            cls.annotate()
            cls.on_bound(app)
        return app

    @classmethod
    def on_bound(cls, app: Celery) -> None:
        """Called when the task is bound to an app."""

    @classmethod
    def annotate(cls) -> None:
        """Apply what ``task_annotations`` says of this task. ``"@name"`` wraps a method."""
        if cls.name is None:
            return
        for annotation in resolve_all_annotations(cls._app.annotations, cls):
            for attribute, value in annotation.items():
                if attribute.startswith("@"):
                    cls.add_around(attribute[1:], value)
                else:
                    setattr(cls, attribute, value)

    @classmethod
    def add_around(cls, attr: str, around: Any) -> None:
        original = getattr(cls, attr)
        if getattr(original, "__wrapped__", None):
            original = original.__wrapped__
        wrapper = around(original)
        wrapper.__wrapped__ = original
        setattr(cls, attr, wrapper)

    @classmethod
    def _get_app(cls) -> Celery:
        if cls._app is None:
            cls._app = get_current_app()
        if not cls.__bound__:
            cls.bind(cls._app)
        app: Celery = cls._app
        return app

    app = class_property(_get_app, bind)

    @property
    def backend(self) -> Any:
        """Where results are."""
        return self.app.backend if self._backend is None else self._backend

    @backend.setter
    def backend(self, value: Any) -> None:
        self._backend = value

    # -- running -----------------------------------------------------------------------------

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The body of the task."""
        raise NotImplementedError("Tasks must define the run method.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        current = self.request_stack.top
        if current is not None and not current.called_directly and not current._protected:
            # From a __call__ of a subclass, within a run by the tracer: that run goes on.
            current._protected = True
            return self.run(*args, **kwargs)
        _task_stack.push(self)
        self.push_request(args=args, kwargs=kwargs)
        try:
            return self.run(*args, **kwargs)
        finally:
            self.pop_request()
            _task_stack.pop()

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        """Called before the body."""

    def on_success(self, retval: Any, task_id: str, args: Any, kwargs: Any) -> None:
        """Called after the body returned."""

    def on_retry(
        self, exc: BaseException, task_id: str, args: Any, kwargs: Any, einfo: ExceptionInfo
    ) -> None:
        """Called when the task is to be run again."""

    def on_failure(
        self, exc: BaseException, task_id: str, args: Any, kwargs: Any, einfo: ExceptionInfo
    ) -> None:
        """Called when the task failed for good."""

    def after_return(
        self, status: str, retval: Any, task_id: str, args: Any, kwargs: Any, einfo: Any
    ) -> None:
        """Called last, after a success or a failure."""

    # -- the current run ---------------------------------------------------------------------

    @property
    def request(self) -> Any:
        """The run that is going on in this thread; an empty one if there is none."""
        return self._get_request()

    def _get_request(self) -> Any:
        found = self.request_stack.top
        if found is None:
            if self._default_request is None:
                self._default_request = Context()
            return self._default_request
        return found

    def push_request(self, *args: Any, **kwargs: Any) -> None:
        """Make a request the current one: as given or, made from keywords, one that has all else
        from the request before it."""
        if len(args) == 1 and not kwargs and isinstance(args[0], Context):
            self.request_stack.push(args[0])
            return
        before = self.request_stack.top
        known = {} if before is None else vars(before)
        self.request_stack.push(Context({**known, **dict(*args, **kwargs)}))

    def pop_request(self) -> None:
        self.request_stack.pop()

    def update_state(
        self, task_id: str | None = None, state: str | None = None, meta: Any = None, **kwargs: Any
    ) -> None:
        """Give the running task a state of its own making."""
        self.backend.store_result(
            task_id or self.request.id, meta, state, request=self.request, **kwargs
        )

    def add_trail(self, result: Any) -> Any:
        """Remember the result of a task that this one called."""
        if self.trail:
            self.request.children.append(result)
        return result

    def send_event(
        self, type_: str, retry: bool = True, retry_policy: Any = None, **fields: Any
    ) -> None:
        """Send an event about the task that runs: ``self.send_event("task-progress", percent=30)``.

        In a worker nobody waits for the broker, and nothing is raised.
        """
        request = self.request
        eventer = self.app._eventers.get(request.hostname)
        if eventer is not None:
            eventer.tell(type_, uuid=request.id, **fields)
            return
        policy = self.app.conf.task_publish_retry_policy if retry_policy is None else retry_policy
        with self.app.events.default_dispatcher(hostname=request.hostname) as dispatcher:
            dispatcher.send(type_, uuid=request.id, retry=retry, retry_policy=policy, **fields)

    # -- calling -----------------------------------------------------------------------------

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult:
        """Call the task with these arguments, some time, in a worker."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self,
        args: Any = None,
        kwargs: Any = None,
        task_id: str | None = None,
        producer: Any = None,
        link: Any = None,
        link_error: Any = None,
        shadow: str | None = None,
        **options: Any,
    ) -> AsyncResult:
        """Call the task in a worker.

        Options: ``countdown`` (seconds) or ``eta`` (datetime), ``expires`` (seconds or datetime),
        ``queue``, ``priority`` (0 to 9, higher first), ``task_id``, ``headers``, ``serializer``,
        ``link`` and ``link_error`` (signatures that run after success and failure),
        ``ignore_result``, ``shadow`` (the name in logs). Others travel as message properties.

        Raises ``TypeError`` for arguments that do not fit, `kombu.exceptions.EncodeError` for
        ones that cannot be sent, `OperationalError` if the store cannot be reached.
        """
        if self.typing:
            check = getattr(self, "__header__", None)
            if check is not None:
                check(*(args or ()), **(kwargs or {}))
        app = self._get_app()
        if self.pydantic:
            args, kwargs = self._dump_pydantic_arguments(args, kwargs, options)
        if app.conf.task_always_eager:
            args, kwargs = self._as_sent(args, kwargs, options)
            done: AsyncResult = self.apply(
                args,
                kwargs,
                task_id=task_id or uuid(),
                link=link,
                link_error=link_error,
                **options,
            )
            return done
        options = {**self._get_exec_options(), **options}
        soft, hard = options.get("soft_time_limit"), options.get("time_limit")
        if soft and hard and soft > hard:
            raise ValueError("soft_time_limit must be less than or equal to time_limit")
        return app.send_task(
            self.name,
            args,
            kwargs,
            task_id=task_id,
            producer=producer,
            link=link,
            link_error=link_error,
            result_cls=self.AsyncResult,
            shadow=shadow or self.shadow_name(args, kwargs, options),
            task_type=self,
            **options,
        )

    def _dump_pydantic_arguments(
        self, args: Any, kwargs: Any, options: Mapping[str, Any]
    ) -> tuple[Any, Any]:
        """Models as plain values, unless the serializer can send them as they are."""
        serializer = options.get("serializer") or self.serializer
        if serializer in ("pickle", "application/x-python-serialize"):
            return args, kwargs
        dump = symbol_by_name("celery.app.validation:dump_arguments")
        sent: tuple[Any, Any] = dump(self.run, args, kwargs)
        return sent

    def _as_sent(self, args: Any, kwargs: Any, options: Mapping[str, Any]) -> tuple[Any, Any]:
        """Arguments as a worker would get them: what cannot be sent fails in eager mode too."""
        serializer = options.get("serializer") or self.serializer or "json"
        kind, encoding, data = dumps((args, kwargs), serializer)
        received = loads(data, kind, encoding, accept=[kind])
        return received[0], received[1]

    def _get_exec_options(self) -> dict[str, Any]:
        if self._exec_options is None:
            self._exec_options = {name: getattr(self, name, None) for name in EXEC_OPTIONS}
        return self._exec_options

    def shadow_name(self, args: Any, kwargs: Any, options: Any) -> str | None:
        """Another name for this call in logs; for subclasses."""
        return None

    def apply(
        self,
        args: Any = None,
        kwargs: Any = None,
        link: Any = None,
        link_error: Any = None,
        task_id: str | None = None,
        retries: int | None = None,
        throw: bool | None = None,
        logfile: str | None = None,
        loglevel: Any = None,
        headers: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """Run the task here and now; gives an `EagerResult`.

        ``throw`` raises what the task raises; unset, ``task_eager_propagates`` decides. A retry
        runs at once.
        """
        app = self._get_app()
        args, kwargs = args or (), kwargs or {}
        task_id = task_id or uuid()
        throw = app.either("task_eager_propagates", throw)
        request = eager_request(self, task_id, args, kwargs, options, _task_stack.top)
        request.update(
            retries=retries or 0,
            callbacks=_listed(link),
            errbacks=_listed(link_error),
            logfile=logfile,
            loglevel=loglevel or 0,
            **({} if headers is None else {"headers": copy(headers)}),
        )
        build_tracer = symbol_by_name("celery.app.trace:build_tracer")  # patched by libraries
        tracer = build_tracer(self.name, self, eager=True, propagate=throw, app=app)
        ended = tracer(task_id, args, kwargs, request)
        retval, traceback = ended.retval, None
        if isinstance(retval, ExceptionInfo):
            retval, traceback = retval.exception, retval.traceback
            if isinstance(retval, ExceptionWithTraceback):
                retval = retval.exc
        if isinstance(retval, Retry) and retval.sig is not None:
            return retval.sig.apply(retries=request["retries"] + 1)
        state = states.SUCCESS if ended.info is None else ended.info.state
        make: type[EagerResult] = symbol_by_name("celery.result:EagerResult")
        return make(task_id, retval, state, traceback=traceback, name=self.name)

    # -- running again -----------------------------------------------------------------------

    def retry(
        self,
        args: Any = None,
        kwargs: Any = None,
        exc: Any = None,
        throw: bool = True,
        eta: Any = None,
        countdown: float | None = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> Retry:
        """Run this task again, after ``countdown`` seconds (``default_retry_delay``) or at ``eta``.

        >>> raise self.retry(exc=error, countdown=10)

        Raises `Retry`, or returns it with ``throw=False``. After ``max_retries`` retries it
        raises ``exc``, or `MaxRetriesExceededError`; ``None`` in the task's ``max_retries`` means
        no end. ``args``, ``kwargs``, ``queue``, ``priority``, ``headers`` and ``expires`` replace
        those of this run. Called outside a worker it raises ``exc``.
        """
        request = self.request
        if request.called_directly:
            raise_from_handled(exc or Retry("Task can be retried", None))
        if max_retries is None:
            ceiling = self.max_retries
        else:
            ceiling = request.override_max_retries = max_retries
        if not eta and countdown is None:
            countdown = self.default_retry_delay
        retries = request.retries + 1
        signature = self.signature_from_request(
            request, args, kwargs, countdown=countdown, eta=eta, retries=retries, **options
        )
        if ceiling is not None and retries > ceiling:
            if exc:
                raise_from_handled(exc)
            raise self.MaxRetriesExceededError(
                f"Can't retry {self.name}[{request.id}] "
                f"args:{signature.args} kwargs:{signature.kwargs}",
                task_args=signature.args,
                task_kwargs=signature.kwargs,
            )
        signature.retry_changes = changes_of(args, kwargs, options)
        when = self.app.amqp.moment(eta) or countdown
        retry = Retry(exc=exc, when=when, is_eager=request.is_eager, sig=signature)
        if throw:
            raise retry
        pending = request.get("_pending_retry")
        if pending is not None:  # a worker looks there when the body has returned
            pending.append(retry)
        return retry

    def signature_from_request(
        self,
        request: Any = None,
        args: Any = None,
        kwargs: Any = None,
        queue: Any = None,
        **extra_options: Any,
    ) -> Signature:
        """A signature that runs the task as the current request does."""
        request = self.request if request is None else request
        return signature_of(self, request, args, kwargs, queue, extra_options)

    subtask_from_request = signature_from_request

    def replace(self, sig: Any, **options: Any) -> Any:
        """Let ``sig``, a task or a canvas, take this task's place: it gets its id and gives its
        result, and whatever waits for this task waits for that. Ends the task, at once.

        It is stored in the step that settles this task. ``visitor``, the only option, stamps it.
        """
        visitor = options.pop("visitor", None)
        if options:
            raise TypeError(f"replace() takes no {', '.join(options)}")
        sig = symbol_by_name("celery.app.replacing:replacement")(self, sig)
        if visitor is not None:
            sig.stamp(visitor=visitor)
        return self.on_replace(sig)

    def on_replace(self, sig: Any) -> Any:
        """Called by `replace` with what will run: the last chance to change it."""
        return symbol_by_name("celery.app.replacing:start_replacement")(self, sig)

    def add_to_chord(self, sig: Any, lazy: bool = False) -> Any:
        """Add a task or a canvas to the header of the chord that this task is in: the body gets
        its result too, at the end of the list. With ``lazy`` it is given back, not called.

        It is stored in the step that settles this task. Raises ``ValueError`` if there is no
        chord.
        """
        return symbol_by_name("celery.app.replacing:add_member")(self, sig, lazy=lazy)

    # -- results and signatures --------------------------------------------------------------

    def AsyncResult(self, task_id: str, **kwargs: Any) -> AsyncResult:  # noqa: N802  # Celery's name
        """The result of a run of this task."""
        result: AsyncResult = self._get_app().AsyncResult(
            task_id, backend=self.backend, task_name=self.name, **kwargs
        )
        return result

    def signature(self, args: Any = None, *starargs: Any, **starkwargs: Any) -> Signature:
        """A signature: ``signature(args, kwargs, **options)``."""
        starkwargs.setdefault("app", self.app)
        make: Callable[..., Signature] = symbol_by_name("celery.canvas:signature")
        return make(self, args, *starargs, **starkwargs)

    subtask = signature

    def s(self, *args: Any, **kwargs: Any) -> Signature:
        """A signature with these arguments."""
        return self.signature(args, kwargs)

    def si(self, *args: Any, **kwargs: Any) -> Signature:
        """A signature with these arguments, which takes no others: an immutable one."""
        return self.signature(args, kwargs, immutable=True)

    def map(self, it: Any) -> Signature:
        """A signature that calls this task with every item of ``it``, as one task."""
        made: Signature = symbol_by_name("celery.canvas:xmap")(self.s(), it, app=self.app)
        return made

    def starmap(self, it: Any) -> Signature:
        """`map` for items that are several arguments each."""
        made: Signature = symbol_by_name("celery.canvas:xstarmap")(self.s(), it, app=self.app)
        return made

    def chunks(self, it: Any, n: int) -> Signature:
        """A signature of a group of starmaps, of ``n`` items each."""
        made: Signature = symbol_by_name("celery.canvas:chunks")(self.s(), it, n, app=self.app)
        return made

    # -- as an object ------------------------------------------------------------------------

    @property
    def __name__(self) -> str:
        kind: type = type(self)
        return kind.__name__

    def __repr__(self) -> str:
        flags = ["v2 compatible"] if self.__v2_compat__ else None
        return _reprtask(self, SHOWN_BOUND if self.__bound__ else SHOWN_UNBOUND, flags)

    def start_strategy(self, app: Any, consumer: Any, **kwargs: Any) -> Any:
        """What ``Strategy`` gives: the function for the messages of this task."""
        return instantiate(self.Strategy, self, app, consumer, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle_task_v2, (self.name, type(self).__module__)


BaseTask = Task  # its name in old programs


class Header:
    """``task.__header__``: checks the arguments of a call. Made when it is first needed."""

    def __init__(self, function: Callable[..., Any], *, bound: bool) -> None:
        self.function = function
        self.bound = bound

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._check()(*args, **kwargs)

    def _check(self) -> Callable[..., Any]:
        has_self = self.bound or not inspect.isfunction(self.function)
        return head_from_fun(self.function, bound=has_self)

    def __get__(self, task: Any, owner: type) -> Callable[..., Any]:
        check = self._check()
        setattr(owner, "__header__", staticmethod(check))  # noqa: B010  # mangled otherwise
        return check


def _listed(value: Any) -> list[Any] | None:
    return value if value is None or isinstance(value, list) else [value]


def _reprtask(task: Any, fmt: str | None = None, flags: Iterable[str] | None = None) -> str:
    """A task, or a class of tasks, as text. ``fmt`` may use it as ``{0}``, ``{app}`` and
    ``{flags}``."""
    shown = appstr(task._app) if task._app is not None else "no app"
    noted = f" ({', '.join(flags)})" if flags else ""
    return (fmt or SHOWN_CLASS).format(task, app=shown, flags=noted)
