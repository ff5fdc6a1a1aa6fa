"""``db+postgresql://…``, ``db+sqlite:///…``: results in a database, by SQLAlchemy.

Celery up to 5.6 stores pickles in the tables, whatever the result serializer; what is in them is
read as long as it is plain data, or ``pickle`` is accepted.
"""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial, wraps
from typing import Any, NoReturn

from kombu.exceptions import ContentDisallowed
from kombu.utils.encoding import ensure_bytes
from kombu.utils.imports import symbol_by_name

from celery import states
from celery.backends.base import BaseBackend
from celery.exceptions import ImproperlyConfigured
from celery.result import result_from_tuple
from celery.utils.log import get_logger
from celery.utils.time import maybe_timedelta

try:
    import sqlalchemy  # noqa: F401  # an extra
except ImportError:
    raise ImproperlyConfigured(
        "The database result backend requires SQLAlchemy to be installed."
        "See https://pypi.org/project/SQLAlchemy/"
    ) from None

from sqlalchemy.exc import DatabaseError, InterfaceError, InvalidRequestError
from sqlalchemy.orm import defer
from sqlalchemy.orm.attributes import flag_modified
from sqlalchemy.orm.exc import StaleDataError

from .models import Task, TaskExtended, TaskSet
from .session import ADDED_LATER, SessionManager

__all__ = ("DatabaseBackend",)

logger = get_logger(__name__)

RETRYABLE_DB_ERRORS = (DatabaseError, InterfaceError, InvalidRequestError, StaleDataError)
MAX_RETRIES = 3
PICKLE = b"\x80"
"""What every pickle of protocol 2 and later starts with."""

EXTENDED = ("name", "worker", "retries", "queue")


@contextmanager
def session_cleanup(session: Any) -> Iterator[None]:
    """Close a session behind the block, rolled back where that fails."""
    try:
        yield
    except Exception:
        session.rollback()
        raise
    finally:
        session.close()


def retry(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is called again where the database fails: ``max_retries=`` times (3)."""

    @wraps(fun)
    def called(*args: Any, **kwargs: Any) -> Any:
        left = kwargs.pop("max_retries", MAX_RETRIES)
        while True:
            left -= 1
            try:
                return fun(*args, **kwargs)
            except RETRYABLE_DB_ERRORS:
                logger.warning("Failed operation %s. Retrying %s more times.", fun.__name__, left)
                if left <= 0:
                    raise

    return called


class _PlainData(pickle.Unpickler):
    """Reads pickles that consist of plain data: no name in them is ever looked up."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise ContentDisallowed(
            f"Refusing to unpickle a stored result that names {module}.{name}: pickle is not in "
            "accept_content"
        )


class DatabaseBackend(BaseBackend):
    """Stores records in tables of a database."""

    subpolling_interval = 0.5
    supports_result_compression = True

    task_cls: Any = Task
    taskset_cls: Any = TaskSet

    def __init__(
        self,
        dburi: str | None = None,
        engine_options: Any = None,
        url: str | None = None,
        **kwargs: Any,
    ) -> None:
        engine_callback = kwargs.pop("engine_callback", None)
        super().__init__(expires_type=maybe_timedelta, url=url, **kwargs)
        conf = self.app.conf
        if self.extended_result:
            self.task_cls = TaskExtended
        self.url: Any = url or dburi or conf.database_url
        if not self.url:
            raise ImproperlyConfigured(
                "Missing connection string! Do you have the database_url setting set to a "
                "real value?"
            )
        self.engine_options = {**(engine_options or {}), **(conf.database_engine_options or {})}
        self.short_lived_sessions = kwargs.get(
            "short_lived_sessions", conf.database_short_lived_sessions
        )
        self._retry_settings()
        schemas, names = conf.database_table_schemas or {}, conf.database_table_names or {}
        self.task_cls.configure(schema=schemas.get("task"), name=names.get("task"))
        self.taskset_cls.configure(schema=schemas.get("group"), name=names.get("group"))
        self.session_manager = SessionManager(self._callback(engine_callback))
        if conf.get("database_create_tables_at_setup", True):
            self._create_tables()

    def _retry_settings(self) -> None:
        """A database is asked again unless somebody says no."""
        conf = self.app.conf
        always, most = (
            conf[name] if conf.value_set_for(name) else None
            for name in ("result_backend_always_retry", "result_backend_max_retries")
        )
        self.always_retry = True if always is None else always
        self.max_retries = MAX_RETRIES if most is None else most

    def _callback(self, given: Any) -> Any:
        found = self.app.conf.get("database_engine_callback", None) if given is None else given
        if isinstance(found, str):
            found = symbol_by_name(found)
        if found is not None and not callable(found):
            raise ImproperlyConfigured(f"database_engine_callback must be callable, got {found!r}")
        return found

    @property
    def extended_result(self) -> bool:
        """Whether records tell of the call as well (``result_extended``)."""
        return bool(self.app.conf.find_value_for_key("extended", "result"))

    def _create_tables(self) -> None:
        """Let a missing table be an error now, not with the first result."""
        self._again(lambda: self.ResultSession().close())

    def ResultSession(self, session_manager: Any = None) -> Any:  # noqa: N802  # Celery's name
        """A new session."""
        return (session_manager or self.session_manager).session_factory(
            dburi=self.url,
            short_lived_sessions=self.short_lived_sessions,
            **self.engine_options,
        )

    def close(self) -> None:
        self.session_manager.invalidate(self.url)

    # -- trying again ------------------------------------------------------------------------

    def exception_safe_to_retry(self, exc: BaseException) -> bool:
        return isinstance(exc, RETRYABLE_DB_ERRORS)

    def on_backend_retryable_error(self, exc: BaseException) -> None:
        self.session_manager.invalidate(self.url)

    def _again(self, call: Callable[[], Any]) -> Any:
        """``call()``, again where the database fails; its own error where that is in vain."""
        retries = 0
        while True:
            try:
                return call()
            except Exception as error:
                again = self.always_retry and self.exception_safe_to_retry(error)
                if not again or retries >= self.max_retries:
                    raise
                retries += 1
                self._before_retry(error, retries)

    def forget(self, task_id: str) -> None:
        self._cache.pop(task_id, None)
        self._again(partial(self._forget, task_id))

    def save_group(self, group_id: str, result: Any) -> Any:
        return self._again(partial(self._save_group, group_id, result))

    def task_result_exists(self, task_id: str) -> bool:
        return bool(self._again(partial(self._task_result_exists, task_id)))

    def cleanup(self) -> None:
        """Delete the records that are older than results are kept."""
        self._again(self._cleanup)

    # -- records -----------------------------------------------------------------------------

    def _query_task(self, session: Any, task_id: str, for_update: bool = False) -> Any:
        """The row of a task; ``None`` for none. A column that its table lacks is left out."""
        query = session.query(self.task_cls)
        if for_update:
            query = query.with_for_update().populate_existing()
        try:
            return next(iter(query.filter(self.task_cls.task_id == task_id)), None)
        except DatabaseError as error:
            lacking = [name for name in ADDED_LATER if name in str(error)]
            if not lacking:
                raise
            session.rollback()
            query = session.query(self.task_cls)
            for name in lacking:
                if hasattr(self.task_cls, name):
                    query = query.options(defer(getattr(self.task_cls, name)))
            return next(iter(query.filter(self.task_cls.task_id == task_id)), None)

    def _store_result(
        self,
        task_id: str,
        result: Any,
        state: str | None,
        traceback: Any = None,
        request: Any = None,
        **kwargs: Any,
    ) -> None:
        session = self.ResultSession()
        with session_cleanup(session):
            task = self._query_task(session, task_id)
            if task is None:
                task = self.task_cls(task_id)
                task.task_id = task_id
                session.add(task)
                session.flush()
            elif task.status != states.SUCCESS:  # it may be by now: look again, and hold it
                task = self._query_task(session, task_id, for_update=True) or task
            if task.status == states.SUCCESS:
                return
            self._update_result(task, result, state, traceback=traceback, request=request)
            for name in ("status", "result", "traceback"):
                flag_modified(task, name)  # the row may have changed since: write all or nothing
            session.commit()

    def _update_result(
        self, task: Any, result: Any, state: str | None, traceback: Any = None, request: Any = None
    ) -> None:
        meta = self._get_result_meta(
            result, state, traceback, request, format_date=False, encode=True
        )
        task.result = ensure_bytes(self.encode(result))
        task.status = state
        task.traceback = traceback
        children = meta.get("children")
        if hasattr(task, "children"):
            task.children = None if children is None else ensure_bytes(self.encode(children))
        if not self.extended_result or not hasattr(self.task_cls, "args"):
            return
        for name in EXTENDED:
            if name in meta:
                setattr(task, name, meta[name])
        for name in ("args", "kwargs"):
            if name in meta:
                setattr(task, name, meta[name])
        declared = meta.get("stamped_headers")
        if declared:
            stamps = {
                "stamped_headers": list(declared),
                "stamps": {name: meta[name] for name in declared if name in meta},
            }
            task.stamps = ensure_bytes(self.encode(stamps))

    def _get_task_meta_for(self, task_id: str) -> dict[str, Any]:
        session = self.ResultSession()
        with session_cleanup(session):
            task = self._query_task(session, task_id)
            if task is None:
                task = self.task_cls(task_id)
                task.status = states.PENDING
                task.result = None
            data = task.to_dict()
        data["result"] = self._decode_stored_result(data["result"])
        for name in ("args", "kwargs", "children"):
            if data.get(name) is not None:
                data[name] = self._decode_stored_result(data[name])
        stamps = data.pop("stamps", None)
        if stamps:
            data.update(self._stamps(stamps))
        return self.meta_from_decoded(data)

    def _stamps(self, payload: Any) -> dict[str, Any]:
        try:
            stamps = self._decode_stored_result(payload)
        except Exception as error:
            logger.warning("The stamps of a stored result cannot be read: %r", error)
            return {}
        if not isinstance(stamps, dict):
            return {}
        found = dict(stamps.get("stamps") or {})
        if stamps.get("stamped_headers"):
            found["stamped_headers"] = stamps["stamped_headers"]
        return found

    def _decode_stored_result(self, payload: Any) -> Any:
        """The value of a column, whoever wrote it."""
        if payload is None:
            return None
        payload = bytes(payload)
        if self.serializer == "pickle" or not payload.startswith(PICKLE):
            return self.decode(payload)
        logger.warning(
            "A stored result is a pickle, not %s: written by Celery 5.6 or before", self.serializer
        )
        if "application/x-python-serialize" in (self.accept or ()):
            return pickle.loads(payload)  # noqa: S301  # accepted by the program
        return _PlainData(io.BytesIO(payload)).load()

    def _task_result_exists(self, task_id: str) -> bool:
        session = self.ResultSession()
        with session_cleanup(session):
            found = session.query(self.task_cls.task_id).filter(self.task_cls.task_id == task_id)
            return found.first() is not None

    def _forget(self, task_id: str) -> None:
        session = self.ResultSession()
        with session_cleanup(session):
            session.query(self.task_cls).filter(self.task_cls.task_id == task_id).delete()
            session.commit()

    # -- groups ------------------------------------------------------------------------------

    def _save_group(self, group_id: str, result: Any) -> Any:
        session = self.ResultSession()
        with session_cleanup(session):
            stored = ensure_bytes(self.encode(self.prepare_value(result)))
            session.add(self.taskset_cls(group_id, stored))
            session.flush()
            session.commit()
        return result

    def _restore_group(self, group_id: str) -> Any:
        session = self.ResultSession()
        with session_cleanup(session):
            group = (
                session.query(self.taskset_cls)
                .filter(self.taskset_cls.taskset_id == group_id)
                .first()
            )
            data = group and group.to_dict()
        if not data:
            return None
        stored = self._decode_stored_result(data["result"])
        if isinstance(stored, (list, tuple)):
            stored = result_from_tuple(stored, self.app)
        return {**data, "result": stored}

    def _delete_group(self, group_id: str) -> None:
        session = self.ResultSession()
        with session_cleanup(session):
            session.query(self.taskset_cls).filter(self.taskset_cls.taskset_id == group_id).delete()
            session.commit()

    def _cleanup(self) -> None:
        if not self.expires:
            return
        expires = getattr(self.expires, "total_seconds", lambda: self.expires)()
        # The column has no time zone: it is UTC.
        oldest = datetime.fromtimestamp(time.time() - expires, timezone.utc).replace(tzinfo=None)
        session = self.ResultSession()
        with session_cleanup(session):
            for model in (self.task_cls, self.taskset_cls):
                session.query(model).filter(model.date_done < oldest).delete()
                session.commit()

    def __reduce__(self, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        given = {"dburi": self.url, "expires": self.expires, "engine_options": self.engine_options}
        return super().__reduce__(args, {**given, **(kwargs or {})})
