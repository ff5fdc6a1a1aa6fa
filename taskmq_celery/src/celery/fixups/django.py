"""In a Django program: its settings, its apps' tasks, and its connections.

Active where ``DJANGO_SETTINGS_MODULE`` is set. The working directory can be imported from, the
app's tasks are `celery.contrib.django.task.DjangoTask`, ``autodiscover_tasks()`` asks for the
installed apps, and a worker closes database and cache connections around every task.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from datetime import datetime, timezone
from importlib import import_module
from typing import Any
from uuid import uuid4

from kombu.utils.imports import symbol_by_name
from kombu.utils.objects import cached_property

from celery import _state, signals
from celery.app.base import Celery
from celery.exceptions import FixupWarning
from celery.local import maybe_evaluate
from celery.utils.log import get_logger

__all__ = ("DjangoFixup", "fixup")

logger = get_logger(__name__)

ERR_NOT_INSTALLED = (
    "The environment variable DJANGO_SETTINGS_MODULE is set, but Django cannot be imported: "
    "its settings, tasks and connections are left alone"
)

DJANGO_TASK = "celery.contrib.django.task:DjangoTask"


def _maybe_close_fd(connection: Any) -> None:
    """Close the socket of a connection that belongs to the parent process."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        os.close(connection.fileno())


def fixup(app: Any, env: str = "DJANGO_SETTINGS_MODULE") -> DjangoFixup | None:
    """Prepare an app for Django, if this is a Django program."""
    settings = os.environ.get(env)
    if not settings or "django" in str(app.loader_cls).lower():
        return None
    try:
        import_module("django")
        __import__("django")
    except ImportError:
        warnings.warn(FixupWarning(ERR_NOT_INSTALLED), stacklevel=2)
        return None
    made: Any = DjangoFixup(app)
    installed: DjangoFixup | None = made.install()
    return installed


class DjangoFixup:
    """What an app does in any process of a Django program."""

    def __init__(self, app: Any) -> None:
        self.app = app
        if _state.default_app is None:
            app.set_default()
        self._worker_fixup: DjangoWorkerFixup | None = None
        # Receivers are told apart by this: each app of the process has its own.
        self._worker_init_uid = ("celery.fixups.django", "worker_init", uuid4().hex)

    def install(self) -> DjangoFixup:
        """Do it."""
        sys.path.insert(0, os.getcwd())  # noqa: PTH109  # text, as sys.path wants it
        self._settings = symbol_by_name("django.conf:settings")
        self.app.loader.now = self.now
        if not self._has_own_task_class():
            self.app.task_cls = DJANGO_TASK
        signals.import_modules.connect(self.on_import_modules, sender=self.app)
        signals.worker_init.connect(self.on_worker_init, dispatch_uid=self._worker_init_uid)
        return self

    def _has_own_task_class(self) -> bool:
        return bool(self.app._custom_task_cls_used) or self.app.task_cls != Celery.task_cls

    @property
    def worker_fixup(self) -> Any:
        if self._worker_fixup is None:
            self._worker_fixup = DjangoWorkerFixup(self.app)
        return self._worker_fixup

    @worker_fixup.setter
    def worker_fixup(self, value: Any) -> None:
        self._worker_fixup = value

    def on_import_modules(self, **kwargs: Any) -> None:
        """Models have to be there before the modules that use them."""
        self.worker_fixup.validate_models()

    def on_worker_init(self, **kwargs: Any) -> None:
        """A worker of this app starts."""
        worker = kwargs.get("sender")
        if worker is None:
            warnings.warn(
                FixupWarning("DjangoFixup.on_worker_init called without a sender"), stacklevel=2
            )
        app = getattr(worker, "app", None)
        other = maybe_evaluate_proxy(app)
        if other is not None and other is not maybe_evaluate_proxy(self.app):
            logger.debug("%r leaves %r alone, a worker of %r", self.app, worker, app)
            return
        self.worker_fixup.worker = worker
        self.worker_fixup.install()

    def now(self, utc: bool = False) -> datetime:
        """The time as Django has it, or in UTC."""
        return datetime.now(timezone.utc) if utc else self._now()

    def autodiscover_tasks(self) -> list[str]:
        """The installed apps."""
        apps = import_module("django.apps").apps
        return [config.name for config in apps.get_app_configs()]

    @cached_property
    def _now(self) -> Any:
        return symbol_by_name("django.utils.timezone:now")


def maybe_evaluate_proxy(app: Any) -> Any:
    """The app that a proxy stands for; anything else as it is."""
    get = getattr(type(app), "_get_current_object", None)
    return maybe_evaluate(app) if get is None else app._get_current_object()


class DjangoWorkerFixup:
    """What a worker of a Django program does."""

    _db_recycles = 0

    def __init__(self, app: Any, worker: Any = None) -> None:
        self.app = app
        self.worker = worker
        self.db_reuse_max = app.conf.get("CELERY_DB_REUSE_MAX", None)
        self._db = import_module("django.db")
        self._cache = import_module("django.core.cache")
        self._settings = symbol_by_name("django.conf:settings")
        self.interface_errors = (symbol_by_name("django.db.utils.InterfaceError"),)
        self.DatabaseError = symbol_by_name("django.db:DatabaseError")

    def django_setup(self) -> None:
        import django  # only where it is installed

        django.setup()

    def validate_models(self) -> None:
        """Load the models, and run Django's checks unless ``CELERY_SKIP_CHECKS`` says not to."""
        run_checks = import_module("django.core.checks").run_checks
        self.django_setup()
        if not os.environ.get("CELERY_SKIP_CHECKS"):
            run_checks()

    def install(self) -> DjangoWorkerFixup:
        """Listen to the worker."""
        for signal, receiver in (
            (signals.worker_process_init, self.on_worker_process_init),
            (signals.task_prerun, self.on_task_prerun),
            (signals.task_postrun, self.on_task_postrun),
            (signals.beat_embedded_init, self.close_database),
        ):
            signal.connect(receiver)
        self.close_database()
        self.close_cache()
        return self

    def on_worker_process_init(self, **kwargs: Any) -> None:
        """A child process starts: it must not use the connections of its parent."""
        if os.environ.get("FORKED_BY_MULTIPROCESSING"):  # a new interpreter: nothing is loaded
            self.validate_models()
        # The sockets are closed without saying goodbye to the server, which the parent talks to.
        for connection in self._db.connections.all():
            if connection and connection.connection:
                with contextlib.suppress(*self.interface_errors):
                    _maybe_close_fd(connection.connection)
        self._close_database()
        self.close_cache()

    def on_task_prerun(self, sender: Any, **kwargs: Any) -> None:
        if not getattr(sender.request, "is_eager", False):
            self.close_database()

    def on_task_postrun(self, sender: Any, **kwargs: Any) -> None:
        if not getattr(sender.request, "is_eager", False):
            self.close_database()
            self.close_cache()

    def close_database(self, **kwargs: Any) -> None:
        """Close the connections, or every so often (``CELERY_DB_REUSE_MAX``)."""
        if not self.db_reuse_max:
            self._close_database()
            return
        if self._db_recycles >= self.db_reuse_max * 2:
            self._db_recycles = 0
            self._close_database()
        self._db_recycles += 1

    def _close_database(self) -> None:
        for connection in self._connections():
            try:
                connection.close()
                if self._is_prefork() and self._has_pool(connection):
                    with contextlib.suppress(KeyError):  # it is closed already
                        connection.close_pool()
            except self.interface_errors:
                pass
            except self.DatabaseError as error:
                if "closed" not in str(error) and "not connected" not in str(error):
                    raise

    def _connections(self) -> Any:
        try:
            return self._db.connections.all(initialized_only=True)
        except TypeError:  # before Django 4.1
            return self._db.connections.all()

    def _has_pool(self, connection: Any) -> bool:
        if not hasattr(connection, "close_pool"):
            return False
        database = self._settings.DATABASES.get(connection.alias, {})
        return bool(database.get("OPTIONS", {}).get("pool"))

    def _is_prefork(self) -> bool:
        if self.worker is None:
            return False
        pool = self.worker.pool_cls
        return "prefork" in (pool if isinstance(pool, str) else pool.__module__)

    def close_cache(self) -> None:
        with contextlib.suppress(AttributeError, TypeError):
            self._cache.close_caches()
