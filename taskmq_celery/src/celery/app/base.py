"""The Celery application."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, tzinfo
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID, uuid5

from kombu.clocks import LamportClock
from kombu.utils.imports import symbol_by_name
from kombu.utils.uuid import uuid

from celery._state import (
    _deregister_app,
    _register_app,
    _set_current_app,
    connect_on_app_finalize,
    get_current_task,
    get_current_worker_task,
    set_default_app,
)
from celery.exceptions import AlwaysEagerIgnored
from celery.local import PromiseProxy, Subscriptable
from celery.utils.dispatch import Signal
from celery.utils.time import timezone, to_utc

from . import builtins  # noqa: F401  # the tasks of every app
from .configuration import Configured
from .connections import Connected
from .declared import Declared
from .utils import DEPRECATED, Settings, appstr

if TYPE_CHECKING:
    from celery.backends.base import Backend
    from celery.canvas import Signature
    from celery.result import AsyncResult

    from . import task as tasks_module

__all__ = ("Celery",)

logger = logging.getLogger(__name__)

DJANGO_FIXUP = "celery.fixups.django:fixup"


class Celery(Configured, Connected, Declared, Subscriptable):
    """An application: its configuration, its tasks, and how to call and run them.

    >>> app = Celery("proj", broker="sqlite:///jobs.db", backend="rpc://", include=["proj.tasks"])
    >>> @app.task(bind=True, autoretry_for=(OSError,), retry_backoff=True)
    ... def fetch(self, url): ...

    Every setting may be given as a keyword argument. Tasks are made when the app is finalized,
    which happens when they are first needed; with ``autofinalize=False`` using them before
    ``finalize()`` is a ``RuntimeError``.
    """

    backend_cls: Any = None
    control_cls: Any = "celery.app.control:Control"
    events_cls: Any = "celery.app.events:Events"
    loader_cls: Any = None
    log_cls = "celery.app.log:Logging"
    Pickler: Any
    """What makes it again from ``__reduce_v1__``."""

    use_fast_trace_task = False
    """Whether `Request.execute_using_pool` takes the app of the process, not of the message."""

    builtin_fixups: ClassVar[set[str]] = {DJANGO_FIXUP}

    def __init__(  # Celery's signature
        self,
        main: str | None = None,
        loader: Any = None,
        backend: Any = None,
        amqp: Any = None,
        events: Any = None,
        log: Any = None,
        control: Any = None,
        set_as_current: bool = True,
        tasks: Any = None,
        broker: str | None = None,
        include: Iterable[str] | None = None,
        changes: dict[str, Any] | None = None,
        config_source: Any = None,
        fixups: Iterable[str] | None = None,
        task_cls: Any = None,
        autofinalize: bool = True,
        namespace: str | None = None,
        strict_typing: bool = True,
        config_source_silent: bool = False,
        **kwargs: Any,
    ) -> None:
        self.main = main
        self.amqp_cls = amqp or self.amqp_cls
        self.events_cls = events or self.events_cls
        self.loader_cls = loader or self._default_loader()
        self.log_cls = log or self.log_cls
        self.control_cls = control or self.control_cls
        self._custom_task_cls_used = bool(task_cls)
        self.task_cls = task_cls or self.task_cls
        self.set_as_current = set_as_current
        self.autofinalize = autofinalize
        self.strict_typing = strict_typing
        self.clock = LamportClock()
        self.configured = False
        self.finalized = False
        self.user_options: defaultdict[str, set[Any]] = defaultdict(set)
        self.steps: defaultdict[str, set[Any]] = defaultdict(set)
        self.fixups = set(self.builtin_fixups if fixups is None else fixups)
        self._config_source = config_source
        self._config_source_silent = config_source_silent
        self._finalize_mutex = threading.RLock()
        self._pending: deque[PromiseProxy] = deque()
        self._discoveries: list[Callable[[], None]] = []
        self._tasks = self._registry(tasks)
        self._engine: Any = None
        self._eventers: dict[str, Any] = {}  # what tells of the tasks of a worker, by its name
        self._timezone: tzinfo | None = None
        self._pool = None
        self._backend: Any = None
        self._backends, self._shared_backend = threading.local(), SimpleNamespace()
        given = {"broker_url": broker, "result_backend": backend, "include": include}
        written = {name: value for name, value in given.items() if value is not None}
        self._written = {**(changes or {}), **written}
        self._namespace = namespace
        self.conf.update(kwargs)

        if not hasattr(type(self), "on_configure"):  # it was a method once, which programs replace
            self.on_configure = Signal(name="app.on_configure")
        self.on_after_configure = Signal(name="app.on_after_configure", providing_args={"source"})
        self.on_after_finalize = Signal(name="app.on_after_finalize")
        self.on_after_fork = Signal(name="app.on_after_fork")
        self._fixups = self._install_fixups()
        if self.set_as_current:
            self.set_current()
        self.on_init()
        _register_app(self)

    @cached_property
    def conf(self) -> Settings:  # type: ignore[override]  # a part of the app only names it
        """The configuration, whose source is read when a setting is first needed."""
        return Settings.reading(
            self._load_config,
            self._written,
            namespace=self._namespace,
            loaded=self._config_loaded,
            changed=self._config_changed,
        )

    def _install_fixups(self) -> list[Any]:
        if self.fixups == {DJANGO_FIXUP} and not os.environ.get("DJANGO_SETTINGS_MODULE"):
            return []  # without importing it
        return [found for found in (symbol_by_name(each)(self) for each in self.fixups) if found]

    def on_init(self) -> None:
        """Called at the end of ``__init__``; for subclasses."""

    def _default_loader(self) -> Any:
        return os.environ.get("CELERY_LOADER") or self.loader_cls or "celery.loaders.app:AppLoader"

    # -- this app among others ---------------------------------------------------------------

    def set_current(self) -> None:
        """Make this the current app of the thread."""
        _set_current_app(self)

    def set_default(self) -> None:
        """Make this the app of every thread that has no current app of its own."""
        set_default_app(self)

    def close(self) -> None:
        """Release the connections to store and broker; the next use opens them again."""
        if self._engine is not None:
            symbol_by_name("taskmq_celery.engine:close_engine")(self)
        self._close_pool()
        backend = vars(self._backends).pop("backend", None)
        if backend is not None:
            vars(self._backends).clear()
            getattr(backend, "close", bool)()  # third parties need not have it
        _deregister_app(self)

    def __enter__(self) -> Celery:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {appstr(self)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle_app_v2, (type(self), self.__reduce_keys__())

    def __reduce_v1__(self) -> tuple[Any, ...]:
        """How it was pickled before Celery 3.1: `Pickler` makes it again."""
        return _unpickle_app, (type(self), self.Pickler, *self.__reduce_args__())

    def __reduce_keys__(self) -> dict[str, Any]:
        """What a pickled app is made from: arguments of the class. Subclasses add their own."""
        changes = self.conf.changes
        del changes[DEPRECATED]
        return {
            "main": self.main,
            "changes": changes,
            "loader": self.loader_cls,
            "backend": self.backend_cls,
            "amqp": self.amqp_cls,
            "events": self.events_cls,
            "log": self.log_cls,
            "control": self.control_cls,
            "fixups": self.fixups,
            "config_source": self._config_source,
            "config_source_silent": self._config_source_silent,
            "task_cls": self.task_cls if self._custom_task_cls_used else None,
            "namespace": self.namespace,
        }

    def __reduce_args__(self) -> tuple[Any, ...]:
        """The arguments of `AppPickler.build_standard_kwargs`."""
        keys = self.__reduce_keys__()
        names = ("main", "changes", "loader", "backend", "amqp", "events", "log", "control")
        return (
            *(keys[name] for name in names),
            False,
            keys["config_source"],
            keys["config_source_silent"],
        )

    # -- command line ------------------------------------------------------------------------

    def start(self, argv: list[str] | None = None) -> None:
        """Run the ``celery`` command with these arguments, or those of the process."""
        command = symbol_by_name("celery.bin.celery:celery")
        try:
            command.main(
                args=argv,
                prog_name="celery",
                standalone_mode=False,
                default_map={"app": self},
            )
        except Exception as error:
            if not hasattr(error, "exit_code"):  # not one of click's
                raise
            error.show()  # type: ignore[attr-defined]  # click's have it
            raise SystemExit(error.exit_code) from None

    def worker_main(self, argv: list[str] | None = None) -> None:
        """Run ``celery worker`` with these arguments, or those of the process."""
        arguments = sys.argv[1:] if argv is None else argv
        if "worker" not in arguments:
            raise ValueError(
                "The worker sub-command must be specified in argv.\n"
                "Use app.start() to programmatically start other commands."
            )
        self.start(argv=arguments)

    @cached_property
    def Worker(self) -> type:  # noqa: N802  # Celery's name
        """The worker class, bound to this app."""
        return self.subclass_with_self("celery.apps.worker:Worker")

    @cached_property
    def WorkController(self) -> type:  # noqa: N802  # Celery's name
        """The base of the worker class, bound to this app."""
        return self.subclass_with_self("celery.worker:WorkController")

    @cached_property
    def Beat(self) -> type:  # noqa: N802  # Celery's name
        """The beat class, bound to this app."""
        return self.subclass_with_self("celery.apps.beat:Beat")

    # -- tasks -------------------------------------------------------------------------------

    def task(self, *args: Any, **opts: Any) -> Any:
        """Make a function a task: ``@app.task`` or ``@app.task(bind=True, queue="email")``.

        Options become attributes of the task. The task is made when it is first used, or when the
        app is finalized; until then a proxy stands for it.
        """
        lazy = opts.pop("lazy", True)
        shared = opts.pop("shared", True)
        keep = opts.pop("filter", None) or (lambda task: task)

        def make(function: Callable[..., Any]) -> Any:
            if shared:
                connect_on_app_finalize(_shared_with(self, function, opts))
            if not lazy or self.finalized:
                return keep(self._task_from_fun(function, **opts))
            promise = PromiseProxy(self._task_from_fun, (function,), opts)
            self._pending.append(promise)
            return keep(promise)

        if not args:
            return make
        if len(args) == 1:
            if callable(args[0]):
                return make(*args)
            raise TypeError("argument 1 to @task() must be a callable")
        raise TypeError(f"@task() takes exactly 1 argument ({len(args) + len(opts)} given)")

    # -- time ---------------------------------------------------------------------------------

    def now(self) -> datetime:
        """The current time, aware, in the app's time zone."""
        return to_utc(datetime.now(timezone.utc)).astimezone(self.timezone)

    @property
    def timezone(self) -> tzinfo:
        """The ``timezone`` setting; without it UTC, or local time if ``enable_utc`` is off.

        One that is assigned stays, until it is deleted.
        """
        if self._timezone is not None:
            return self._timezone
        conf = self.conf
        if not conf.timezone:
            return timezone.utc if conf.enable_utc else timezone.local
        return timezone.get_timezone(conf.timezone)

    @timezone.setter
    def timezone(self, zone: tzinfo | str) -> None:
        self._timezone = timezone.get_timezone(zone)

    @timezone.deleter
    def timezone(self) -> None:
        self._timezone = None

    def uses_utc_timezone(self) -> bool:
        """Whether the app's time zone is UTC."""
        return self.timezone == timezone.utc

    # -- calling tasks -----------------------------------------------------------------------

    def send_task(  # Celery's signature
        self,
        name: str,
        args: Any = None,
        kwargs: Any = None,
        countdown: float | None = None,
        eta: Any = None,
        task_id: str | None = None,
        producer: Any = None,
        connection: Any = None,
        router: Any = None,
        result_cls: Any = None,
        expires: Any = None,
        publisher: Any = None,
        link: Any = None,
        link_error: Any = None,
        add_to_parent: bool = True,
        group_id: str | None = None,
        group_index: int | None = None,
        retries: int = 0,
        chord: Any = None,
        reply_to: str | None = None,
        time_limit: float | None = None,
        soft_time_limit: float | None = None,
        root_id: str | None = None,
        parent_id: str | None = None,
        route_name: str | None = None,
        shadow: str | None = None,
        chain: Any = None,
        task_type: Any = None,
        replaced_task_nesting: int = 0,
        **options: Any,
    ) -> AsyncResult:
        """Call a task by name; it need not be known here. Takes what `Task.apply_async` takes."""
        if task_type is None and self.conf.task_always_eager:
            warnings.warn(
                AlwaysEagerIgnored("task_always_eager has no effect on send_task"), stacklevel=2
            )
        options.setdefault("ignore_result", None)  # whoever runs it knows
        parent = get_current_worker_task()
        if parent is not None:
            request = parent.request
            root_id = root_id or request.root_id or request.id
            parent_id = parent_id or request.id
            if self.conf.task_inherit_parent_priority and options.get("priority") is None:
                options["priority"] = request.delivery_info.get("priority")
        task_id = task_id or uuid()
        # Before anything is stored: it tells of a wrong setting of the backend.
        result: AsyncResult = (result_cls or self.AsyncResult)(task_id)
        options.update(
            countdown=countdown,
            eta=eta,
            task_id=task_id,
            expires=expires,
            link=link,
            link_error=link_error,
            group_id=group_id,
            group_index=group_index,
            retries=retries,
            chord=chord,
            reply_to=reply_to,
            time_limit=time_limit,
            soft_time_limit=soft_time_limit,
            root_id=root_id,
            parent_id=parent_id,
            route_name=route_name,
            router=router,
            shadow=shadow,
            chain=chain,
            task_type=task_type,
            replaced_task_nesting=replaced_task_nesting,
            producer=producer or publisher,
        )
        sent = self.amqp.publish(name, args, kwargs, options)
        result.ignored = sent.ignored
        if sent.id != task_id:  # a header says so
            result.id = sent.id
        if add_to_parent and parent is not None:
            parent.add_trail(result)
        return result

    def signature(self, *args: Any, **kwargs: Any) -> Signature:
        """A signature bound to this app."""
        kwargs["app"] = self
        made: Signature = symbol_by_name("celery.canvas:signature")(*args, **kwargs)
        return made

    @cached_property
    def AsyncResult(self) -> Any:  # noqa: N802  # Celery's name
        """The result class, bound to this app."""
        return self.subclass_with_self("celery.result:AsyncResult")

    @cached_property
    def ResultSet(self) -> Any:  # noqa: N802  # Celery's name
        """The class of several results, bound to this app."""
        return self.subclass_with_self("celery.result:ResultSet")

    @cached_property
    def GroupResult(self) -> Any:  # noqa: N802  # Celery's name
        """The class of a group's result, bound to this app."""
        return self.subclass_with_self("celery.result:GroupResult")

    @cached_property
    def control(self) -> Any:
        """Remote control: see `celery.app.control`."""
        return symbol_by_name(self.control_cls)(app=self)

    @cached_property
    def events(self) -> Any:
        """What workers tell while they work: see `celery.events`."""
        return symbol_by_name(self.events_cls)(app=self)

    @property
    def backend(self) -> Backend:
        """The result backend: see `celery.app.backends`. One that is assigned stays."""
        if self._backend is not None:
            return self._backend  # type: ignore[no-any-return]  # somebody put it there
        kept, conf = self._backends, self.conf
        seen = os.getpid(), self.backend_cls, conf.revision
        if conf.is_live or getattr(kept, "seen", None) != seen:
            kept.found, kept.seen = self._find_backend(), seen
        return kept.found  # type: ignore[no-any-return]  # put there above

    @backend.setter
    def backend(self, value: Any) -> None:
        self._backend = value

    def _find_backend(self) -> Any:
        """The one of the settings, made anew if they mean another one."""
        # One for each thread, as with Celery: what third parties write need not share.
        spec = self.backend_cls or self.conf.result_backend
        shared = self.conf.get("result_backend_thread_safe", False)
        made: Any = self._shared_backend if shared else self._backends
        if getattr(made, "key", None) != (os.getpid(), spec):
            made.backend = symbol_by_name("celery.app.backends:backend_for")(self, spec)
            made.key = os.getpid(), spec
        return made.backend

    @property
    def current_task(self) -> tasks_module.Task | None:
        """The task that runs in this thread."""
        return get_current_task()

    @property
    def current_worker_task(self) -> tasks_module.Task | None:
        """The task that a worker runs in this thread."""
        return get_current_worker_task()

    @cached_property
    def oid(self) -> str:
        """An id of this app in this process."""
        return uuid()

    @property
    def thread_oid(self) -> str:
        """An id of this app in this thread."""
        return str(uuid5(UUID(self.oid), str(threading.get_ident())))

    @cached_property
    def log(self) -> Any:
        """How a program logs: see `celery.app.log`."""
        return symbol_by_name(self.log_cls)(app=self)

    def setup_security(
        self,
        allowed_serializers: Iterable[str] | None = None,
        key: str | None = None,
        key_password: bytes | None = None,
        cert: str | None = None,
        store: str | None = None,
        digest: str = "sha256",
        serializer: str = "json",
    ) -> None:
        """Sign messages, and refuse those that are not signed: see `celery.security`."""
        symbol_by_name("celery.security:setup_security")(
            allowed_serializers, key, key_password, cert, store, digest, serializer, app=self
        )

    def select_queues(self, queues: Any = None) -> None:
        """Consume from these queues only."""
        self.amqp.queues.select(queues)

    def bugreport(self) -> str:
        """Versions and settings, for a report of a bug; without passwords and keys."""
        report: str = symbol_by_name("celery.app.report:bugreport")(self)
        return report

    # -- schedules ---------------------------------------------------------------------------

    def add_periodic_task(
        self,
        schedule: Any,
        sig: Any,
        args: Any = (),
        kwargs: Mapping[str, Any] | None = None,
        name: str | None = None,
        **opts: Any,
    ) -> str:
        """Put a signature on the schedule (``beat_schedule``); gives the name of the entry."""
        sig = sig.clone(args, dict(kwargs or {})) if args or kwargs else sig
        entry = {
            "schedule": schedule,
            "task": sig.name,
            "args": sig.args,
            "kwargs": sig.kwargs,
            "options": {**sig.options, **opts},
        }
        key = name or repr(sig)
        if not name and key in self.conf.beat_schedule:
            logger.warning(
                "Periodic task key='%s' shadowed a previous unnamed periodic task. "
                "Pass a name kwarg to add_periodic_task to silence this warning.",
                key,
            )
        self.conf.beat_schedule[key] = entry
        return key

    # -- classes of this app -----------------------------------------------------------------

    def subclass_with_self(
        self,
        Class: Any,  # noqa: N803  # Celery's name
        name: str | None = None,
        attribute: str = "app",
        reverse: str | None = None,
        keep_reduce: bool = False,
        **kw: Any,
    ) -> type:
        """A subclass whose attribute ``app`` is this app."""
        base = symbol_by_name(Class)
        attributes = {
            attribute: self,
            "__module__": base.__module__,
            "__doc__": base.__doc__,
            **kw,
        }
        return type(name or base.__name__, (base,), attributes)


App = Celery  # its name in old programs
PendingConfiguration = Settings  # for Celery, what `conf` is until it has been read


def _shared_with(
    owner: Celery, function: Callable[..., Any], options: dict[str, Any]
) -> Callable[[Celery], Any]:
    """What gives the task of one app to every app that is finalized later."""

    def share(app: Celery) -> Any:
        return None if app is owner else app._task_from_fun(function, **options)

    return share


def _unpickle_app(cls: type[Celery], pickler: Any, *args: Any) -> Celery:
    made: Celery = pickler()(cls, *args)
    return made


def _unpickle_app_v2(cls: type[Celery], kwargs: dict[str, Any]) -> Celery:
    return cls(**{**kwargs, "set_as_current": False})
