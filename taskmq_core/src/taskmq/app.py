"""The composition root: configuration, tasks, codecs, events and the transport of one program."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import cached_property, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from .aside import in_thread
from .backpressure import enqueue_or_wait
from .builtin import builtin_tasks
from .call import Call
from .clock import Clock, SystemClock
from .codec import Codec, CodecRegistry
from .config import Config
from .control import revoke_where, whoami
from .deadletters import DeadLetterBox
from .decorators import BoundTaskDecorator, TaskBase, TaskDecorator, task_of
from .demands import refuse_jobs, refuse_program, refuse_required
from .eager import EagerRunner, LeapingClock
from .envelope import Envelope, Sealed
from .errors import ConfigError, SoftTimeLimit, TransportError
from .events import Emitter, EventSink, JobSubmitted, JsonLinesSink
from .hooks import WorkerHook
from .patience import within
from .plugins import PREFIX, Plugins
from .records import JobFilter, JobRecord, PausedQueue
from .references import OFFLOADED
from .registry import Registry
from .result import Result
from .sealing import Sealer
from .tasks import INCLUDED, CoroutineTask, FunctionTask, Task
from .transport import Capabilities, Enqueued, TransactionalProducer, Transport

if TYPE_CHECKING:
    from .payloads import Offload, PayloadStore
    from .schedule import Schedule
    from .spool import Spool

__all__ = ["App", "task"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
AnyTask = TypeVar("AnyTask", bound=Task[..., Any])


class App:
    """One program's tasks and the store that they go through. There may be several.

    >>> app = App(Config(transport="sqlite:///jobs.db"))
    >>> @app.task(queue="email")
    ... def send(to: str) -> str: ...

    Nothing is opened before the first job is submitted or looked at. ``include`` names modules
    with tasks made by the app-less ``@task``; `load` imports them, which a worker does when it
    starts, and such a task finds this app when it is submitted. ``setup`` is called before that,
    once: for what those modules need, such as ``django.setup``. ``base`` is the base of functions
    that `task` makes tasks of, where that names none. ``transport`` is an open store to use instead
    of ``config.transport``, ``payloads`` a payload store instead of ``config.payload_store``.
    Without ``config``, the environment is read (`Config.from_env`). Raises `ConfigError`.
    """

    soft_limit_error: Callable[[str], Exception] = SoftTimeLimit
    """Makes what is raised in a task whose ``timeout`` is over, from a text. For a subclass whose
    tasks expect another exception."""

    def __init__(
        self,
        config: Config | None = None,
        *,
        include: Sequence[str] = (),
        setup: Callable[[], object] | None = None,
        base: TaskBase | None = None,
        transport: Transport | None = None,
        clock: Clock | None = None,
        payloads: PayloadStore | None = None,
    ) -> None:
        self.config = config or Config.from_env()
        self.clock: Clock = clock or SystemClock()
        self.tasks = Registry(builtin_tasks(self))
        self.plugins = Plugins()
        """What it has from outside: see `load_plugins`."""
        self.codecs = CodecRegistry(self.config.serializer, self.plugins.make_codec)
        self.emitter = Emitter()
        self.schedules: list[Schedule] = []
        """What is to run at which instants; see `schedule`."""
        self.hooks: list[WorkerHook] = []
        """Told of every worker of this app, before the worker's own hook."""
        self.dead_letters = DeadLetterBox(self)
        self._base = base
        self._setup = setup
        self._include = list(include)
        for module in self._include:
            INCLUDED.setdefault(module, self)
        self._transport = transport
        self._given = transport is not None
        self._opening = threading.Lock()
        self._no_transport = ""
        self.load_plugins(*self.config.plugins)
        self.offload = self._make_offload(payloads)
        """What puts large arguments and results into a payload store, if there is one."""
        self._sealer = Sealer(self.config, self.codecs, self.offload)
        self.spool = self._make_spool()
        """What keeps jobs on this host while the store cannot be reached, if there is one."""
        self._eager: EagerRunner | None = None
        if self.config.eager:
            if transport is not None:
                raise ConfigError("eager=True runs jobs in a store of its own: pass no transport=")
            self.clock = leaping = LeapingClock(self.clock)
            self._eager = EagerRunner(self, leaping)
        self._configured_sink: EventSink | None = None
        if transport is not None:
            refuse_required(self.config.require, self.store_name, transport.capabilities)
        self.write_events(self.config.events)

    def _make_offload(self, payloads: PayloadStore | None) -> Offload | None:
        url, above = self.config.payload_store, self.config.offload_above
        if payloads is None and url is None:
            if above is not None:
                raise ConfigError("offload_above needs a payload_store, e.g. file:///var/payloads")
            return None
        from . import payloads as module  # only where it is used

        def open_store() -> PayloadStore:
            return payloads or module.open_payload_store(str(url), self.plugins)

        offload = module.Offload(open_store, above)
        self.codecs.fetch = offload.fetch_result
        return offload

    def _make_spool(self) -> Spool | None:
        path = self.config.spool
        if path is None or self.config.eager:
            return None
        from . import spool as module  # only where it is used

        def send(sealed: Sequence[Sealed]) -> None:
            with within(self.config.publish_timeout):
                self.transport.enqueue(sealed)

        return module.Spool(path, send)

    # -- defining tasks ----------------------------------------------------------------------

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> CoroutineTask[P, R]: ...

    @overload
    def task(self, function: Callable[P, R], /) -> FunctionTask[P, R]: ...

    @overload
    def task(
        self,
        *,
        bind: Literal[False] = False,
        name: str | None = None,
        base: TaskBase | None = None,
        **policy: Any,
    ) -> TaskDecorator: ...

    @overload
    def task(
        self,
        *,
        bind: Literal[True],
        name: str | None = None,
        base: TaskBase | None = None,
        **policy: Any,
    ) -> BoundTaskDecorator: ...

    def task(
        self,
        function: Any = None,
        *,
        bind: bool = False,
        name: str | None = None,
        base: TaskBase | None = None,
        **policy: Any,
    ) -> Any:
        """Make a function a task of this app: ``@app.task`` or ``@app.task(queue="email")``.

        ``policy`` is what `TaskPolicy` takes. With ``bind=True`` the function gets the task
        itself as first argument (``self.request`` is the `TaskContext`). ``base`` is a subclass
        of `Task` whose hooks, policy and ``run`` hold for the function, too: see there. Raises
        `ConfigError` for an unknown option or a name that is taken.
        """

        def register(body: Callable[..., Any]) -> FunctionTask[..., Any]:
            kind = base or self._base
            made = task_of(body, name=name, options=policy, bind=bind, base=kind)
            return self.register(made)

        return register if function is None else register(function)

    @overload
    def register(self, task: type[AnyTask]) -> AnyTask: ...

    @overload
    def register(self, task: AnyTask) -> AnyTask: ...

    def register(self, task: Any) -> Any:
        """Add a task, or a `Task` subclass (which is instantiated); gives the task back."""
        made: Any = task() if isinstance(task, type) else task
        if not isinstance(made, Task):
            raise ConfigError(f"{task!r} is no task: use @app.task or subclass taskmq.Task")
        if not hasattr(made, "policy"):
            raise ConfigError(f"{type(made).__name__}.__init__ must call super().__init__()")
        if made.is_free_for(self):
            self.tasks.add(made)
        made.bind(self)
        return made

    def include(self, *modules: str | ModuleType) -> None:
        """Import modules and register every app-less ``@task`` found in their namespace.

        A task belongs to the first app that includes it. Raises `ConfigError` for a module that
        does not exist; an exception of the module itself is not touched.
        """
        for named in modules:
            module = _import(named) if isinstance(named, str) else named
            for value in list(vars(module).values()):
                if isinstance(value, Task) and value.is_free_for(self):
                    self.register(value)

    def discover(self, package: str) -> None:
        """`include` a package and every module below it."""
        root = _import(package)
        self.include(root)
        for found in pkgutil.walk_packages(getattr(root, "__path__", ()), f"{package}."):
            self.include(found.name)

    def load(self) -> None:
        """Import the modules given as ``include=``, once, after ``setup``, and find the codecs that
        tasks name. A worker calls it when it starts. Raises `ConfigError`."""
        if self._setup is not None:
            self._setup()
            self._setup = None
        self.include(*self._include)
        self._include = []  # only now: after a failure the next call fails as well
        for task in self.tasks:
            if task.policy.codec is not None:
                self.codecs.want(task.policy.codec)

    def queues(self) -> tuple[str, ...]:
        """Every queue that the app knows of: the default one, the declared, those of its tasks."""
        self.load()
        named = (task.policy.queue for task in self.tasks if task.policy.queue)
        return tuple(dict.fromkeys((self.config.default_queue, *self.config.queues, *named)))

    def register_codec(
        self,
        kind: type[T],
        *,
        encode: Callable[[T], Any],
        decode: Callable[[Any], T],
        name: str | None = None,
    ) -> None:
        """Let values of a type of your own travel in arguments and results.

        >>> app.register_codec(Money, encode=Money.to_dict, decode=Money.from_dict)
        """
        self.codecs.register_type(kind, encode=encode, decode=decode, name=name)

    def add_codec(self, codec: Codec) -> None:
        """Add a whole serialization format, chosen per task or call by its name."""
        self.codecs.register(codec)

    def add_sink(self, sink: EventSink) -> None:
        """Send this app's events to ``sink``, beside the others."""
        self.emitter.add(sink)

    def add_hook(self, hook: WorkerHook) -> None:
        """Tell ``hook`` of every worker that runs this app's jobs, and of its children."""
        self.hooks.append(hook)

    def load_plugins(self, *modules: str | ModuleType) -> None:
        """Load plugins that are not installed as such, once for each: modules that have a
        ``register(plugins)``, or their names. Raises `ConfigError`.

        >>> app.load_plugins("mycompany.queues")
        """
        self.plugins.load(*modules)

    def write_events(self, where: str) -> None:
        """Write events as JSON lines to ``stdout`` or ``stderr`` from now on, or tell the sink
        ``plugin:NAME`` of them, instead of what ``config.events`` said; or ``none``."""
        if self._configured_sink is not None:
            self.emitter.remove(self._configured_sink)
            self._configured_sink = None
        if where == "none":
            return
        if where.startswith(PREFIX):
            self._configured_sink = self.plugins.make_sink(where)
        else:
            self._configured_sink = JsonLinesSink(getattr(sys, where))
        self.add_sink(self._configured_sink)

    # -- schedules ---------------------------------------------------------------------------

    def schedule(self, *schedules: Schedule) -> None:
        """Run tasks when they are due, wherever a worker or ``taskmq beat`` runs. Raises
        `ConfigError` for a name that is taken.

        >>> app.schedule(cron("shop.report", "0 9 * * *"), every("shop.clean_up", seconds=300))
        """
        names = {schedule.name for schedule in self.schedules}
        for schedule in schedules:
            if schedule.name in names:
                raise ConfigError(
                    f"there are two schedules {schedule.name!r}: give one of them another name="
                )
            names.add(schedule.name)
            self.schedules.append(schedule)

    # -- submitting --------------------------------------------------------------------------

    def submit(self, call: Call[R], *, connection: object | None = None) -> Result[R]:
        """Store one job; see `Task.submit`."""
        now = self.clock.now()
        sealed = (self._sealer.seal(call, now),)
        (stored,) = self._store(sealed, now, connection)
        return Result(self, stored.job_id, task=call.task, created=stored.created)

    def submit_many(
        self, calls: Sequence[Call[R]], *, connection: object | None = None
    ) -> list[Result[R]]:
        """Store jobs of any tasks of this app, all or none, in order, in one round trip; with a
        ``connection`` as part of the transaction that is open there."""
        now = self.clock.now()
        stored = self._store(self._sealer.seal_many(calls, now), now, connection)
        return [
            Result(self, one.job_id, call.task, one.created)  # by place: half of the time
            for one, call in zip(stored, calls, strict=True)
        ]

    def _store(
        self, sealed: Sequence[Sealed], now: float, connection: object | None
    ) -> Sequence[Enqueued]:
        transport, config = self.transport, self.config
        refuse_jobs(sealed, self.store_name, transport.capabilities)
        if self._eager is not None:
            stored = transport.enqueue(sealed)  # nobody else would make room
        elif connection is not None:
            stored = self._enqueue_within(sealed, connection)
        else:
            timeout = config.publish_timeout
            store = partial(
                enqueue_or_wait, transport, sealed, config.queues, publish_timeout=timeout
            )
            stored = store() if self.spool is None else self.spool.submit(sealed, store)
        if self.offload is not None:
            self._discard_unused(self.offload, sealed, stored)
        if self.emitter.active:
            self._report(sealed, stored, now)
        if self._eager is not None:
            self._eager.run(transport)
        return stored

    def _enqueue_within(self, sealed: Sequence[Sealed], connection: object) -> list[Enqueued]:
        store = self.transport
        if not store.capabilities.transactional or not isinstance(store, TransactionalProducer):
            raise ConfigError(
                f"connection= needs a store in a database (sqlite://, postgresql://): "
                f"{self.store_name} cannot store jobs within a transaction of yours"
            )
        return store.enqueue_within(sealed, connection)

    def _discard_unused(
        self, offload: Offload, sealed: Sequence[Sealed], stored: Sequence[Enqueued]
    ) -> None:
        """The payloads of jobs whose key stood for another one."""
        for one, known in zip(sealed, stored, strict=True):
            if known.job_id != one.envelope.id and one.envelope.codec == OFFLOADED:
                offload.discard(one.envelope)

    async def asubmit(self, call: Call[R]) -> Result[R]:
        """`submit` for asyncio callers, through a thread."""
        return await in_thread(self.submit, call)

    async def asubmit_many(self, calls: Sequence[Call[R]]) -> list[Result[R]]:
        """`submit_many` for asyncio callers, through a thread."""
        return await in_thread(self.submit_many, calls)

    def result(self, job_id: str) -> Result[Any]:
        """The handle of a job that was submitted elsewhere."""
        return Result(self, job_id)

    def prepared(self, call: Call[R]) -> Call[R]:
        """The same call, from which many are made that differ in ``id``, ``args`` and ``kwargs``
        alone (by ``msgspec.structs.replace``): what these have in common is worked out, if it
        depends neither on the time nor on the arguments. Raises `ConfigError`."""
        return self._sealer.prepared(call, self.clock.now())

    def seal(self, call: Call[Any], now: float) -> Sealed:
        """See `taskmq.sealing.Sealer.seal`."""
        return self._sealer.seal(call, now)

    def seal_many(self, calls: Sequence[Call[Any]], now: float) -> list[Sealed]:
        """See `taskmq.sealing.Sealer.seal_many`."""
        return self._sealer.seal_many(calls, now)

    def seal_envelope(self, envelope: Envelope) -> Sealed:
        """See `taskmq.sealing.Sealer.seal_envelope`."""
        return self._sealer.seal_envelope(envelope)

    def fetch(self, envelope: Envelope) -> Envelope:
        """See `taskmq.sealing.Sealer.fetch`."""
        return self._sealer.fetch(envelope)

    def arguments_of(self, envelope: Envelope) -> tuple[list[Any], dict[str, Any]]:
        """See `taskmq.sealing.Sealer.arguments_of`."""
        return self._sealer.arguments_of(envelope)

    # -- control -----------------------------------------------------------------------------

    def pause(self, queue: str, *, reason: str = "") -> bool:
        """Let no worker take jobs from a queue, until `resume`; false if it is paused already.

        It is stored, with ``user@host`` and the time: workers that start later wait as well.
        What runs goes on, and so does what workers hold already; jobs can be submitted.

        >>> app.pause("email", reason="the provider is down")
        True
        """
        if not queue:
            raise ConfigError("which queue? its name is empty")
        return self.transport.pause(queue, by=whoami(), reason=reason)

    def resume(self, queue: str) -> bool:
        """End a pause; waiting workers take jobs at once. False if the queue is not paused."""
        return self.transport.resume(queue)

    def paused(self) -> list[PausedQueue]:
        """Every paused queue, by name: who, since when, why."""
        return self.transport.paused()

    def revoke(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        key: str | None = None,
        workflow: str | None = None,
        terminate: bool = False,
        by: str | None = None,
    ) -> int:
        """Take out every unfinished job that matches all of these; how many there were.

        What has not started never will (jobs that depend on it are skipped, and not counted);
        what runs is asked to stop, or with ``terminate`` ended by force where the pool can do so.
        In batches: each is atomic, the whole is not. Raises `ConfigError` if nothing is given.
        ``by`` says to people who wanted it; ``user@host`` unless given. For single jobs:
        `Result.revoke`.

        >>> app.revoke(task="shop.send", queue="email")
        1204
        """
        wanted = JobFilter(task=task, queue=queue, key=key, workflow=workflow)
        author = whoami() if by is None else by
        return revoke_where(self.transport, wanted, terminate=terminate, by=author)

    def revoked(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        key: str | None = None,
        workflow: str | None = None,
        limit: int = 100,
    ) -> list[JobRecord]:
        """Jobs that somebody revoked and that match all of these, oldest first: ``revoked_by``
        says who, ``revoked_at`` when, ``state`` whether they have ended. They are known for as
        long as any finished job (``result_ttl``)."""
        wanted = JobFilter(
            task=task, queue=queue, key=key, workflow=workflow, revoked=True, limit=limit
        )
        return self.transport.find(wanted)

    # -- the store ---------------------------------------------------------------------------

    @property
    def transport(self) -> Transport:
        """The store, opened on first use. Raises `ConfigError` or `TransportError`."""
        if self._no_transport:
            raise TransportError(self._no_transport)
        if self._transport is None:
            with self._opening:  # two threads must not end up with two stores
                if self._transport is None:
                    self._transport = self._open()
        return self._transport

    def _open(self) -> Transport:
        if self._eager is not None:
            return self._eager.open()
        transport = self.plugins.open_transport(self.config.transport, clock=self.clock)
        try:
            refuse_required(self.config.require, self.store_name, transport.capabilities)
        except ConfigError:
            transport.close()
            raise
        return transport

    @property
    def capabilities(self) -> Capabilities | None:
        """What its store can do; ``None`` in a child process that has no access to it."""
        return None if self._no_transport else self.transport.capabilities

    @cached_property
    def store_name(self) -> str:
        """What to call its store in a message: the scheme of its URL, for a URL may have a
        password, or the class of a transport that was given."""
        if self._eager is not None:
            return "memory:// (eager)"
        if self._given:
            return type(self._transport).__name__
        return self.config.transport.partition("://")[0] + "://"

    def check_needs(self) -> None:
        """See that the store can do what the app's tasks and queues need, and that there is a
        payload store where one is configured. A worker calls it when it starts; jobs are checked
        when they are submitted. Raises `ConfigError`, and `TransportError` if the store cannot be
        opened."""
        if self.offload is not None:
            _ = self.offload.store
        has = self.transport.capabilities
        refuse_program(self.tasks, self.config.queues, self.store_name, has)

    def deny_transport(self, reason: str) -> None:
        """Let every use of the store raise a `TransportError` with ``reason``: in a child process
        that has no access to the store of its parent."""
        self._no_transport = reason

    def run_eagerly(self, job_id: str) -> bool:
        """In eager mode, run jobs until that one is finished or none is left; otherwise do
        nothing. Whether this app is eager, so that nobody else would run it."""
        if self._eager is None:
            return False
        self._eager.finish(self.transport, job_id)
        return True

    def close(self) -> None:
        """Close the store; the next use opens it again. What was in memory is gone."""
        if self.spool is not None:
            self.spool.close()
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def __enter__(self) -> App:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _report(self, sealed: Iterable[Sealed], stored: Iterable[Enqueued], now: float) -> None:
        self.emitter.emit(
            *(
                JobSubmitted(
                    at=now,
                    job_id=known.job_id,
                    task=one.envelope.task,
                    queue=one.envelope.queue,
                    trace=one.envelope.trace,
                    key=one.envelope.key,
                    created=known.created,
                )
                for one, known in zip(sealed, stored, strict=True)
            )
        )


@overload
def task(function: Callable[P, Coroutine[Any, Any, R]], /) -> CoroutineTask[P, R]: ...


@overload
def task(function: Callable[P, R], /) -> FunctionTask[P, R]: ...


@overload
def task(
    *,
    bind: Literal[False] = False,
    name: str | None = None,
    base: TaskBase | None = None,
    **policy: Any,
) -> TaskDecorator: ...


@overload
def task(
    *,
    bind: Literal[True],
    name: str | None = None,
    base: TaskBase | None = None,
    **policy: Any,
) -> BoundTaskDecorator: ...


def task(
    function: Any = None,
    *,
    bind: bool = False,
    name: str | None = None,
    base: TaskBase | None = None,
    **policy: Any,
) -> Any:
    """A task without an app: an app takes it in when it includes the module.

    >>> @task(queue="email")
    ... def send(to: str) -> str: ...
    >>> app = App(include=["myapp.tasks"])
    """

    def make(body: Callable[..., Any]) -> FunctionTask[..., Any]:
        return task_of(body, name=name, options=policy, bind=bind, base=base)

    return make if function is None else make(function)


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"cannot include {name!r}: there is no module {error.name!r}"
            ) from None
        raise
