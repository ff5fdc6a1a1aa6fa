"""The nursery: a small process that does nothing but make children, wait for their ends, and kill.

Forking a process that runs several threads copies their locks in whatever state they are. A worker
has threads by the time a child has to be replaced, hence this: one process without any thread, made
before the worker starts its own. It is a fork of the worker (``fork``), or a fresh interpreter that
imports the app once (``forkserver``) or never (``spawn``).

It is also what makes killing safe. It alone waits for the children, so the process of a child that
it has not seen end cannot be a stranger's that got the number again.

Requests are one operation and a child's number, and with a birth its descriptors. Answers are
`births`' to read. The end of the socket is the end of the nursery and of its children.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple, NoReturn

__all__ = [
    "ANSWER",
    "ENTRY",
    "NO_CHILD",
    "REQUEST",
    "Bear",
    "Fds",
    "Fork",
    "Spawn",
    "Word",
    "serve",
]

logger = logging.getLogger("taskmq.pools")

REQUEST = struct.Struct("!BI")  # word, number of the child
ANSWER = struct.Struct("!BIi")  # word, number of the child, process id, wait status or size of text
DESCRIPTORS = 3
NO_CHILD = -1
ENTRY = "taskmq.pools.processes.entry"


class Word(IntEnum):
    BEAR = 1  # request, with descriptors
    KILL = 2  # request: SIGKILL
    BORN = 3  # answer: process id
    DIED = 4  # answer: wait status, NO_CHILD if it never lived
    BROKEN = 5  # answer: no child will ever be born; a text of that size follows


class Fds(NamedTuple):
    """A child's ends of its channel; see `channel`."""

    data: int
    tokens: int
    control: int


Bear = Callable[[Fds, Callable[[], None]], int]
"""Makes one child; gives its process id. The function is for a child that is a fork: it closes what
is the nursery's."""


class Nursery:
    def __init__(self, sock: socket.socket, bear: Bear) -> None:
        self._sock = sock
        self._bear = bear
        self._numbers: dict[int, int] = {}  # by process id
        self._wake, self._wake_write = os.pipe()
        for descriptor in (self._wake, self._wake_write):
            os.set_blocking(descriptor, False)

    def run(self) -> None:
        """Serve until the worker closes its end or is gone."""
        ignore_terminal_and_terminate()
        signal.signal(signal.SIGCHLD, _nothing)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        while True:
            readable, _, _ = select.select([self._sock.fileno(), self._wake], [], [])
            if self._wake in readable:
                os.read(self._wake, 4096)
                self._reap()
            if self._sock.fileno() in readable and not self._serve():
                break
        for pid in self._numbers:
            os.kill(pid, signal.SIGKILL)

    def _serve(self) -> bool:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._sock, REQUEST.size, DESCRIPTORS)
        except ConnectionError:
            return False
        if len(data) < REQUEST.size:
            return False
        word, number = REQUEST.unpack(data)
        if word == Word.KILL:
            self._kill(number)
            return True
        try:
            pid = self._bear(Fds(*descriptors), self._leave_to_child)
        except OSError as error:  # no memory, too many processes
            logger.error("cannot make a child: %s", error)
            return self._answer(Word.DIED, number, NO_CHILD)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._numbers[pid] = number
        return self._answer(Word.BORN, number, pid)

    def _kill(self, number: int) -> None:
        for pid, known in self._numbers.items():
            if known == number:
                os.kill(pid, signal.SIGKILL)  # not waited for yet, so it cannot be another's

    def _reap(self) -> None:
        while self._numbers:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            number = self._numbers.pop(pid, None)
            if number is not None:
                self._answer(Word.DIED, number, status)

    def _answer(self, word: Word, number: int, value: int) -> bool:
        try:
            self._sock.sendall(ANSWER.pack(word, number, value))
        except ConnectionError:
            return False
        return True

    def _leave_to_child(self) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(self._wake)
        os.close(self._wake_write)
        self._sock.close()


def serve(sock: socket.socket, bear: Bear) -> None:
    """The life of a nursery."""
    Nursery(sock, bear).run()


def _nothing(number: int, frame: object) -> None:
    """A handler rather than SIG_IGN: that would be inherited by what tasks start."""


def ignore_terminal_and_terminate() -> None:
    """Ctrl-C goes to every process of a terminal, and a service manager's SIGTERM to all of a
    service: what they mean is the worker's business alone."""
    signal.signal(signal.SIGINT, _nothing)
    signal.signal(signal.SIGTERM, _nothing)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        if callable(signal.getsignal(number)):  # the worker's own handler, in a fork of it
            signal.signal(number, _nothing)


class Fork:
    """Makes children by forking the nursery. ``live`` is the life of one."""

    def __init__(self, live: Callable[[Fds], NoReturn]) -> None:
        self._live = live

    def __call__(self, fds: Fds, leave: Callable[[], None]) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:
            leave()
            self._live(fds)
        except BaseException:
            logger.exception("a child of the worker failed")
        finally:
            os._exit(1)


class Spawn:
    """Makes children as interpreters of their own."""

    def __call__(self, fds: Fds, leave: Callable[[], None]) -> int:
        for descriptor in fds:
            os.set_inheritable(descriptor, True)
        # Not subprocess: that waits for children, which here is the nursery's business.
        command = [sys.executable, "-m", ENTRY, "child", *map(str, (os.getpid(), *fds))]
        return os.posix_spawn(sys.executable, command, os.environ)
