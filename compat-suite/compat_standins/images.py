"""Images: which program stands for which, found by name as Docker would.

An image of a worker is built from a Dockerfile, which Celery's sdist does not even have: what
matters is its name and the build's arguments. ``dev`` installs Celery from the checkout under test,
which is the environment that the suite runs in; all others install what was released.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import servers
from .environments import Environments
from .errors import NoSuchImageError
from .machine import Machine, Program

Run = Callable[[Machine, Sequence[str]], Program]
DEVELOPMENT = "dev"
GUEST = Path(__file__).parent / "guest"


@dataclass(frozen=True)
class Image:
    """Something that containers can be made of."""

    id: str
    tags: tuple[str, ...]
    run: Run
    ports: tuple[str, ...] = ()
    """The ports that a container of it serves, published or not."""
    command: tuple[str, ...] = ()
    """What a container runs that is given no command."""
    environment: Mapping[str, str] = field(default_factory=dict)
    recycle: Callable[[Machine], None] | None = None
    """Makes a machine like new; only for what is slow to start."""


class Images:
    """The images of a session."""

    def __init__(self, environments: Environments) -> None:
        self._environments = environments
        self._known: dict[str, Image] = {}

    def get(self, name: str) -> Image:
        """The image of an id or a tag. Raises `NoSuchImageError`."""
        if name not in self._known:
            self._add(_server(name))
        return self._known[name]

    def pull(self, repository: str, tag: str | None = None, **_options: object) -> Image:
        return self.get(f"{repository}:{tag}" if tag else repository)

    def build(
        self,
        *,
        path: str = ".",
        dockerfile: str | None = None,
        tag: str | None = None,
        buildargs: Mapping[str, str] | None = None,
        **_options: object,
    ) -> tuple[Image, list[str]]:
        """The image of a worker, and an empty log; or one that only holds files."""
        arguments = dict(buildargs or {})
        if "CELERY_VERSION" in arguments:
            image = self._worker(Path(dockerfile or path).name, tag, arguments)
        else:
            image = Image(_fresh_id(), (tag,) if tag else (), _nothing)
        return self._add(image), []

    def _worker(self, dockerfile: str, tag: str | None, arguments: Mapping[str, str]) -> Image:
        version = arguments["CELERY_VERSION"]

        def run(machine: Machine, command: Sequence[str]) -> Program:
            if dockerfile == DEVELOPMENT:
                programs = self._environments.own
            else:
                programs = self._environments.released(version)
            return Program(command, environment={"PYTHONPATH": str(GUEST)}, path=[programs])

        command = [
            "celery",
            "-A",
            "app",
            "worker",
            f"--loglevel={arguments.get('CELERY_LOG_LEVEL', 'INFO')}",
        ]
        command += ["-n", f"{arguments.get('CELERY_WORKER_NAME', 'celery_test_worker')}@%h"]
        command += ["-Q", arguments.get("CELERY_WORKER_QUEUE", "celery")]
        environment = {
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            # A container's user is its own; here it may be root, at whom Celery takes offence.
            "C_FORCE_ROOT": "1",
        }
        return Image(
            _fresh_id(), (tag,) if tag else (), run, command=tuple(command), environment=environment
        )

    def _add(self, image: Image) -> Image:
        for name in (image.id, *image.tags):
            self._known[name] = image
        return image


def _server(name: str) -> Image:
    repository, _, tag = name.partition(":")
    if repository == "redis":
        return Image(_fresh_id(), (name,), servers.redis, ("6379/tcp",), ("redis-server",))
    if repository == "memcached":
        return Image(_fresh_id(), (name,), servers.memcached, ("11211/tcp",), ("memcached",))
    if repository == "rabbitmq":
        management = "management" in tag
        node = servers.RabbitMQ(management=management)
        ports = ("5672/tcp", "15672/tcp") if management else ("5672/tcp",)
        return Image(_fresh_id(), (name,), node, ports, recycle=node.recycle)
    raise NoSuchImageError(name)


def _nothing(_machine: Machine, _command: Sequence[str]) -> Program:
    return Program(["/bin/true"])


def _fresh_id() -> str:
    return f"sha256:{uuid.uuid4().hex}{uuid.uuid4().hex}"
