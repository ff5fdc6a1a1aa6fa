"""Exit codes, and how an error becomes one line and one of them."""

from __future__ import annotations

from enum import IntEnum

from taskmq.errors import (
    ConfigError,
    IdempotencyConflict,
    Interrupted,
    MessageError,
    QueueFull,
    RemoteError,
    ResultError,
    ResultTimeout,
    SchemaMismatch,
    StoreCorrupt,
    StoreFull,
    TransportError,
    UnknownDependency,
    UnknownJob,
    UnknownSchedule,
    UnknownTask,
    UnknownWorkflow,
)

__all__ = ["CommandFailed", "Exit", "exit_for", "one_line"]


class Exit(IntEnum):
    """What the process says when it ends."""

    OK = 0
    FAILED = 1
    """The command did what it was asked, and the answer is no: a job failed, a "no" at a prompt."""
    USAGE = 2
    """Arguments, a setting, or the app's module are wrong."""
    UNAVAILABLE = 3
    """The store cannot be opened, read, written or locked. Trying again may help."""
    CORRUPT = 4
    """The store is damaged, or of another version."""
    FULL = 5
    """The store has no space left."""
    UNKNOWN = 6
    """There is no such job, dead letter, task, schedule or workflow."""
    TIMEOUT = 7
    """The job was not finished in time. It is still there."""
    REFUSED = 8
    """The job cannot be stored: too large, not encodable, or its key stands for another."""
    BUG = 70
    """An error that taskmq did not expect."""
    INTERRUPTED = 130
    """Ctrl-C."""
    PIPE = 141
    """Whoever read the output stopped reading."""


# The first match counts, so subclasses come before their base.
_CODES: tuple[tuple[type[BaseException], Exit], ...] = (
    (ConfigError, Exit.USAGE),
    (UnknownTask, Exit.UNKNOWN),
    (UnknownSchedule, Exit.UNKNOWN),
    (UnknownWorkflow, Exit.UNKNOWN),
    (UnknownJob, Exit.UNKNOWN),
    (ResultTimeout, Exit.TIMEOUT),
    (ResultError, Exit.FAILED),
    (Interrupted, Exit.FAILED),
    (MessageError, Exit.REFUSED),
    (IdempotencyConflict, Exit.REFUSED),
    (UnknownDependency, Exit.REFUSED),
    (QueueFull, Exit.REFUSED),
    (StoreFull, Exit.FULL),
    (StoreCorrupt, Exit.CORRUPT),
    (SchemaMismatch, Exit.CORRUPT),
    (TransportError, Exit.UNAVAILABLE),
)


class CommandFailed(Exception):
    """Ends a command with a message for people and a code for scripts."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code


def exit_for(error: Exception) -> Exit:
    """The exit code of an error that ended a command."""
    if isinstance(error, CommandFailed):
        return error.code
    return next((code for kind, code in _CODES if isinstance(error, kind)), Exit.BUG)


def one_line(error: Exception) -> str:
    """What to tell people of an error, whatever its text looks like."""
    if isinstance(error, RemoteError):
        text = f"{error.type}: {error.message}" if error.message else error.type
    else:
        text = str(error)
    text = " ".join(text.split())
    if exit_for(error) is not Exit.BUG:
        return text
    return f"unexpected {type(error).__name__}: {text} (--traceback shows where; please report it)"
