"""The process and its operating system: exit codes, signals, pid files, privileges."""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import platform as _platform
import pwd
import signal as _signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from billiard.compat import close_open_fds, get_fdmax

__all__ = (
    "EX_CANTCREAT",
    "EX_FAILURE",
    "EX_OK",
    "EX_UNAVAILABLE",
    "EX_USAGE",
    "IS_WINDOWS",
    "SIGMAP",
    "SYSTEM",
    "IS_macOS",
    "LockFailed",
    "Pidfile",
    "close_open_fds",
    "create_pidlock",
    "get_fdmax",
    "ignore_errno",
    "isatty",
    "parse_gid",
    "parse_uid",
    "pyimplementation",
    "signal_name",
    "signals",
)

EX_OK = getattr(os, "EX_OK", 0)
EX_FAILURE = 1
EX_UNAVAILABLE = getattr(os, "EX_UNAVAILABLE", 69)
EX_USAGE = getattr(os, "EX_USAGE", 64)
EX_CANTCREAT = getattr(os, "EX_CANTCREAT", 73)

SYSTEM = _platform.system()
IS_macOS = SYSTEM == "Darwin"
IS_WINDOWS = SYSTEM == "Windows"

SIGMAP = {int(number): number.name for number in _signal.Signals}

PIDFILE_FLAGS = os.O_CREAT | os.O_EXCL | os.O_WRONLY
PIDFILE_MODE = 0o644
PIDLOCKED = """ERROR: Pidfile ({0}) already exists.
Seems we're already running? (pid: {1})"""


class LockFailed(Exception):
    """The pid file cannot be created."""


def pyimplementation() -> str:
    """``CPython``, ``PyPy``, …"""
    return _platform.python_implementation()


def isatty(fh: Any) -> bool | None:
    """Whether a stream is a terminal; ``None`` for something that cannot say."""
    try:
        return bool(fh.isatty())
    except AttributeError:
        return None


def _say(message: str) -> None:
    stream = sys.__stderr__ or sys.stderr
    stream.write(f"{message}\n")


class Pidfile:
    """A file that holds the id of the one process that may have it. Usable in a ``with``."""

    path: str | None = None
    _held = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(path)  # noqa: PTH100  # resolve() would follow links

    @property
    def _file(self) -> Path:
        return Path(self.path or "")

    def acquire(self) -> Pidfile:
        """Create the file. Raises `LockFailed` where it exists or cannot be written."""
        try:
            self.write_pid()
        except OSError as error:
            raise LockFailed(str(error)) from error
        self._held = True
        return self

    def __enter__(self) -> Pidfile:
        return self if self._held else self.acquire()

    def is_locked(self) -> bool:
        return self._file.exists()

    def release(self, *args: Any) -> None:
        self.remove()

    __exit__ = release

    def read_pid(self) -> int | None:
        """The id in the file, ``None`` without a file. Raises ``ValueError`` for something else."""
        try:
            text = self._file.read_text()
        except FileNotFoundError:
            return None
        return int(text.strip())

    def remove(self) -> None:
        with contextlib.suppress(FileNotFoundError, PermissionError):
            self._file.unlink()

    def remove_if_stale(self) -> bool:
        """Remove the file of a process that is gone; whether it is free now."""
        try:
            pid = self.read_pid()
        except ValueError:
            _say("Broken pidfile found - Removing it.")
            self.remove()
            return True
        if not pid:
            self.remove()
            return True
        if pid == os.getpid():
            return True
        try:
            os.kill(pid, 0)
        except OSError as error:
            if error.errno not in (errno.ESRCH, errno.EPERM):
                raise
            if error.errno == errno.ESRCH:
                _say("Stale pidfile exists - Removing it.")
                self.remove()
                return True
        return False

    def write_pid(self) -> None:
        """Write this process's id, durably. Raises ``FileExistsError`` if the file is there."""
        descriptor = os.open(self.path or "", PIDFILE_FLAGS, PIDFILE_MODE)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{os.getpid()}\n")
            file.flush()
            os.fsync(descriptor)


PIDFile = Pidfile


def create_pidlock(pidfile: str | os.PathLike[str]) -> Pidfile:
    """Take a pid file, over a dead process's if need be.

    Exits with `EX_CANTCREAT` if the process in it lives. Raises `LockFailed` if the file cannot
    be created. The file is not removed by itself.
    """
    lock = Pidfile(pidfile)
    if lock.is_locked() and not lock.remove_if_stale():
        _say(PIDLOCKED.format(pidfile, lock.read_pid()))
        raise SystemExit(EX_CANTCREAT)
    if lock.is_locked():  # left by a process that had our id
        lock.remove()
    return lock.acquire()


class Signals:
    """Handlers of operating system signals, by name: ``signals["INT"] = handler``.

    A name that this system does not have is ignored.
    """

    ignored = _signal.SIG_IGN
    default = _signal.SIG_DFL

    def supported(self, name: str) -> bool:
        return hasattr(_signal, self._full(name))

    def signum(self, name: str | int) -> int:
        """The number of a signal. Raises ``AttributeError`` for one that is not known."""
        return name if isinstance(name, int) else int(getattr(_signal, self._full(name)))

    def arm_alarm(self, seconds: float) -> None:
        """Send SIGALRM to this process in so many seconds."""
        _signal.setitimer(_signal.ITIMER_REAL, seconds)

    def reset_alarm(self) -> None:
        """Take `arm_alarm` back."""
        _signal.alarm(0)

    def reset(self, *signal_names: str) -> None:
        self.update((name, self.default) for name in signal_names)

    def ignore(self, *names: str) -> None:
        self.update((name, self.ignored) for name in names)

    def __getitem__(self, name: str) -> Any:
        return _signal.getsignal(self.signum(name))

    def __setitem__(self, name: str, handler: Any) -> None:
        # Only the main thread may, and not every system has every signal.
        with contextlib.suppress(AttributeError, ValueError):
            _signal.signal(self.signum(name), handler)

    def update(self, handlers: Iterable[tuple[str, Any]] = (), **more: Any) -> None:
        for name, handler in [*dict(handlers).items(), *more.items()]:
            self[name] = handler

    @staticmethod
    def _full(name: str) -> str:
        return name if name.startswith("SIG") else f"SIG{name}"


signals = Signals()
get_signal: Callable[[str], int] = signals.signum
install_signal_handler = signals.__setitem__
reset_signal = signals.reset
ignore_signal = signals.ignore


def signal_name(signum: int) -> str:
    """``TERM`` for 15."""
    return SIGMAP[signum].removeprefix("SIG")


def parse_uid(uid: str | int) -> int:
    """A user id from its number or name. Raises ``KeyError`` for a user that does not exist."""
    try:
        return int(uid)
    except ValueError:
        try:
            return pwd.getpwnam(str(uid)).pw_uid
        except KeyError:
            raise KeyError(f"User does not exist: {uid}") from None


def parse_gid(gid: str | int) -> int:
    """A group id from its number or name. Raises ``KeyError`` for a group that does not exist."""
    try:
        return int(gid)
    except ValueError:
        try:
            return grp.getgrnam(str(gid)).gr_gid
        except KeyError:
            raise KeyError(f"Group does not exist: {gid}") from None


def maybe_drop_privileges(uid: str | int | None = None, gid: str | int | None = None) -> None:
    """Become another user for good, with that user's groups. The group goes first: afterwards
    the right to change it is gone."""
    if uid is None:
        if gid is not None:
            os.setgid(parse_gid(gid))
        return
    number = parse_uid(uid)
    account = pwd.getpwuid(number)
    group = account.pw_gid if gid is None else parse_gid(gid)
    os.initgroups(account.pw_name, group)
    os.setgid(group)
    os.setuid(number)


@contextlib.contextmanager
def ignore_errno(*errnos: int | str, types: type[OSError] = OSError) -> Iterator[None]:
    """Suppress errors with one of these numbers, given as such or by name (``"ENOENT"``)."""
    numbers = {getattr(errno, one) if isinstance(one, str) else one for one in errnos}
    try:
        yield
    except types as error:
        if error.errno not in numbers:
            raise


def get_errno_name(n: int | str) -> str:
    """``ENOENT`` for 2; a name stays as it is."""
    return n if isinstance(n, str) else errno.errorcode[n]


def set_process_title(progname: str, info: str | None = None) -> str:
    """The title that a process listing would show. Needs no ``setproctitle``: it is only built."""
    return f"[{progname}] {info or ''}".strip()


def set_mp_process_title(
    progname: str, info: str | None = None, hostname: str | None = None
) -> str:
    """`set_process_title` with the worker's host: ``[celeryd: host]``."""
    return set_process_title(f"{progname}: {hostname}" if hostname else progname, info)
