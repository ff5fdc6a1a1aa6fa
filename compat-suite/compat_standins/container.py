"""One container, with the attributes and calls that the Docker SDK gives it."""

from __future__ import annotations

import io
import shlex
import signal
import subprocess
import tarfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from .errors import StandinError
from .images import Image
from .machine import Machine, Program

if TYPE_CHECKING:
    from .client import Client

STOP_SECONDS = 10.0
# Between the call and the signal Docker's daemon and runtime take their time. Tests count on it:
# they restart a broker just after they have published, and send the same signal twice, though of
# two that wait to be handled the kernel keeps one.
DELIVERY_SECONDS = 0.3
WORKING_FOLDER = "/app"


class ExecResult(NamedTuple):
    """What a command left behind."""

    exit_code: int | None
    output: bytes


@dataclass(frozen=True)
class Order:
    """How a container was asked for."""

    name: str
    image: Image
    command: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: Mapping[PurePosixPath, Path]
    """The folders and files of this machine that the container sees, by their place there."""
    network: str
    bindings: Mapping[str, int | None]
    """Published ports, ``"6379/tcp"``, each with the port that was asked for."""
    labels: Mapping[str, str] = field(default_factory=dict)
    processors: frozenset[int] | None = None
    quota: tuple[int, int] | None = None


class Container:
    """A container made of processes.

    `attrs` and what is read from it are as old as the last `reload`, as in the SDK.
    """

    def __init__(self, client: Client, order: Order, machine: Machine) -> None:
        self.client = client
        self.order = order
        self.machine = machine
        # Its first twelve characters are the name of its host.
        self.id = machine.address + uuid.uuid4().hex
        self.name = order.name
        self.image = order.image
        self.labels = dict(order.labels)
        self.attrs: dict[str, Any] = {}
        self.reload()

    @property
    def short_id(self) -> str:
        return self.id[:12]

    @property
    def status(self) -> str:
        return str(self.attrs["State"]["Status"])

    def reload(self) -> None:
        """Look at the machine again."""
        state = self.machine.state
        lives = state in ("running", "paused")
        self.attrs = {
            "Id": self.id,
            "Name": f"/{self.name}",
            "Config": {
                "Hostname": self.machine.address,
                "Image": self.image.id,
                "Cmd": list(self.order.command),
                "Env": [f"{name}={value}" for name, value in self.order.environment.items()],
                "Labels": self.labels,
                "WorkingDir": WORKING_FOLDER,
            },
            "State": {
                "Status": state,
                "Running": lives,
                "Paused": state == "paused",
                "Pid": self.machine.pid,
                "ExitCode": self.machine.exit_code,
            },
            "HostConfig": {
                "PortBindings": {
                    port: [{"HostIp": "", "HostPort": str(wanted or "")}]
                    for port, wanted in self.order.bindings.items()
                }
            },
            "Mounts": [
                {"Source": str(source), "Destination": str(target)}
                for target, source in self.order.mounts.items()
            ],
            "NetworkSettings": {
                "IPAddress": self.machine.address if lives else "",
                "Networks": {
                    self.order.network: {"IPAddress": self.machine.address if lives else ""}
                },
                "Ports": self._ports() if lives else {},
            },
        }

    def start(self) -> None:
        if self.machine.program is None:
            self.machine.start(self._program())
        elif self.machine.state == "exited":
            self.machine.start()

    def kill(self, signal: str | int | None = None) -> None:
        """Send a signal to the main process, by default SIGKILL."""
        time.sleep(DELIVERY_SECONDS)
        self.machine.signal(_signal(signal))

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Ask it to end, and kill it if it has not within the time."""
        time.sleep(DELIVERY_SECONDS)
        self.machine.stop(timeout)

    def restart(self, timeout: float = STOP_SECONDS) -> None:
        """Stop it if it runs, and start it: same address, same files, same log."""
        self.stop(timeout)
        self.start()

    def pause(self) -> None:
        self.machine.pause()

    def unpause(self) -> None:
        self.machine.resume()

    def wait(self, timeout: float | None = None, **_options: object) -> dict[str, Any]:
        return {"StatusCode": self.machine.wait(timeout), "Error": None}

    def remove(self, force: bool = False, **_options: object) -> None:
        """Forget it; one that runs has to be forced."""
        if self.machine.state in ("running", "paused") and not force:
            raise StandinError(f"container {self.name} is running: stop it before it is removed")
        self.client.containers.forget(self)

    def logs(self, *, tail: int | str = "all", **_options: object) -> bytes:
        """What its processes have written, both streams, since it was made."""
        written = self.machine.log_path.read_bytes() if self.machine.log_path.exists() else b""
        if tail == "all":
            return written
        return b"".join(written.splitlines(keepends=True)[-int(tail) :])

    def exec_run(
        self,
        cmd: str | Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        workdir: str | None = None,
        detach: bool = False,
        **_options: object,
    ) -> ExecResult:
        """Run a command inside; without `detach`, to its end."""
        if self.machine.state != "running":
            raise StandinError(f"container {self.name} is not running")
        command = [self.inner(each) for each in (shlex.split(cmd) if isinstance(cmd, str) else cmd)]
        process = subprocess.Popen(
            # The shell finds the program on the PATH of the container.
            ["/bin/sh", "-c", 'exec "$@"', "sh", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if detach else subprocess.PIPE,
            stderr=subprocess.DEVNULL if detach else subprocess.STDOUT,
            env=self.machine.environment() | dict(environment or {}),
            cwd=self.host_path(workdir) if workdir else self._folder(),
            start_new_session=True,
        )
        if detach:
            # It ends with the container at the latest; nobody waits for it.
            process.returncode = 0
            return ExecResult(None, b"")
        output, _ = process.communicate()
        return ExecResult(process.returncode, output)

    def put_archive(self, path: str, data: bytes | IO[bytes]) -> bool:
        """Unpack a tar archive inside."""
        stream = io.BytesIO(data) if isinstance(data, bytes) else data
        folder = self.host_path(path)
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=stream) as archive:
            archive.extractall(folder, filter="data")
        return True

    def get_archive(self, path: str, **_options: object) -> tuple[Iterator[bytes], dict[str, Any]]:
        """A file or folder as a tar archive, in pieces, and what it is."""
        source = self.host_path(path)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(source, arcname=source.name)
        found = {"name": source.name, "size": source.stat().st_size}
        return iter([packed.getvalue()]), found

    def host_path(self, path: str) -> Path:
        """Where something of the container is on this machine: in a mount, or in its own folder."""
        inside = PurePosixPath(path)
        for target in sorted(self.order.mounts, key=lambda each: len(each.parts), reverse=True):
            if inside.is_relative_to(target):
                return self.order.mounts[target] / inside.relative_to(target)
        return self.machine.folder / "root" / inside.relative_to("/")

    def inner(self, value: str) -> str:
        """A path, or several with colons between, as processes here know it; else unchanged."""
        return ":".join(
            str(self.host_path(each)) if self._is_mounted(each) else each
            for each in value.split(":")
        )

    def _is_mounted(self, path: str) -> bool:
        return any(PurePosixPath(path).is_relative_to(target) for target in self.order.mounts)

    def _program(self) -> Program:
        command = [self.inner(each) for each in self.order.command]
        program = self.image.run(self.machine, command)
        given = {name: self.inner(value) for name, value in self.order.environment.items()}
        # Both say where modules are: what is seen of the machine comes before what is imported.
        paths = [
            each["PYTHONPATH"] for each in (program.environment, given) if "PYTHONPATH" in each
        ]
        searched = {"PYTHONPATH": ":".join(paths)} if paths else {}
        return Program(
            program.command,
            environment={**program.environment, **given, **searched},
            folder=self._folder(),
            path=program.path,
            stop_signal=program.stop_signal,
            processors=self.order.processors,
            quota=self.order.quota,
        )

    def _folder(self) -> Path:
        return (
            self.host_path(WORKING_FOLDER)
            if self._is_mounted(WORKING_FOLDER)
            else self.machine.folder
        )

    def _ports(self) -> dict[str, list[dict[str, str]] | None]:
        outer = {each.inner: each.outer for each in self.machine.published}
        return {
            port: [{"HostIp": "127.0.0.1", "HostPort": str(outer[int(port.split("/")[0])])}]
            if port in self.order.bindings
            else None
            for port in {**dict.fromkeys(self.image.ports), **self.order.bindings}
        }


def _signal(name: str | int | None) -> signal.Signals:
    if name is None:
        return signal.SIGKILL
    if isinstance(name, int):
        return signal.Signals(name)
    full = name if name.startswith("SIG") else f"SIG{name}"
    return signal.Signals[full]
