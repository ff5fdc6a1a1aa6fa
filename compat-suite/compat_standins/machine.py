"""What a container is here: an address, a folder, and a family of processes.

The address is one of 127.0.0.0/8, which are all this machine on Linux: a server keeps its usual
port there, whatever else runs. It serves as the name of the host as well, so that it needs no
resolver, and it has twelve characters always: the name of a container's host is by Docker's rule
the first twelve of the container's id.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.services.service import LAUNCH

from . import family
from .errors import StandinError
from .limits import ProcessorLimit
from .ports import Ports

TWO_DIGITS = range(10, 100)
# Variables of this process that a container gets as well, as an image would set them.
INHERITED = ("LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
ANSWER_SECONDS = 120.0
KILL_SECONDS = 30.0
POLL_SECONDS = 0.01


def fresh_address(ports: Iterable[int]) -> str:
    """An address that no container of any session has, and nobody listens at any of the ports."""
    ports = list(ports)
    for _ in range(1000):
        address = ".".join(["127", *(str(random.choice(TWO_DIGITS)) for _ in range(3))])
        if not family.members(address) and not any(accepts(address, port) for port in ports):
            return address
    raise StandinError("no free address in 127.0.0.0/8")


def accepts(address: str, port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as client:
        client.settimeout(2)
        return client.connect_ex((address, port)) == 0


@dataclass(frozen=True)
class Program:
    """What runs in a machine: its main process, and what else starts there."""

    command: Sequence[str | Path]
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    """Where it starts; by default the machine's own folder."""
    path: Sequence[Path] = ()
    """Folders of programs, before those of the system."""
    stop_signal: signal.Signals = signal.SIGTERM
    processors: frozenset[int] | None = None
    """The processors that it may use; all by default."""
    quota: tuple[int, int] | None = None
    """Microseconds of processor time, and those in which it may use them."""


@dataclass(frozen=True)
class Published:
    """A port of the address, and its port on 127.0.0.1."""

    inner: int
    outer: int


class Machine:
    """A family of processes that lives and dies as one, with an address and a log."""

    def __init__(self, home: Path, ports: Ports, published: Sequence[Published]) -> None:
        self.address = fresh_address(each.inner for each in published)
        self.folder = home / self.address
        self.folder.mkdir()
        self.log_path = self.folder / "log"
        self.log_path.touch()
        self.published = tuple(published)
        self.program: Program | None = None
        self.state = "created"
        self.exit_code = 0
        self.is_pristine = True
        """Whether nobody has troubled it since its start."""
        self._ports = ports
        self._process: subprocess.Popen[bytes] | None = None
        self._limit: ProcessorLimit | None = None
        self._watch: threading.Thread | None = None
        # States change where they are asked for and where the main process is waited for.
        self._lock = threading.RLock()

    def environment(self) -> dict[str, str]:
        """For every process in it."""
        assert self.program is not None
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        path = ":".join([*map(str, self.program.path), SYSTEM_PATH])
        own = {"HOSTNAME": self.address, "HOME": str(self.folder), family.VARIABLE: self.address}
        return inherited | dict(self.program.environment) | {"PATH": path} | own

    @property
    def pid(self) -> int:
        """The main process; 0 when there is none."""
        return self._process.pid if self._process and self.state != "exited" else 0

    def start(self, program: Program | None = None) -> None:
        """Start the program, by default the one it ran before. Returns when its ports answer.

        One that ends before it answers is no error here: it has exited, and its log says why.
        """
        if self._process is not None:
            self.is_pristine = False
        self._wait_for_end()
        self.program = program or self.program
        assert self.program is not None
        if self.program.quota is not None and self._limit is None:
            self._limit = ProcessorLimit(self.address, *self.program.quota)
        limited = self._limit.command() if self._limit else []
        with self.log_path.open("ab") as log, self._lock:
            self._process = subprocess.Popen(
                [
                    "/bin/sh",
                    "-c",
                    LAUNCH,
                    self.folder / "main.pid",
                    *limited,
                    *_pinned(self.program.processors),
                    *self.program.command,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment(),
                cwd=self.program.folder or self.folder,
                start_new_session=True,
            )
            self.state = "running"
        self._watch = threading.Thread(target=self._await_end, args=[self._process], daemon=True)
        self._watch.start()
        self._wait_for_answers()

    def republish(self, outer: Sequence[int]) -> None:
        """Publish the same ports elsewhere; connections through the old places are cut off."""
        for each in self.published:
            self._ports.withdraw(each.outer)
        pairs = zip(self.published, outer, strict=True)
        self.published = tuple(Published(each.inner, port) for each, port in pairs)
        for each in self.published:
            self._ports.publish(each.outer, self.address, each.inner)

    def signal(self, number: signal.Signals) -> None:
        """To the main process; SIGKILL ends the family, and is waited for."""
        self.is_pristine = False
        if self._process is None or self.state == "exited":
            raise StandinError(f"container {self.address} is not running")
        if number is signal.SIGKILL:
            self.kill()
        else:
            self._process.send_signal(number)

    def stop(self, seconds: float) -> None:
        """Ask the main process to end, and kill it when it does not within the time."""
        self.is_pristine = False
        if self._process is None or self.state == "exited":
            return
        assert self.program is not None
        self.resume()
        self._process.send_signal(self.program.stop_signal)
        if not self._wait_for_end(seconds):
            self.kill()

    def kill(self) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.kill()
        if not self._wait_for_end(KILL_SECONDS):
            raise StandinError(f"container {self.address} does not end")

    def pause(self) -> None:
        """No process of it runs until `resume`."""
        self.is_pristine = False
        with self._lock:
            if self.state != "running":
                raise StandinError(f"container {self.address} is not running")
            family.freeze(self.address)
            self.state = "paused"

    def resume(self) -> None:
        with self._lock:
            if self.state == "paused":
                family.send(self.address, signal.SIGCONT)
                self.state = "running"

    def wait(self, seconds: float | None = None) -> int:
        """The exit code of the main process, once it has ended."""
        if not self._wait_for_end(seconds):
            raise StandinError(f"container {self.address} has not ended within {seconds} s")
        return self.exit_code

    def remove(self) -> None:
        """Kill it and remove its folder."""
        self.kill()
        if self._limit is not None:
            self._limit.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait_for_end(self, seconds: float | None = None) -> bool:
        if self._watch is not None:
            self._watch.join(seconds)
        return self.state in ("created", "exited")

    def _wait_for_answers(self) -> None:
        deadline = time.monotonic() + ANSWER_SECONDS
        for each in self.published:
            while not accepts(self.address, each.inner):
                if self.state == "exited" or time.monotonic() > deadline:
                    return
                time.sleep(POLL_SECONDS)
            self._ports.publish(each.outer, self.address, each.inner)

    def _await_end(self, process: subprocess.Popen[bytes]) -> None:
        """The first process of a container takes all others with it."""
        code = process.wait()
        for each in self.published:
            self._ports.withdraw(each.outer)
        family.end(self.address)
        (self.folder / "main.pid").unlink(missing_ok=True)
        with self._lock:
            self.exit_code = code if code >= 0 else 128 - code
            self.state = "exited"


def _pinned(processors: frozenset[int] | None) -> list[str]:
    """The beginning of a command that may use these processors only."""
    if processors is None:
        return []
    return ["taskset", "--cpu-list", ",".join(map(str, sorted(processors)))]
