"""A program's own calls to the prefork pool, in processes of their own.

The engine's children run jobs. What else a program wants done (`BasePool.apply_async`), a batch of
messages for example, is done by these: forks of one small process, which is made before the worker
has threads, where it is known that it will be needed. A thread for each looks after it.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from queue import SimpleQueue
from time import monotonic
from typing import Any

from billiard.einfo import ExceptionInfo
from billiard.exceptions import WorkerLostError

from celery.utils.log import get_logger

from .base import accepting

__all__ = ("CallProcesses",)

logger = get_logger("celery.pool")

PARTING = 5
"""Seconds that what still runs has when the worker is gone."""

ACCEPTED, RETURNED, RAISED = range(3)


class CallProcesses:
    """``limit`` processes at most; ``begin`` is called in each before its first call, ``end``
    after its last. Forks this process at once."""

    def __init__(self, limit: int, begin: Callable[[], Any], end: Callable[[], Any]) -> None:
        self._nursery, far = socket.socketpair()
        self._threads = ThreadPoolExecutor(limit, thread_name_prefix="calls")
        self._idle: SimpleQueue[Child] = SimpleQueue()
        self._busy: set[int] = set()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self._pid = os.fork()
        if self._pid == 0:
            self._nursery.close()
            _in_child(lambda: _serve_births(far, begin, end))
        far.close()

    def submit(
        self,
        target: Callable[..., Any],
        args: Any,
        kwargs: Any,
        callback: Callable[[Any], Any] | None,
        accept_callback: Callable[[int, float], Any] | None,
        error_callback: Callable[[Any], Any] | None,
    ) -> Future[Any]:
        """Have a call done. Raises ``RuntimeError`` once they are stopped, and what pickle raises
        for what it cannot pickle."""
        call = pickle.dumps((target, tuple(args), dict(kwargs or {})))
        return self._threads.submit(self._do, call, callback, accept_callback, error_callback)

    def _do(self, call: bytes, callback: Any, accept_callback: Any, error_callback: Any) -> Any:
        child = self._child()
        try:
            with accepting() as waiting:
                try:
                    child.connection.send_bytes(call)
                    pid, when = child.hear(ACCEPTED)
                    if accept_callback is not None:
                        accept_callback(pid, when)
                    self._busy.add(pid)
                except (EOFError, OSError) as error:
                    raise _lost(child, error) from None
            try:
                kind, value = child.connection.recv()
            except (EOFError, OSError) as error:
                lost = _lost(child, error)
                for _, tell in waiting:
                    tell(str(lost))
                raise lost from None
            finally:
                self._busy.discard(pid)
            self._idle.put(child)
            if kind == RAISED:
                raise value
            if callback is not None:
                callback(value)
            for done, _ in waiting:
                done()
            return value
        except Exception as error:
            logger.exception("A call to the pool failed: %r", error)
            if error_callback is not None:
                error_callback(ExceptionInfo())
            raise

    def _child(self) -> Child:
        with contextlib.suppress(Exception):
            return self._idle.get_nowait()
        near, far = socket.socketpair()
        socket.send_fds(self._nursery, [b"+"], [far.fileno()])
        far.close()
        return Child(Connection(near.detach()))

    def terminate_job(self, pid: int, number: int) -> None:
        """Send a signal to the process of a call that runs."""
        if pid in self._busy:
            os.kill(pid, number)

    def stop(self) -> None:
        """Finish what runs and what waits; then they end."""
        self._threads.shutdown(wait=True)
        self._close()

    def terminate(self) -> None:
        """End them, whatever runs."""
        for pid in list(self._busy):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._close()

    def _close(self) -> None:
        while not self._idle.empty():
            self._idle.get().connection.close()
        self._nursery.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


class Child:
    """A process that does calls, one after the other, until nobody holds the other end."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.pid = 0

    def hear(self, expected: int) -> Any:
        kind, *said = self.connection.recv()
        if kind != expected:
            raise OSError(f"process {self.pid} said {kind}, not {expected}")
        self.pid = said[0]
        return said


def _lost(child: Child, error: BaseException) -> WorkerLostError:
    who = f"process {child.pid}" if child.pid else "a process"
    return WorkerLostError(f"{who} of the pool ended in the middle of a call: {error!r}")


# -- in the processes ----------------------------------------------------------------------------


def _in_child(live: Callable[[], Any]) -> None:
    """Of a fork: what is further up the stack, and is to be done at exit, is the parent's."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the worker, too
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        live()
    except Exception:
        logger.exception("Process %d of the pool cannot go on", os.getpid())
    finally:
        os._exit(0)


def _serve_births(parent: socket.socket, begin: Callable[[], Any], end: Callable[[], Any]) -> None:
    """Make a child whenever the worker asks, until it is gone."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends with the worker
    os.setpgid(0, 0)
    while True:
        asked, descriptors, *_ = socket.recv_fds(parent, 1, 1)
        _reap()
        if not asked:
            _wait_for_the_end()
            return
        if os.fork() == 0:
            parent.close()
            connection = Connection(descriptors[0])
            _in_child(lambda: _do_calls(connection, begin, end))  # noqa: B023  # never returns
        os.close(descriptors[0])


def _reap() -> None:
    """Let go of those that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _wait_for_the_end() -> None:
    """The worker is gone, and has told the children so; a call that hangs is ended by force."""
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(0, signal.SIGKILL))
    signal.alarm(PARTING)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _do_calls(connection: Connection, begin: Callable[[], Any], end: Callable[[], Any]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    begin()
    while True:
        try:
            call = connection.recv_bytes()
        except EOFError:
            end()
            return
        connection.send((ACCEPTED, os.getpid(), monotonic()))
        try:
            target, args, kwargs = pickle.loads(call)  # noqa: S301  # the worker's own
            answer = RETURNED, target(*args, **kwargs)
        except Exception as error:
            answer = RAISED, error
        try:
            connection.send(answer)
        except Exception as error:  # it cannot be pickled
            connection.send((RAISED, RuntimeError(f"{answer[1]!r}: {error}")))
