"""The client: images, containers, networks and volumes, under the names of the Docker SDK."""

from __future__ import annotations

import contextlib
import shlex
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tests import services

from . import errors
from .container import Container, Order
from .environments import Environments
from .images import Image, Images
from .machine import Machine, Published
from .ports import Ports

Mount = Mapping[str, str]
# Docker's own, in microseconds.
CPU_PERIOD = 100_000


@dataclass(frozen=True)
class Network:
    """Every container reaches every other, whatever the network: this is only a name."""

    id: str
    name: str

    def remove(self) -> None:
        """Nothing is left of it."""


@dataclass(frozen=True)
class Volume:
    """A folder; it stays until the session ends, as containers may still be in it."""

    id: str
    name: str
    path: Path

    def remove(self, force: bool = False) -> None:
        """The session's end removes it."""


class Networks:
    def __init__(self) -> None:
        self._known: dict[str, Network] = {}

    def create(self, name: str, **_options: object) -> Network:
        return self._known.setdefault(name, Network(uuid.uuid4().hex, name))

    def get(self, name: str) -> Network:
        if name not in self._known:
            raise errors.StandinError(f"no network {name}")
        return self._known[name]


class Volumes:
    def __init__(self, home: Path) -> None:
        self._home = home
        self._known: dict[str, Volume] = {}

    def create(self, name: str | None = None, **_options: object) -> Volume:
        name = name or f"volume-{uuid.uuid4().hex}"
        path = self._home / name
        path.mkdir(exist_ok=True)
        return self._known.setdefault(name, Volume(name, name, path))

    def get(self, name: str) -> Volume:
        if name not in self._known:
            raise errors.StandinError(f"no volume {name}")
        return self._known[name]


class Containers:
    """The containers of a session."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, Container] = {}
        self._spare: dict[tuple[str, tuple[str, ...]], list[Spare]] = {}

    def create(
        self,
        image: str | Image,
        command: str | Sequence[str | None] | None = None,
        *,
        name: str | None = None,
        environment: Mapping[str, object] | Sequence[str] | None = None,
        volumes: Mapping[str, Mount] | None = None,
        network: str | None = None,
        ports: Mapping[str, object] | None = None,
        labels: Mapping[str, str] | None = None,
        cpuset_cpus: str | None = None,
        cpu_quota: int = 0,
        cpu_period: int = CPU_PERIOD,
        **_options: object,
    ) -> Container:
        """A container that does not run yet. Raises `NoSuchImageError`."""
        found = image if isinstance(image, Image) else self._client.images.get(image)
        words = shlex.split(command) if isinstance(command, str) else command or found.command
        bindings = {
            port if "/" in port else f"{port}/tcp": int(str(wanted)) if wanted else None
            for port, wanted in (ports or {}).items()
        }
        order = Order(
            name=name or f"standin-{uuid.uuid4().hex[:12]}",
            image=found,
            # An empty argument arrives as None: pytest-docker-tools has no template in it.
            command=tuple(each or "" for each in words),
            environment={**found.environment, **_variables(environment)},
            mounts=self._mounts(volumes or {}),
            network=network or "bridge",
            bindings=bindings,
            labels=labels or {},
            processors=_processors(cpuset_cpus),
            quota=(cpu_quota, cpu_period) if cpu_quota > 0 else None,
        )
        container = Container(self._client, order, self._machine(order))
        self._known[container.id] = container
        return container

    def run(
        self,
        image: str | Image,
        command: str | Sequence[str | None] | None = None,
        **options: object,
    ) -> Container:
        """A container that runs. Those that serve ports answer there when this returns."""
        options.pop("detach", None)
        container = self.create(image, command, **options)  # type: ignore[arg-type]  # as `create` says
        container.start()
        container.reload()
        return container

    def get(self, name: str) -> Container:
        """By id, short id or name."""
        for each in self._known.values():
            if name in (each.id, each.short_id, each.name):
                return each
        raise errors.StandinError(f"no container {name}")

    def list(self, **_options: object) -> list[Container]:
        return list(self._known.values())

    def forget(self, container: Container) -> None:
        """Remove it; a server that is slow to start, and was not troubled, is kept for another."""
        self._known.pop(container.id, None)
        machine = container.machine
        recycle = container.image.recycle
        if recycle is None or not machine.is_pristine or machine.state != "running":
            machine.remove()
            return
        self._spare.setdefault(_kind(container.order), []).append(Spare(machine, container.image))

    def close(self) -> None:
        for container in list(self._known.values()):
            container.machine.remove()
        for spares in self._spare.values():
            for each in spares:
                each.machine.remove()
        self._known.clear()
        self._spare.clear()

    def _machine(self, order: Order) -> Machine:
        outer = [wanted or services.free_port() for wanted in order.bindings.values()]
        spares = self._spare.get(_kind(order), [])
        while spares:
            spare = spares.pop()
            with contextlib.suppress(services.ServiceError):
                spare.refresh(outer)
                return spare.machine
            spare.machine.remove()
        inner = [int(port.split("/")[0]) for port in order.bindings]
        published = [Published(*each) for each in zip(inner, outer, strict=True)]
        return Machine(self._client.home.path, self._client.ports, published)

    def _mounts(self, volumes: Mapping[str, Mount]) -> dict[PurePosixPath, Path]:
        return {
            PurePosixPath(mount["bind"]): Path(source)
            if source.startswith("/")
            else self._client.volumes.create(source).path
            for source, mount in volumes.items()
        }


@dataclass(frozen=True)
class Spare:
    """A server that served a container which is gone."""

    machine: Machine
    image: Image

    def refresh(self, outer: Sequence[int]) -> None:
        """Like new, its log included, and at other ports of this machine.

        Clients keep pools of connections by URL; under an old one they would find those that broke.
        """
        assert self.image.recycle is not None
        self.image.recycle(self.machine)
        self.machine.republish(outer)


class Client:
    """What pytest-docker-tools takes for Docker.

    `released` is the Python of an environment with the latest Celery released, by default the one
    that runs this; `cache` keeps environments with other versions.
    """

    def __init__(self, *, released: Path | None, cache: Path) -> None:
        self.home = services.Home()
        self.ports = Ports()
        self.images = Images(Environments(released and released.parent, cache))
        self.networks = Networks()
        self.volumes = Volumes(self.home.path)
        self.containers = Containers(self)

    def close(self) -> None:
        """End every process and remove every file."""
        self.containers.close()
        self.ports.close()
        self.home.close()


def _kind(order: Order) -> tuple[str, tuple[str, ...]]:
    """Containers of one kind can be given the same machine, one after the other."""
    return order.image.id, (*order.command, *sorted(order.bindings))


def _variables(given: Mapping[str, object] | Sequence[str] | None) -> dict[str, str]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {name: str(value) for name, value in given.items()}
    return dict(each.partition("=")[::2] for each in given)


def _processors(listed: str | None) -> frozenset[int] | None:
    """Those of a list such as ``0,2-3``."""
    if not listed:
        return None
    numbers: set[int] = set()
    for each in listed.split(","):
        first, _, last = each.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return frozenset(numbers)
