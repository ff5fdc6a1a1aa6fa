"""Tasks: a callable, its name and its policy, as a typed handle.

    @app.task(queue="email", retry=Retry(max_attempts=5))
    def send(to: str) -> str: ...

    class Send(Task[[str], str]):        # the same as a class, with lifecycle hooks
        queue = "email"
        def run(self, to: str) -> str: ...

``P`` are the task's parameters and ``R`` what it returns: ``send.delay(3)`` is an error for a
type checker and ``send.delay("x").get()`` is a ``str``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    ParamSpec,
    TypeVar,
)
from weakref import WeakValueDictionary

from .aside import in_thread
from .call import NO_OPTIONS, Call, Options, When
from .context import TaskContext, current_task
from .conversion import ArgumentConverter, argument_converter, result_type
from .errors import ConfigError, TaskNotBound
from .flow import Rules, rules_of
from .policy import TaskPolicy

if TYPE_CHECKING:
    from .app import App
    from .envelope import AckPolicy
    from .limits import Rate, RateScope
    from .result import Result
    from .retry import Retry
    from .states import JobState

__all__ = [
    "CoroutineTask",
    "FunctionTask",
    "Task",
    "task_name",
]

P = ParamSpec("P")
R = TypeVar("R")

POLICY = tuple(TaskPolicy.__dataclass_fields__)
NONE_GIVEN = (None,) * 7
INCLUDED: WeakValueDictionary[str, App] = WeakValueDictionary()
"""Modules that an app was made with, and that app: the first, as for the tasks themselves."""
HOOKS = ("before_start", "on_success", "on_failure", "on_retry", "on_lost", "after_return")


class Task(Generic[P, R]):
    """A task. Subclass it and write ``run``, or let ``@app.task`` make one from a function.

    A subclass may also be the base of functions: ``@app.task(base=Reporting)``. Its hooks and its
    policy become theirs, and a ``run`` that it has is around each of them: it calls
    ``super().run(*args, **kwargs)``.

    One instance serves every job of its task in a process, from several threads at once: keep
    per-job state in local variables or in ``self.request``.

    A hook's exception is logged and changes nothing, except that ``before_start`` raising fails
    the attempt. Order: before_start, run, then one of on_success, on_retry, on_failure, then
    after_return.
    """

    name: str = ""
    queue: ClassVar[str | None] = None
    priority: ClassVar[int] = 0
    retry: ClassVar[Retry | None] = None
    timeout: ClassVar[float | None] = None
    hard_timeout: ClassVar[float | None] = None
    ack: ClassVar[AckPolicy] = "on_success"
    expires: ClassVar[float | None] = None
    max_deliveries: ClassVar[int] = 5
    store_result: ClassVar[bool | None] = None
    result_ttl: ClassVar[float | None] = None
    codec: ClassVar[str | None] = None
    rate_limit: ClassVar[str | Rate | None] = None
    rate_scope: ClassVar[RateScope] = "fleet"
    rate_key: ClassVar[str | None] = None
    concurrency_key: ClassVar[str | None] = None
    concurrency_limit: ClassVar[int | None] = None
    fair_key: ClassVar[str | None] = None
    dedup: ClassVar[str | None] = None
    dedup_ttl: ClassVar[float | None] = None

    def __init__(self) -> None:
        if not self.name:
            self.name = task_name(type(self))
        self.policy = TaskPolicy(**{name: getattr(self, name) for name in POLICY})
        self._app: App | None = None

    # -- what a subclass writes ------------------------------------------------------------

    def run(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The task's body."""
        raise NotImplementedError(f"{type(self).__name__} must define run()")

    def before_start(self, ctx: TaskContext) -> None:
        """Before the body, in the same thread."""

    def on_success(self, ctx: TaskContext, result: R) -> None:
        """After the body returned, before that is stored."""

    def on_failure(self, ctx: TaskContext, error: BaseException) -> None:
        """After the last attempt failed, before the job goes to the dead letters."""

    def on_retry(self, ctx: TaskContext, error: BaseException | None) -> None:
        """After an attempt failed that will be repeated; ``None`` if the task asked for it without
        naming an error."""

    def on_lost(self, ctx: TaskContext, error: BaseException) -> None:
        """After the process that ran it died, in the worker's; ``error`` is a `WorkerLost`. The job
        runs again, unless this was once too often: then `on_failure` comes, too."""

    def after_return(self, ctx: TaskContext, state: JobState) -> None:
        """Last of all, whatever happened; ``state`` is what will be stored."""

    # -- calling ---------------------------------------------------------------------------

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the body here and now, as a plain function."""
        return self.body(*args, **kwargs)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """A request that is not stored yet; see `Call`. Raises ``TypeError`` for arguments that
        do not fit."""
        self.check(args, kwargs)
        return Call(self, args, kwargs)

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> Result[R]:
        """Submit with the task's own policy.

        >>> send.delay("a@b.com").get(timeout=10)
        """
        return self.app.submit(self.call(*args, **kwargs))

    async def adelay(self, *args: P.args, **kwargs: P.kwargs) -> Result[R]:
        """`delay` for asyncio callers, through a thread."""
        return await self.app.asubmit(self.call(*args, **kwargs))

    def submit(
        self,
        *args: Any,
        queue: str | None = None,
        eta: When | None = None,
        expires: When | None = None,
        timeout: float | None = None,
        priority: int | None = None,
        key: str | None = None,
        headers: dict[str, Any] | None = None,
        connection: object | None = None,
        **kwargs: Any,
    ) -> Result[R]:
        """Store a job and return its handle; durable on return where the store is.

        ``eta`` and ``expires`` are seconds from now or aware datetimes, ``priority`` is -9..9,
        ``key`` makes the call idempotent. A job whose ``expires`` has passed is stored and ends as
        EXPIRED; an ``eta`` that has passed means now.

        With a ``connection`` (of psycopg, sqlite3, SQLAlchemy or Django) to the database that the
        store is in, the job is part of the transaction that is open there: it runs once that is
        committed, and never was if it is rolled back.

        A task whose own parameter bears one of these names is called as
        ``task.call(...).options(...).submit()``, which also type-checks its arguments.

        Raises ``TypeError`` (arguments do not fit), `ConfigError` (a bad option),
        `EncodeError`, `MessageTooLarge`, `IdempotencyConflict`, `TransportError`; nothing was
        stored then.
        """
        arity = self._arity
        if kwargs or arity is None or not arity[0] <= len(args) <= arity[1]:
            self.check(args, kwargs)
        given = (queue, eta, expires, timeout, priority, key, headers)
        options = NO_OPTIONS
        if given != NONE_GIVEN:
            options = Options(
                queue=queue,
                eta=eta,
                expires=expires,
                timeout=timeout,
                priority=priority,
                key=key,
                headers=headers,
            )
        return self.app.submit(Call(self, args, kwargs, options), connection=connection)

    async def asubmit(self, *args: Any, **kwargs: Any) -> Result[R]:
        """`submit` for asyncio callers, through a thread; takes the same arguments."""
        return await in_thread(self.submit, *args, **kwargs)

    def submit_many(
        self,
        calls: Iterable[Call[R] | Sequence[Any]],
        *,
        connection: object | None = None,
        **options: Any,
    ) -> list[Result[R]]:
        """Store many jobs, all or none, in order, in one round trip.

        Each of ``calls`` is a tuple of positional arguments or a `Call`; ``options`` hold for
        those given as tuples. ``connection`` as in `submit`.

        >>> send.submit_many([("a@b.com",), ("c@d.com",)], queue="email")
        """
        shared = Options.of(options) if options else NO_OPTIONS
        least, most = self._arity or (1, 0)
        made = []
        for given in calls:
            if isinstance(given, Call):
                made.append(given)
                continue
            args = tuple(given)
            if not least <= len(args) <= most:
                self.check(args, {})
            made.append(Call(self, args, {}, shared))
        return self.app.submit_many(made, connection=connection)

    # -- binding and introspection ---------------------------------------------------------

    @property
    def app(self) -> App:
        """The app this task belongs to. A task of a module that an app was made with (``include=``)
        finds that app by itself. Raises `TaskNotBound` before it was registered."""
        if self._app is None:
            module = getattr(self, "__wrapped__", type(self)).__module__
            including = INCLUDED.get(module)
            if including is not None:
                including.include(module)
        if self._app is None:
            raise TaskNotBound(
                f"task {self.name!r} belongs to no app yet: pass its module in App(include=[...]) "
                "or call app.register(task)"
            )
        return self._app

    @property
    def request(self) -> TaskContext:
        """The context of the job that runs in this thread."""
        return current_task()

    def bind(self, app: App) -> None:
        """Called by the app when the task is registered."""
        if not self.is_free_for(app):
            raise ConfigError(f"task {self.name!r} belongs to another app already")
        _ = self.flow  # which raises if it does not fit the signature
        self._app = app

    def is_free_for(self, app: App) -> bool:
        """Whether the task belongs to ``app`` already, or to none."""
        return self._app is None or self._app is app

    @cached_property
    def body(self) -> Callable[..., R]:
        """What the executor calls."""
        return self.run

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The function whose signature and annotations describe the task's arguments."""
        return self.run

    @cached_property
    def signature(self) -> inspect.Signature:
        """What the body takes; anything, for a built-in function that does not say."""
        try:
            return inspect.signature(self.function)
        except ValueError:
            return inspect.signature(lambda *args, **kwargs: None)

    @cached_property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    @cached_property
    def hooks(self) -> frozenset[str]:
        """The lifecycle hooks that this task overrides."""
        return frozenset(h for h in HOOKS if getattr(type(self), h) is not getattr(Task, h))

    @cached_property
    def converter(self) -> ArgumentConverter | None:
        return argument_converter(self.function)

    @cached_property
    def result_type(self) -> Any | None:
        return result_type(self.function)

    @cached_property
    def flow(self) -> Rules | None:
        """Its limits and turns, if it has any."""
        return rules_of(self.name, self.policy, self.signature)

    @cached_property
    def _arity(self) -> tuple[int, int] | None:
        """(least, most) positional arguments of a call without keywords, if that decides it."""
        least = most = 0
        for parameter in self.signature.parameters.values():
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                most += 1
                least += parameter.default is parameter.empty
            elif parameter.kind is parameter.VAR_POSITIONAL:
                most = sys.maxsize
            elif parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
                return None
        return least, most

    def check(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Raises ``TypeError`` if the body cannot be called like this."""
        if not kwargs and self._arity and self._arity[0] <= len(args) <= self._arity[1]:
            return
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}{self.signature}: {error}") from None

    def __repr__(self) -> str:
        return f"<task {self.name}>"


class FunctionTask(Task[P, R]):
    """A task made from a function. With ``bind`` the function gets the task as first argument."""

    def __init__(
        self,
        function: Callable[..., R],
        *,
        name: str | None = None,
        policy: TaskPolicy | None = None,
        bind: bool = False,
    ) -> None:
        given: object = function
        if not callable(given) or isinstance(given, Task):
            raise ConfigError(f"@task wants a function, got {given!r}")
        self.name = name or task_name(function)
        self.policy = policy or TaskPolicy()
        vars(self).update({name: getattr(self.policy, name) for name in POLICY})
        self._app = None
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        # Shadow the cached properties: for a function they are known now.
        self.body = self.function = partial(function, self) if bind else function
        if type(self).run not in (FunctionTask.run, CoroutineTask.run):
            self.body = self.run  # that of a base class, which is around the function
        if bind and not list(inspect.signature(function).parameters):
            raise ConfigError(f"task {self.name!r}: bind=True wants a first parameter (self)")

    def run(self, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self.function(*args, **kwargs)
        return result

    @cached_property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.__wrapped__)

    @cached_property
    def converter(self) -> ArgumentConverter | None:
        return argument_converter(self.__wrapped__, bound=self.function is not self.__wrapped__)

    @cached_property
    def result_type(self) -> Any | None:
        return result_type(self.__wrapped__)


class CoroutineTask(FunctionTask[P, R]):
    """A task made from an ``async def`` function. Its result is what comes out when that is
    awaited; a call in Python gives the coroutine, as the function itself does.

    >>> await fetch(url), fetch.delay(url).get()
    """

    def __call__(  # type: ignore[override]  # R is the job's result
        self, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]:
        body: Callable[..., Any] = self.body
        coroutine: Coroutine[Any, Any, R] = body(*args, **kwargs)
        return coroutine

    def run(  # type: ignore[override]  # as above
        self, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]:
        coroutine: Coroutine[Any, Any, R] = self.function(*args, **kwargs)
        return coroutine


def task_name(target: Callable[..., Any]) -> str:
    """``module.qualified_name``; a script run as ``__main__`` counts as the module of its file,
    so that producer and worker agree. Raises `ConfigError` for a callable without a name."""
    if not hasattr(target, "__qualname__"):
        raise ConfigError(f"{target!r} has no name of its own: pass name=")
    module = target.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        module = spec.name if spec else Path(file).stem if file else module
        module = module.removesuffix(".__main__")
    return f"{module}.{target.__qualname__.replace('.<locals>', '')}"
