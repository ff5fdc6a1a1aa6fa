"""A debugger for tasks: pdb over a socket, since a worker has no terminal.

>>> from celery.contrib import rdb
>>> rdb.set_trace()  # in a task; the worker says which port to telnet to

``CELERY_RDB_HOST`` and ``CELERY_RDB_PORT`` say where it listens; the next free port is taken.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
from pdb import Pdb
from types import FrameType
from typing import Any

from billiard.process import current_process

__all__ = (
    "CELERY_RDB_HOST",
    "CELERY_RDB_PORT",
    "DEFAULT_PORT",
    "Rdb",
    "debugger",
    "set_trace",
)

DEFAULT_PORT = 6899
CELERY_RDB_HOST = os.environ.get("CELERY_RDB_HOST") or "127.0.0.1"
CELERY_RDB_PORT = int(os.environ.get("CELERY_RDB_PORT") or DEFAULT_PORT)

PORTS = 100
"""How many ports are tried."""

BANNER = """\
{ident}: Ready to connect: telnet {host} {port}

Type `exit` in session to continue.

{ident}: Waiting for client...
"""
BEGUN = "{ident}: Now in session with {address}.\n"
ENDED = "{ident}: Session with {address} ended.\n"

_current: list[Any] = [None]
_frame = sys._getframe


class Rdb(Pdb):
    """Pdb whose commands come from whoever connects. It waits until somebody does."""

    me = "Remote Debugger"
    active = False

    def __init__(
        self,
        host: str = CELERY_RDB_HOST,
        port: int = CELERY_RDB_PORT,
        port_search_limit: int = PORTS,
        port_skew: int = 0,
        out: Any = None,
    ) -> None:
        self.out = sys.stdout if out is None else out
        self._printed_to, self._read_from = sys.stdout, sys.stdin
        self._handle: Any = None
        self._writer: Any = None
        self._client: Any = None
        self._sock: Any
        self._sock, port = self.get_avail_port(host, port, port_search_limit, port_skew)
        self._sock.setblocking(True)
        self._sock.listen(1)
        self.ident = f"{self.me}:{port}"
        self.host, self.port = host, port
        self.say(BANNER.format(ident=self.ident, host=host, port=port))
        self._client, address = self._sock.accept()
        self._client.setblocking(True)
        self.remote_addr = ":".join(str(part) for part in address)
        self.say(BEGUN.format(ident=self.ident, address=self.remote_addr))
        # One for each direction: a file for both forgets what was read ahead when it writes.
        self._handle = sys.stdin = self._client.makefile("r")
        self._writer = sys.stdout = self._client.makefile("w")
        super().__init__(completekey="tab", stdin=self._handle, stdout=self._writer)
        self.active = True

    def get_avail_port(
        self, host: str, port: int, search_limit: int = PORTS, skew: int = 0
    ) -> tuple[Any, int]:
        """A socket bound to the first free port from ``port`` on. Raises ``OSError``."""
        # The children of a pool look in different places.
        with contextlib.suppress(ValueError):
            skew += int(current_process().name.rpartition("-")[2])
        for candidate in range(port + skew, port + skew + search_limit):
            bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                bound.bind((host, candidate))
            except OSError as error:
                bound.close()
                if error.errno not in (errno.EADDRINUSE, errno.EINVAL):
                    raise
            else:
                return bound, candidate
        raise OSError(
            errno.EADDRINUSE,
            f"{self.me}: no port from {port} on is free; say another with CELERY_RDB_PORT",
        )

    def say(self, m: str) -> None:
        """Tell whoever looks at the worker."""
        self.out.write(f"{m}\n")

    def __enter__(self) -> Rdb:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._close_session()

    def _close_session(self) -> None:
        sys.stdin, sys.stdout = self._read_from, self._printed_to
        if not self.active:
            return
        for each in (self._writer, self._handle, self._client, self._sock):
            if each is not None:
                each.close()
        self.active = False
        self.say(ENDED.format(ident=self.ident, address=self.remote_addr))

    def do_continue(self, arg: str) -> bool:
        """Let the program go on."""
        self._close_session()
        self.set_continue()
        return True

    do_c = do_cont = do_continue

    def do_quit(self, arg: str) -> bool:
        """End the session."""
        self._close_session()
        self.set_quit()
        return True

    do_q = do_exit = do_quit

    def set_quit(self) -> None:
        # Not Pdb's, which ends the program: here that is a worker.
        sys.settrace(None)

    def set_trace(self, frame: FrameType | None = None, **kwargs: Any) -> None:
        """Stop here, or where ``frame`` is."""
        try:
            super().set_trace(_frame().f_back if frame is None else frame)
        except OSError as error:
            if error.errno != errno.ECONNRESET:  # the user has hung up
                raise


def debugger() -> Any:
    """The debugger of this process; one is made, and waited for, if there is none."""
    found = _current[0]
    if found is None or not found.active:
        found = _current[0] = Rdb()
    return found


def set_trace(frame: FrameType | None = None) -> Any:
    """Stop here, and let somebody connect."""
    return debugger().set_trace(_frame().f_back if frame is None else frame)
