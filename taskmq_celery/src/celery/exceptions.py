"""Every exception and warning that Celery's users catch, raise or filter.

Exception
├── CeleryError
│   ├── ImproperlyConfigured
│   ├── SecurityError
│   ├── TaskPredicate               raised by a task to steer itself
│   │   ├── Ignore                  keep the state as it is
│   │   ├── Reject                  refuse the message
│   │   └── Retry                   run again later
│   └── TaskError
│       ├── QueueNotFound, NotRegistered (also KeyError)
│       ├── IncompleteStream, AlreadyRegistered, InvalidTaskError
│       ├── TimeoutError            a result was not there in time
│       ├── MaxRetriesExceededError, TaskRevokedError, ChordError
├── BackendError
│   ├── BackendGetMetaError, BackendStoreError
├── OperationalError                kombu's: the broker cannot be used
├── SoftTimeLimitExceeded, TimeLimitExceeded, WorkerLostError, Terminated    billiard's
└── Warning
    ├── CeleryWarning               AlwaysEagerIgnored, DuplicateNodenameWarning, …
    ├── CDeprecationWarning, CPendingDeprecationWarning
SystemExit
└── WorkerTerminate, WorkerShutdown
"""

from __future__ import annotations

import datetime
from typing import Any, NoReturn

from billiard.exceptions import (
    SoftTimeLimitExceeded,
    Terminated,
    TimeLimitExceeded,
    WorkerLostError,
)
from click import ClickException
from kombu.exceptions import OperationalError

__all__ = (
    "AlreadyRegistered",
    "AlwaysEagerIgnored",
    "BackendError",
    "BackendGetMetaError",
    "BackendStoreError",
    "CDeprecationWarning",
    "CPendingDeprecationWarning",
    "CeleryCommandException",
    "CeleryError",
    "CeleryWarning",
    "ChordError",
    "DuplicateNodenameWarning",
    "DuplicateTaskNameWarning",
    "FixupWarning",
    "Ignore",
    "ImproperlyConfigured",
    "IncompleteStream",
    "InvalidTaskError",
    "MaxRetriesExceededError",
    "NotConfigured",
    "NotRegistered",
    "OperationalError",
    "QueueNotFound",
    "Reject",
    "Retry",
    "SecurityError",
    "SecurityWarning",
    "SoftTimeLimitExceeded",
    "TaskError",
    "TaskPredicate",
    "TaskRevokedError",
    "Terminated",
    "TimeLimitExceeded",
    "TimeoutError",
    "WorkerLostError",
    "WorkerShutdown",
    "WorkerTerminate",
    "reraise",
)


def reraise(tp: type[BaseException], value: BaseException, tb: Any = None) -> NoReturn:
    """Raise ``value`` with the given traceback."""
    raise value if value.__traceback__ is tb else value.with_traceback(tb)


# -- warnings ------------------------------------------------------------------------------------


class CeleryWarning(UserWarning):
    """Base of the warnings."""


class AlwaysEagerIgnored(CeleryWarning):
    """``send_task`` takes no notice of ``task_always_eager``."""


class DuplicateNodenameWarning(CeleryWarning):
    """Two workers have the same node name."""


class DuplicateTaskNameWarning(CeleryWarning):
    """Two tasks have the same name."""


class FixupWarning(CeleryWarning):
    """A fixup found something odd in the program."""


class NotConfigured(CeleryWarning):
    """There is no configuration module."""


class SecurityWarning(CeleryWarning):
    """Something is less safe than it could be."""


class CDeprecationWarning(DeprecationWarning):
    """Will be removed."""


class CPendingDeprecationWarning(PendingDeprecationWarning):
    """Will be deprecated."""


# -- errors --------------------------------------------------------------------------------------


class CeleryError(Exception):
    """Base of the errors."""


class ImproperlyConfigured(CeleryError):
    """A setting is wrong, or needs something that is not there."""


class SecurityError(CeleryError):
    """A security rule was broken."""


class TaskError(CeleryError):
    """Base of the errors about tasks."""


class QueueNotFound(KeyError, TaskError):
    """A route leads to a queue that is not in ``task_queues``."""


class IncompleteStream(TaskError):
    """The end of a stream of data is missing."""


class NotRegistered(KeyError, TaskError):
    """No task of that name is registered."""

    def __repr__(self) -> str:
        return f"Task of kind {self} never registered, please make sure it's imported."


class AlreadyRegistered(TaskError):
    """The task is registered already."""


class TimeoutError(TaskError):
    """The operation took longer than allowed."""


class MaxRetriesExceededError(TaskError):
    """The task asked for one more retry than it may have.

    ``task_args`` and ``task_kwargs`` are those of the call.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.task_args = kwargs.pop("task_args", [])
        self.task_kwargs = kwargs.pop("task_kwargs", {})
        super().__init__(*args, **kwargs)


class TaskRevokedError(TaskError):
    """The task was revoked: there is no result."""


class InvalidTaskError(TaskError):
    """The message is no task message."""


class ChordError(TaskError):
    """A part of a chord failed."""


# -- raised by tasks to steer themselves ---------------------------------------------------------


class TaskPredicate(CeleryError):
    """Base of the signals that a task raises about itself."""


class Retry(TaskPredicate):
    """The task is to be run again.

    ``exc`` is the exception behind it, ``excs`` its text, ``when`` seconds from now or a
    datetime, ``sig`` the signature that will run, ``is_eager`` whether it was called by
    ``apply()``.
    """

    def __init__(
        self,
        message: str | None = None,
        exc: BaseException | str | None = None,
        when: float | datetime.datetime | None = None,
        is_eager: bool = False,
        sig: Any = None,
        **kwargs: Any,
    ) -> None:
        self.message = message
        self.exc: BaseException | None
        self.excs: str | None
        if isinstance(exc, str):
            self.exc, self.excs = None, exc
        else:
            self.exc, self.excs = exc, repr(exc) if exc else None
        self.when = when
        self.is_eager = is_eager
        self.sig = sig
        super().__init__(self, exc, when, **kwargs)

    def humanize(self) -> str:
        """When: ``in 30s`` or ``at 2030-01-01 00:00:00``."""
        if isinstance(self.when, (int, float)):
            return f"in {self.when}s"
        return f"at {self.when}"

    def __str__(self) -> str:
        if self.message:
            return self.message
        text = f"Retry {self.humanize()}"
        return f"{text}: {self.excs}" if self.excs else text

    def __reduce__(self) -> tuple[Any, ...]:
        return self.__class__, (self.message, self.exc, self.when)


RetryTaskError = Retry  # its name before 3.1


class Ignore(TaskPredicate):
    """Leave the task's state as it is."""


class Reject(TaskPredicate):
    """Refuse the message; with ``requeue`` it is offered again."""

    def __init__(self, reason: Any = None, requeue: bool = False) -> None:
        self.reason = reason
        self.requeue = requeue
        super().__init__(reason, requeue)

    def __repr__(self) -> str:
        return f"reject requeue={self.requeue}: {self.reason}"


# -- result backends -----------------------------------------------------------------------------


class BackendError(Exception):
    """A result backend failed."""


class BackendGetMetaError(BackendError):
    """A result could not be read."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.task_id = kwargs.get("task_id", "")

    def __repr__(self) -> str:
        return f"{super().__repr__()} task_id:{self.task_id}"


class BackendStoreError(BackendError):
    """A result could not be written."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.state = kwargs.get("state", "")
        self.task_id = kwargs.get("task_id", "")

    def __repr__(self) -> str:
        return f"{super().__repr__()} state:{self.state} task_id:{self.task_id}"


# -- the end of a worker -------------------------------------------------------------------------


class WorkerTerminate(SystemExit):
    """The worker stops at once."""


SystemTerminate = WorkerTerminate  # its former name


class WorkerShutdown(SystemExit):
    """The worker finishes what runs, then stops."""


class CeleryCommandException(ClickException):
    """A command line error with an exit code of its own."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message=message)
        self.exit_code = exit_code  # type: ignore[misc]  # a ClassVar there, per error here
