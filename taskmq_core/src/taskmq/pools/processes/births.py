"""The worker's end of the nursery: asking for children, hearing of births and deaths."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Literal

from taskmq.errors import ConfigError

from .forks import forking
from .nursery import ANSWER, ENTRY, REQUEST, Fds, Word, ignore_terminal_and_terminate, serve
from .parentage import die_with_parent
from .site import Site, introduce
from .wire import Hello, encode

__all__ = ["Births", "NurseryLost", "Word", "choose_method", "manner_of_death"]

logger = logging.getLogger("taskmq.pools")

Method = Literal["fork", "forkserver", "spawn"]
END_TIMEOUT = 5.0


class NurseryLost(Exception):
    """The nursery is gone, and with it every child; or it cannot begin. The text says why."""


@dataclass(frozen=True, slots=True)
class Birth:
    number: int
    pid: int


@dataclass(frozen=True, slots=True)
class Death:
    number: int
    status: int
    """As of ``os.waitpid``; negative for a child that was never born."""


def choose_method(wanted: Method | None) -> Method:
    """``fork`` if nobody wants anything else and this process is fit for it.

    A fork has only the thread that forks; what the others held (a lock of a logger, of an
    allocator, of a connection) stays locked in it for ever.
    """
    others = [thread.name for thread in threading.enumerate() if thread is not _this_thread()]
    if wanted == "fork" and others:
        logger.warning(
            "start_method='fork' while other threads run (%s): locks that they hold now stay "
            "locked in every child; 'forkserver' has no such risk",
            ", ".join(others),
        )
    return wanted or ("forkserver" if others else "fork")


def _this_thread() -> threading.Thread:
    return threading.current_thread()


class Births:
    """Starts the nursery. To be called before the worker starts a thread. Raises `ConfigError`."""

    def __init__(self, site: Site, method: Method) -> None:
        self.hello: Hello | None = introduce(site) if method == "spawn" else None
        """What every child must be told."""
        self.socket, far = socket.socketpair()
        self._buffer = b""
        self._process: subprocess.Popen[bytes] | None = None
        self.pid = 0
        try:
            if method == "fork":
                self._fork(site, far)
            else:
                self._execute(method, far)
                if method == "forkserver":
                    self.socket.sendall(encode(introduce(site)))
        except BaseException:
            self.close()
            raise
        finally:
            far.close()
        self.socket.setblocking(False)

    def _fork(self, site: Site, far: socket.socket) -> None:
        parent = os.getpid()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # or what waits in it now is written once more by every child
        self.pid = os.fork()
        if self.pid:
            return
        try:
            ignore_terminal_and_terminate()
            die_with_parent(parent)
            self.socket.close()
            serve(far, forking(site))
        finally:
            os._exit(0)

    def _execute(self, method: Method, far: socket.socket) -> None:
        command = [sys.executable, "-m", ENTRY, "nursery", method, str(os.getpid())]
        descriptor = far.fileno()
        self._process = subprocess.Popen([*command, str(descriptor)], pass_fds=[descriptor])
        self.pid = self._process.pid

    # -- requests ----------------------------------------------------------------------------

    def bear(self, number: int, fds: Fds) -> None:
        """Ask for a child."""
        self._request(Word.BEAR, number, fds)

    def kill(self, number: int) -> None:
        """End a child by force, if it still lives."""
        self._request(Word.KILL, number, ())

    def _request(self, word: Word, number: int, fds: tuple[int, ...]) -> None:
        try:
            socket.send_fds(self.socket, [REQUEST.pack(word, number)], list(fds))
        except OSError as error:
            raise NurseryLost(
                f"the nursery (process {self.pid}) takes no requests: {error}"
            ) from None

    # -- answers -----------------------------------------------------------------------------

    def hear(self) -> list[Birth | Death]:
        """What has happened. Raises `NurseryLost`."""
        try:
            data = self.socket.recv(65536)
        except BlockingIOError:
            return []
        except ConnectionError:
            data = b""
        if not data:
            raise NurseryLost(f"the nursery (process {self.pid}) has died")
        self._buffer += data
        heard: list[Birth | Death] = []
        while len(self._buffer) >= ANSWER.size:
            word, number, value = ANSWER.unpack_from(self._buffer)
            self._buffer = self._buffer[ANSWER.size :]
            if word == Word.BROKEN:
                raise ConfigError(f"no child can be made: {self._text(value)}")
            heard.append(Birth(number, value) if word == Word.BORN else Death(number, value))
        return heard

    def _text(self, size: int) -> str:
        self.socket.setblocking(True)
        self.socket.settimeout(END_TIMEOUT)
        while len(self._buffer) < size and (data := self.socket.recv(65536)):
            self._buffer += data
        return self._buffer[:size].decode()

    def close(self) -> None:
        """Let the nursery end, and wait for that."""
        self.socket.close()
        if self._process is not None:
            try:
                self._process.wait(END_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        elif self.pid:
            _wait_for(self.pid)
        self.pid = 0


def _wait_for(pid: int) -> None:
    """It ends as soon as it sees the end of its socket."""
    until = time.monotonic() + END_TIMEOUT
    with contextlib.suppress(ChildProcessError):  # somebody in this process waits for every child
        while not os.waitpid(pid, os.WNOHANG)[0]:
            if time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)


def manner_of_death(status: int) -> str:
    """In words: ``was killed by signal 11 (SIGSEGV)``."""
    if status < 0:
        return "could not be started"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            return f"was killed by signal {number} ({signal.Signals(number).name})"
        except ValueError:
            return f"was killed by signal {number}"
    return f"ended with exit code {os.waitstatus_to_exitcode(status)}"
