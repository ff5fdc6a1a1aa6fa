"""A private RabbitMQ."""

from __future__ import annotations

import contextlib
import socket
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from .home import Home
from .programs import find_program
from .service import HOST, START_SECONDS, Place, Service, ServiceError

NODE = "taskmq@localhost"
COOKIE = "taskmq"
ACTOR = '<<"tests">>'


class RabbitMQ(Service):
    """One RabbitMQ node without plugins, user ``guest`` with password ``guest``.

    It has a port mapper (epmd) of its own, so that neither another node nor another epmd on the
    machine matters. `options` are lines of rabbitmq.conf by name.
    """

    program = "rabbitmq-server"
    port_names = ("amqp", "distribution", "epmd")

    def __init__(
        self,
        options: Mapping[str, str | int] | None = None,
        *,
        home: Home | None = None,
        place: Place | None = None,
    ) -> None:
        super().__init__(home=home, place=place)
        self.options = dict(options or {})

    @property
    def url(self) -> str:
        return self.url_of("/")

    def url_of(self, vhost: str) -> str:
        """The URL of one virtual host."""
        return f"amqp://guest:guest@{HOST}:{self.port}/{quote(vhost, safe='')}"

    def prepare(self) -> None:
        settings: dict[str, str | int] = {
            "listeners.tcp.1": f"{HOST}:{self.port}",
            "log.console": "true",
            "log.console.level": "info",
            "log.console.formatter": "plaintext",
            "log.file": "false",
            "disk_free_limit.absolute": "50MB",
            **self.options,
        }
        lines = [f"{name} = {value}\n" for name, value in settings.items()]
        (self.folder / "rabbitmq.conf").write_text("".join(lines))
        (self.folder / "enabled_plugins").write_text("[].\n")
        cookie = self.folder / ".erlang.cookie"
        cookie.write_text(COOKIE)
        cookie.chmod(0o400)

    def environment(self) -> dict[str, str]:
        return super().environment() | {
            "HOME": str(self.folder),
            "ERL_EPMD_ADDRESS": HOST,
            "ERL_EPMD_PORT": str(self.place.ports["epmd"]),
            # Without it the script stays and hands on signals: the node is our own child.
            "RABBITMQ_ALLOW_INPUT": "1",
            "RABBITMQ_NODENAME": NODE,
            "RABBITMQ_DIST_PORT": str(self.place.ports["distribution"]),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(self.folder / "generated"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_PID_FILE": str(self.folder / "node"),
            "RABBITMQ_SERVER_START_ARGS": "-noinput -start_epmd false +S 1:1 +A 1",
        }

    def command(self) -> Sequence[str | Path]:
        self._start_port_mapper()
        return [find_program(self.program)]

    def _start_port_mapper(self) -> None:
        """In the foreground and before the node, which would leave behind one that nobody ends."""
        self.launch("epmd", [find_program("epmd")])
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                address = (HOST, self.place.ports["epmd"])
                socket.create_connection(address, timeout=2).close()
                return
            time.sleep(0.01)
        raise ServiceError(f"the port mapper of {self} did not come up")

    def answers(self) -> bool:
        # The first frame after the protocol's header is the method Connection.Start.
        return self.exchange(b"AMQP\x00\x00\x09\x01", self.port).startswith(b"\x01")

    def ctl(self, *arguments: str) -> str:
        """What rabbitmqctl prints. It takes seconds: `evaluate` takes milliseconds."""
        command: list[str | Path] = [find_program("rabbitmqctl"), "--quiet", *arguments]
        return self.run(*command).rstrip("\n")

    def evaluate(self, expression: str) -> str:
        """The value of Erlang expressions in the node: ``evaluate("node()")``.

        Raises `ServiceError` where they are wrong or the node is down.
        """
        # The node refuses a second caller of the same name.
        caller = f"caller{uuid.uuid4().hex}"
        flags = ["-n", NODE, "-h", caller, "-c", COOKIE, "-e"]
        command: list[str | Path] = [find_program("erl_call"), *flags]
        request = f"{expression}.\n"
        answer = self.run(*command, request=request)
        if not answer.startswith("{ok, "):
            raise ServiceError(f"{self} could not evaluate {expression}: {answer}")
        return answer[len("{ok, ") : -1]

    def create_vhost(self, name: str) -> str:
        """Make an empty virtual host, open to ``guest``, and give its URL."""
        self.evaluate(
            f'ok = rabbit_vhost:add(<<"{name}">>, {ACTOR}),'
            "rabbit_auth_backend_internal:set_permissions("
            f'<<"guest">>, <<"{name}">>, <<".*">>, <<".*">>, <<".*">>, {ACTOR})'
        )
        return self.url_of(name)

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host and what is in it; its connections are closed."""
        self.evaluate(f'rabbit_vhost:delete(<<"{name}">>, {ACTOR})')
