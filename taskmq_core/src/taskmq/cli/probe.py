"""The health of a worker, for probes (``taskmq health``): a Unix socket that speaks a little HTTP.

    curl --unix-socket /run/taskmq.sock http://worker/live

``/live`` and ``/ready`` answer 200 or 503, with a line of JSON. It is served by threads of its own
that only look at what the worker's loop noted down, so that an answer needs neither the loop nor
the store.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import socketserver
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from taskmq.errors import ConfigError
from taskmq.worker import Health

from .exits import CommandFailed, Exit

__all__ = ["HealthServer", "ask", "health"]

LONGEST_PATH = 100
"""What fits into the address of a Unix socket on every system."""
LINE = 4096
PATIENCE = 1.0
"""Seconds for a request to come in whole."""


def health(arguments: argparse.Namespace) -> int:
    """Whether a worker lives, or takes jobs: for probes."""
    question = "ready" if arguments.ready else "live"
    try:
        good, answer = ask(arguments.socket, question, arguments.timeout)
    except OSError as error:
        raise CommandFailed(
            f"no answer from a worker at {arguments.socket}: {error}", Exit.UNAVAILABLE
        ) from None
    print(f"{'' if good else 'not '}{question}: {answer.status}")
    return Exit.OK if good else Exit.FAILED


class HealthServer:
    """Answers at ``path`` with what ``health`` says. Raises `ConfigError` if it cannot be there."""

    def __init__(self, path: Path, health: Callable[[], Health]) -> None:
        self._path = path
        _make_room(path)
        try:
            self._server = _Server(str(path), health)
        except OSError as error:
            raise ConfigError(f"--health-socket: cannot listen at {path}: {error}") from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="taskmq-health", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End it and remove the socket."""
        if self._thread.ident is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        self._path.unlink(missing_ok=True)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: str, health: Callable[[], Health]) -> None:
        self.health = health
        super().__init__(address, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever asked has gone: nobody to tell."""


class _Handler(socketserver.StreamRequestHandler):
    timeout = PATIENCE
    server: _Server

    def handle(self) -> None:
        words = self.rfile.readline(LINE).split()
        while self.rfile.readline(LINE).strip():
            pass  # headers: what is not read would make the answer an error
        wanted = words[1].decode(errors="replace") if len(words) > 1 else ""
        health = self.server.health()
        answers = {"/live": health.live, "/ready": health.ready}
        good = answers.get(wanted)
        code = "404 Not Found" if good is None else "200 OK" if good else "503 Service Unavailable"
        body = msgspec.json.encode(health) + b"\n"
        head = f"HTTP/1.0 {code}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        self.wfile.write(head.encode() + b"\r\n\r\n" + body)


def ask(path: Path, question: str, timeout: float) -> tuple[bool, Health]:
    """The answer of the worker at ``path`` to ``live`` or ``ready``. Raises ``OSError``."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(timeout)
        client.connect(str(path))
        client.sendall(f"GET /{question} HTTP/1.0\r\n\r\n".encode())
        answer = b""
        while part := client.recv(LINE):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    try:
        return head.split()[1] == b"200", msgspec.json.decode(body, type=Health)
    except (IndexError, msgspec.DecodeError):
        raise OSError(f"no worker answers at {path}, but something else") from None


def _make_room(path: Path) -> None:
    """Remove the socket of a worker that is gone."""
    if len(str(path)) > LONGEST_PATH:
        raise ConfigError(f"--health-socket: {path} is longer than {LONGEST_PATH} characters")
    if not path.is_socket():
        return  # nothing there, or something that is not ours to remove: binding tells
    with contextlib.suppress(OSError):
        ask(path, "live", PATIENCE)
        raise ConfigError(f"--health-socket: another worker answers at {path}")
    path.unlink(missing_ok=True)
