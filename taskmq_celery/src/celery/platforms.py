"""The process and its operating system: exit codes, signals, pid files, privileges."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib
import os
import platform as _platform
import signal as _signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import util as mputil
from typing import Any

from billiard.compat import close_open_fds as _billiard_close_open_fds
from billiard.compat import get_fdmax
from billiard.process import current_process
from kombu.utils.compat import maybe_fileno

from celery.exceptions import SecurityError, SecurityWarning

__all__ = (
    "EX_FAILURE",
    "EX_OK",
    "EX_UNAVAILABLE",
    "EX_USAGE",
    "IS_WINDOWS",
    "SIGMAP",
    "SYSTEM",
    "DaemonContext",
    "IS_macOS",
    "LockFailed",
    "Pidfile",
    "close_open_fds",
    "create_pidlock",
    "detached",
    "fd_by_path",
    "get_errno_name",
    "get_fdmax",
    "ignore_errno",
    "initgroups",
    "isatty",
    "maybe_drop_privileges",
    "parse_gid",
    "parse_uid",
    "pyimplementation",
    "set_mp_process_title",
    "set_process_title",
    "setgid",
    "setgroups",
    "setuid",
    "signal_name",
    "signals",
)


def _module(name: str) -> Any:
    """A module that not every system has, or ``None``."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


grp = _module("grp")
pwd = _module("pwd")
resource = _module("resource")
_setproctitle: Callable[[str], None] | None = getattr(_module("setproctitle"), "setproctitle", None)

EX_OK = getattr(os, "EX_OK", 0)
EX_FAILURE = 1
EX_UNAVAILABLE = getattr(os, "EX_UNAVAILABLE", 69)
EX_USAGE = getattr(os, "EX_USAGE", 64)
EX_CANTCREAT = getattr(os, "EX_CANTCREAT", 73)

SYSTEM = _platform.system()
IS_macOS = SYSTEM == "Darwin"
IS_WINDOWS = SYSTEM == "Windows"

SIGMAP = {int(number): number.name for number in _signal.Signals}

PR_SET_PDEATHSIG = 1  # of Linux's prctl()

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
        tty: bool = fh.isatty()
    except AttributeError:
        return None
    return tty


def _say(message: str) -> None:
    stream = sys.__stderr__ or sys.stderr
    stream.write(f"{message}\n")


class Pidfile:
    """A file that holds the id of the one process that may have it. Usable in a ``with``."""

    path: str | None = None
    _held = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(path)  # noqa: PTH100  # resolve() would follow links

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
        return os.path.exists(self.path or "")  # noqa: PTH110  # programs patch it

    def release(self, *args: Any) -> None:
        self.remove()

    __exit__ = release

    def read_pid(self) -> int | None:
        """The id in the file, ``None`` without a file. Raises ``ValueError`` for something else,
        a line that has not been written to its end too."""
        try:
            with open(self.path or "") as file:  # noqa: PTH123  # programs patch it
                line = file.readline()
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            return None
        if not line.endswith("\n"):
            raise ValueError(f"pid file {self.path} holds no complete line: {line!r}")
        try:
            return int(line)
        except ValueError:
            raise ValueError(f"pid file {self.path} holds no process id: {line!r}") from None

    def remove(self) -> None:
        with ignore_errno(errno.ENOENT, errno.EACCES):
            os.unlink(self.path or "")  # noqa: PTH108  # programs patch it

    def remove_if_stale(self) -> bool:
        """Remove the file of a process that is gone; whether it is free now."""
        try:
            pid = self.read_pid()
        except ValueError:
            _say("Broken pidfile found - Removing it.")
            self.remove()
            return True
        if not pid or pid == os.getpid():  # left by a process that had our id
            self.remove()
            return True
        try:
            os.kill(pid, 0)
        except OSError as error:
            # A process that is another user's has got the number since.
            if error.errno in (errno.ESRCH, errno.EPERM):
                _say("Stale pidfile exists - Removing it.")
                self.remove()
                return True
        return False

    def write_pid(self) -> None:
        """Write this process's id, durably, and see that it is there. Raises
        ``FileExistsError`` if the file is there, `LockFailed` if it holds something else."""
        descriptor = os.open(self.path or "", PIDFILE_FLAGS, PIDFILE_MODE)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{os.getpid()}\n")
            file.flush()
            os.fsync(descriptor)
        with open(self.path or "") as written:  # noqa: PTH123  # programs patch it
            if written.read() != f"{os.getpid()}\n":
                raise LockFailed(f"pid file {self.path} does not hold what was written to it")


PIDFile = Pidfile


def _create_pidlock(pidfile: str | os.PathLike[str]) -> Pidfile:
    """Take a pid file, over a dead process's if need be.

    Exits with `EX_CANTCREAT` if the process in it lives. Raises `LockFailed` if the file cannot
    be created. The file is not removed by itself.
    """
    lock = Pidfile(pidfile)
    if lock.is_locked() and not lock.remove_if_stale():
        _say(PIDLOCKED.format(pidfile, lock.read_pid()))
        raise SystemExit(EX_CANTCREAT)
    lock.acquire()
    return lock


create_pidlock = _create_pidlock


class Signals:
    """Handlers of operating system signals, by name: ``signals["INT"] = handler``.

    A name that this system does not have is ignored.
    """

    ignored = _signal.SIG_IGN
    default = _signal.SIG_DFL

    def supported(self, name: str) -> bool:
        return hasattr(_signal, self._full(name))

    def signum(self, name: str | int) -> int:
        """The number of a signal. Raises ``AttributeError`` for one that is not known, and
        ``TypeError`` for what is no name in upper case."""
        if isinstance(name, int):
            return name
        if not name.isupper():
            raise TypeError(f"a signal's name is in upper case, as INT: not {name!r}")
        return int(getattr(_signal, self._full(name)))

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

    def update(self, _d_: Any = None, **sigmap: Any) -> None:
        """Install handlers by the names of their signals."""
        for name, handler in {**dict(_d_ or {}), **sigmap}.items():
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
            return int(pwd.getpwnam(str(uid)).pw_uid)
        except KeyError:
            raise KeyError(f"User does not exist: {uid}") from None


def parse_gid(gid: str | int) -> int:
    """A group id from its number or name. Raises ``KeyError`` for a group that does not exist."""
    try:
        return int(gid)
    except ValueError:
        try:
            return int(grp.getgrnam(str(gid)).gr_gid)
        except KeyError:
            raise KeyError(f"Group does not exist: {gid}") from None


def setuid(uid: str | int) -> None:
    """Become a user, given by number or name."""
    os.setuid(parse_uid(uid))


def setgid(gid: str | int) -> None:
    """Become a member of a group, given by number or name."""
    os.setgid(parse_gid(gid))


def initgroups(uid: int, gid: int) -> None:
    """Take the groups of a user, and ``gid``."""
    name = pwd.getpwuid(uid)[0]
    if hasattr(os, "initgroups"):
        os.initgroups(name, gid)
    else:
        setgroups([group.gr_gid for group in grp.getgrall() if name in group.gr_mem])


def setgroups(groups: list[int]) -> None:
    """Take these groups, as many as the system allows. Raises ``OSError`` where that is
    forbidden, unless this process has them all."""
    most: int | None = None
    with contextlib.suppress(ValueError, OSError):
        most = os.sysconf("SC_NGROUPS_MAX")
    try:
        _setgroups_hack(groups[:most])
    except OSError as error:
        if error.errno != errno.EPERM or set(os.getgroups()) - set(groups):
            raise


def _setgroups_hack(groups: list[int]) -> None:
    """Take these groups; where they are too many, as many as can be."""
    for count in range(len(groups), -1, -1):
        try:
            os.setgroups(groups[:count])
        except (ValueError, OSError) as error:
            too_many = isinstance(error, ValueError) or error.errno == errno.EINVAL
            if not (too_many and count > 0):
                raise
        else:
            return


def maybe_drop_privileges(uid: str | int | None = None, gid: str | int | None = None) -> None:
    """Become another user for good, with that user's groups. The group goes first: afterwards
    the right to change it is gone.

    Raises `SecurityError` where the process could become root again, or still is root.
    """
    if sys.platform == "win32":
        return
    if os.geteuid() and not os.getuid():
        raise SecurityError("This process can become root again: start it as another user.")
    user = parse_uid(uid) if uid is not None else None
    group = parse_gid(gid) if gid is not None else None
    if user is None:
        if group is not None:
            setgid(group)
    else:
        _become(user, group)
    if user and not os.getuid() and not os.geteuid():
        raise SecurityError("Still root after the user was changed.")
    if group and not os.getgid() and not os.getegid():
        raise SecurityError("Still in root's group after the group was changed.")


def _become(user: int, group: int | None) -> None:
    if group is None:
        group = int(pwd.getpwuid(user).pw_gid)
    setgid(group)
    initgroups(user, group)
    setuid(user)
    try:
        setuid(0)
    except OSError as error:
        if error.errno != errno.EPERM:
            raise
    else:
        if user:
            raise SecurityError("A process that is not root's any more can become root again.")


PICKLE = frozenset(
    {"pickle", "application/x-python-serialize", "application/group-python-serialize"}
)
ADMINISTRATORS = frozenset({"sudo", "wheel"})
ROOT_DISALLOWED = """\
A worker that accepts pickled messages hands whoever can write to its queue the rights of its \
user, and this one is root or an administrator. Start it as another user (--uid), or set \
C_FORCE_ROOT if you must. (uid={uid} euid={euid} gid={gid} egid={egid})"""
ROOT_DISCOURAGED = """\
The worker runs as root or as an administrator, and so does every task: better start it as \
another user (--uid). (uid={uid} euid={euid} gid={gid} egid={egid})"""
ASSUMING_ROOT = "The group of this process has no name: it is taken for an administrator's."


def check_privileges(accept_content: Iterable[str] | None) -> None:
    """Look at what rights a worker has that runs messages of these content types.

    Warns (`SecurityWarning`) about those of root and of administrators. Raises `SecurityError` if
    messages may be pickled too, unless ``C_FORCE_ROOT`` is set.
    """
    if grp is None or pwd is None or not hasattr(os, "fchown"):
        return  # a system without users of this kind
    asked = ("getuid", "geteuid", "getgid", "getegid")
    if not all(hasattr(os, name) for name in asked):
        raise SecurityError("suspicious platform, contact support")
    uid, euid, gid, egid = (getattr(os, name)() for name in asked)
    if uid and euid:
        try:
            names = {grp.getgrgid(gid)[0], grp.getgrgid(egid)[0]}
        except KeyError:
            warnings.warn(SecurityWarning(ASSUMING_ROOT), stacklevel=2)
        else:
            if not names & ADMINISTRATORS and gid and egid:
                return
    who = {"uid": uid, "euid": euid, "gid": gid, "egid": egid}
    if PICKLE & set(accept_content or ()) and not os.environ.get("C_FORCE_ROOT"):
        raise SecurityError(ROOT_DISALLOWED.format(**who))
    warnings.warn(SecurityWarning(ROOT_DISCOURAGED.format(**who)), stacklevel=2)


# -- in the background ---------------------------------------------------------------------------

_FD_DIR = "/proc/self/fd" if SYSTEM == "Linux" else "/dev/fd"


def _dev_fd_is_fdescfs() -> bool:
    """Whether ``/dev/fd`` is a file system of its own, which has every descriptor."""
    try:
        return os.stat("/dev/fd").st_dev != os.stat("/dev").st_dev  # noqa: PTH116  # programs patch it
    except OSError:
        return False


def _open_fds() -> list[int] | None:
    """The descriptors that are open, where the system tells. They may be up to a billion
    numbers apart, too many to try each."""
    if SYSTEM == "FreeBSD" and not _dev_fd_is_fdescfs():
        return None
    try:
        names = os.listdir(_FD_DIR)  # noqa: PTH208  # programs patch it
    except OSError:
        return None
    return sorted(int(name) for name in names if name.isdigit())


def close_open_fds(keep: Iterable[Any] | None = None) -> None:
    """Close every descriptor, save those of the files and numbers in ``keep``."""
    kept = list(keep or ())
    opened = _open_fds()
    if opened is None:
        _billiard_close_open_fds(kept)
        return
    spared = {maybe_fileno(each) for each in kept}
    for descriptor in opened:
        if descriptor not in spared:
            with ignore_errno(errno.EBADF):  # that of the listing itself
                os.close(descriptor)


def fd_by_path(paths: Iterable[str]) -> list[int]:
    """The open descriptors of these files."""
    wanted = set()
    for path in paths:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        try:
            wanted.add(os.fstat(descriptor)[1:3])
        finally:
            os.close(descriptor)
    if not wanted:
        return []
    opened = _open_fds()
    found = []
    for number in range(get_fdmax(2048)) if opened is None else opened:
        with contextlib.suppress(OSError):
            if os.fstat(number)[1:3] in wanted:
                found.append(number)
    return found


DAEMON_WORKDIR = "/"
"""Where a process in the background is, unless it is told."""


class DaemonContext:
    """Goes on in the background, in a session of its own: what is inside the ``with``.

    ``fake`` stays where it is, for trying out. ``umask`` may be text, octal with a leading zero.
    ``after_chdir`` is called before the standard streams are closed.
    """

    _is_open = False

    def __init__(
        self,
        pidfile: str | None = None,
        workdir: str | None = None,
        umask: int | str | None = None,
        fake: bool = False,
        after_chdir: Callable[[], Any] | None = None,
        after_forkers: bool = True,
        **kwargs: Any,
    ) -> None:
        self.workdir = workdir or DAEMON_WORKDIR
        self.umask = (
            int(umask, 8 if umask.startswith("0") else 10) if isinstance(umask, str) else umask
        )
        self.fake = fake
        self.after_chdir = after_chdir
        self.after_forkers = after_forkers
        self.stdfds: tuple[Any, ...] = (sys.stdin, sys.stdout, sys.stderr)

    def open(self) -> None:
        """Go into the background. The process that called it ends."""
        if self._is_open:
            return
        if not self.fake:
            self._detach()
        os.chdir(self.workdir)
        if self.umask is not None:
            os.umask(self.umask)
        if self.after_chdir is not None:
            self.after_chdir()
        if not self.fake:
            close_open_fds([*self.stdfds, *fd_by_path(["/dev/urandom"])])
            for descriptor in self.stdfds:
                self.redirect_to_null(maybe_fileno(descriptor))
            if self.after_forkers:
                mputil._run_after_forkers()  # type: ignore[attr-defined]  # there is no other name
        self._is_open = True

    def close(self, *args: Any) -> None:
        self._is_open = False

    def __enter__(self) -> DaemonContext:
        self.open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _detach(self) -> None:
        """A child of the leader of a new session: it can get no terminal any more."""
        if os.fork() != 0:
            os._exit(0)
            return  # for those who replaced it
        os.setsid()
        if os.fork() != 0:
            os._exit(0)

    def redirect_to_null(self, fd: int | None) -> None:
        """Make a descriptor read nothing, and write nowhere."""
        if fd is not None:
            os.dup2(os.open(os.devnull, os.O_RDWR), fd)


def detached(
    logfile: str | None = None,
    pidfile: str | None = None,
    uid: str | int | None = None,
    gid: str | int | None = None,
    umask: int | str = 0,
    workdir: str | None = None,
    fake: bool = False,
    **opts: Any,
) -> DaemonContext:
    """A `DaemonContext` as another user. That log and pid file can be written is seen before the
    terminal is gone. Raises ``RuntimeError`` on a system that has no such thing."""
    if resource is None:
        raise RuntimeError("this system cannot put a process into the background")
    signals.reset("SIGCLD")
    maybe_drop_privileges(uid=uid, gid=gid)

    def try_files() -> None:
        if logfile:
            open(logfile, "a").close()  # noqa: PTH123  # programs patch it
        if pidfile:
            _create_pidlock(pidfile).release()

    return DaemonContext(
        umask=umask,
        workdir=workdir or os.getcwd(),  # noqa: PTH109  # as text
        fake=fake,
        after_chdir=try_files,
    )


# -- small things --------------------------------------------------------------------------------


@contextlib.contextmanager
def ignore_errno(*errnos: int | str, **kwargs: Any) -> Iterator[None]:
    """Suppress errors with one of these numbers, given as such or by name (``"ENOENT"``); with
    ``types``, of these types alone."""
    types: type[OSError] = kwargs.get("types", OSError)
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
    """Give the process a title, as process listings show it; gives the title. Without the package
    setproctitle the title is only made."""
    title = f"[{progname}] {info or ''}".strip()
    if _setproctitle is not None:
        _setproctitle(title)
    return title


def set_mp_process_title(
    progname: str, info: str | None = None, hostname: str | None = None
) -> str:
    """`set_process_title` with the worker's host and the name of this process among its own:
    ``[celeryd: host:MainProcess]``."""
    name = current_process().name
    program = f"{progname}: {hostname}:{name}" if hostname else f"{progname}:{name}"
    return set_process_title(program, info=info)


def set_pdeathsig(name: str | int) -> None:
    """Have this process sent a signal when its parent ends. Only Linux can do that."""
    _set_pdeathsig(signals.signum(name))


def _set_pdeathsig(signum: int) -> None:
    if SYSTEM == "Linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signum)
