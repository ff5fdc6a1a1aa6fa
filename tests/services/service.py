"""What all servers have in common: a place, a process, and the ways to trouble it."""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar, TypeVar

from .home import Home
from .processes import descendants, signal_family
from .programs import find_program

HOST = "127.0.0.1"
# Below the ports that the kernel gives to outgoing connections: a port that is free again while its
# server restarts stays free.
PORTS = range(12000, 22000)
# A machine under load takes its time; nobody waits longer than the server needs.
START_SECONDS = 90.0
STOP_SECONDS = 30.0
# The process id is on disk before the server's program runs, so that the guard knows it.
LAUNCH = 'echo $$ >"$0" || exit 1; exec "$@"'

# Variables that the servers and their clients read.
SETTINGS = ("ERL_", "PG", "RABBITMQ_", "REDISCLI_")

S = TypeVar("S", bound="Service")


class ServiceError(Exception):
    """A server did not do what it was asked; the message ends with the tail of its log."""


@dataclass(frozen=True)
class Place:
    """Where a server lives: its folder and its TCP ports by name."""

    folder: Path
    ports: Mapping[str, int]


def free_port() -> int:
    """A TCP port that nobody listens on. Raises `ServiceError` when none is found."""
    for port in random.sample(PORTS, 200):
        with socket.socket() as candidate:
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                candidate.bind((HOST, port))
                return port
    raise ServiceError(f"no free port between {PORTS.start} and {PORTS.stop}")


def as_user(name: str) -> list[str]:
    """The beginning of a command that root runs as somebody else; nobody else can or need to."""
    if os.geteuid() != 0:
        return []
    group = pwd.getpwnam(name).pw_gid
    return ["setpriv", f"--reuid={name}", f"--regid={group}", "--init-groups", "--"]


class Service:
    """One server. `start` it, or use it as a context manager.

    Ports and folder stay the same from `start` to `close`, however often it restarts between.
    """

    program: ClassVar[str]
    """The program that has to be installed."""
    port_names: ClassVar[tuple[str, ...]] = ("main",)

    def __init__(self, *, home: Home | None = None, place: Place | None = None) -> None:
        """In a home of its own, in one that is shared, or the handle of one started elsewhere."""
        self._own_home: Home | None = None
        if place is None:
            if home is None:
                find_program(self.program)
                home = self._own_home = Home()
            ports = {name: free_port() for name in self.port_names}
            folder = home.path / f"{type(self).__name__.lower()}-{next(iter(ports.values()))}"
            folder.mkdir()
            place = Place(folder, ports)
        self.place = place
        self.log_path = self.folder / "log"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._is_prepared = False

    # What a kind of server says of itself.

    def prepare(self) -> None:
        """Make what the server needs before its first start."""

    def command(self) -> Sequence[str | Path]:
        """What runs the server in the foreground."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """For the server and its clients: without anybody's settings for them, in English."""
        inherited = os.environ.items()
        clean = {name: value for name, value in inherited if not name.startswith(SETTINGS)}
        return clean | {"LC_ALL": "C.UTF-8"}

    def answers(self) -> bool:
        """Whether a client could work now; an `OSError` says no as well."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        raise NotImplementedError

    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    # What everybody may ask of it.

    @property
    def folder(self) -> Path:
        return self.place.folder

    @property
    def port(self) -> int:
        return next(iter(self.place.ports.values()))

    @property
    def log(self) -> str:
        """What the server has written so far."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    @property
    def pid(self) -> int:
        """The process id of the server. Raises `ServiceError` when it was not started here."""
        if "main" not in self._processes:
            raise ServiceError(f"{self} does not run")
        return self._processes["main"].pid

    @property
    def is_running(self) -> bool:
        process = self._processes.get("main")
        return process is not None and process.poll() is None

    def memory(self) -> int:
        """Resident bytes of the server and all its children; memory they share counts once."""
        total = 0
        for pid in descendants(self.pid):
            with contextlib.suppress(OSError):
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return total * 1024

    def start(self: S) -> S:
        """Start it and wait until it answers. Raises `ServiceError` when it does not."""
        try:
            if not self._is_prepared:
                self.prepare()
                self._is_prepared = True
            self.launch("main", self.command())
            self.wait_until_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Stop it in an orderly way; its folder stays, and `start` starts it again."""
        process = self._processes.get("main")
        if process is not None and process.poll() is None:
            process.send_signal(self.stop_signal)
            # One that is paused would never know.
            self.resume()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                raise self._error("did not stop") from None
        self.kill()

    def kill(self) -> None:
        """SIGKILL, to the server and its children."""
        for process in self._processes.values():
            if process.poll() is None:
                signal_family(process.pid, signal.SIGKILL)
            process.wait()
        for name in self._processes:
            self._pid_path(name).unlink(missing_ok=True)
        self._processes.clear()

    def restart(self: S) -> S:
        """Stop it if it runs, and start it on the same port and folder."""
        self.stop()
        return self.start()

    def pause(self) -> None:
        """SIGSTOP: the kernel still accepts connections and takes bytes, nobody answers."""
        signal_family(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        signal_family(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill it and remove its folder, if the folder is its own."""
        self.kill()
        if self._own_home is not None:
            self._own_home.close()

    def disown(self) -> None:
        """Leave it running for others, until its home's owner ends: no call here reaches it now."""
        for process in self._processes.values():
            process.returncode = 0
        self._processes.clear()

    def __enter__(self: S) -> S:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __str__(self) -> str:
        return f"{type(self).__name__} on port {self.port}"

    # For the kinds of servers.

    def launch(self, name: str, command: Sequence[str | Path]) -> None:
        """Start one process of the server, known by `name`."""
        arguments = ["/bin/sh", "-c", LAUNCH, self._pid_path(name), *command]
        with self.log_path.open("ab") as log:
            self._processes[name] = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment(),
                cwd=self.folder,
                start_new_session=True,
            )

    def run(self, *command: str | Path, request: str = "") -> str:
        """Run a program to its end and give its output. Raises `ServiceError` when it fails."""
        program = Path(command[0]).name
        try:
            done = subprocess.run(
                command,
                input=request,
                capture_output=True,
                text=True,
                env=self.environment(),
                cwd="/",
                timeout=START_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise self._error(f"kept {program} waiting for {START_SECONDS:.0f} s") from None
        if done.returncode:
            raise self._error(f"{program} failed: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if self.answers():
                    return
            if not self.is_running:
                raise self._error("ended at its start")
            time.sleep(0.01)
        raise self._error(f"did not come up within {START_SECONDS:.0f} s")

    def exchange(self, request: bytes, port: int) -> bytes:
        """The first bytes of the answer to a request on a new connection."""
        with socket.create_connection((HOST, port), timeout=2) as connection:
            connection.sendall(request)
            return connection.recv(256)

    def _pid_path(self, name: str) -> Path:
        return self.folder / f"{name}.pid"

    def _error(self, what: str) -> ServiceError:
        tail = "\n".join(self.log.splitlines()[-15:]) or "(empty)"
        return ServiceError(f"{self} {what}; the end of its log:\n{tail}")
