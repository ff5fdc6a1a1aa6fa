"""A private redis-server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from .home import Home
from .programs import find_program
from .service import HOST, Place, Service


class Redis(Service):
    """One redis-server.

    `options` are lines of its configuration file by name; nothing is saved unless they say so.
    `password` is that of the default user. `users` are lines of an ACL file
    (``"user app on >secret ~app:* +@all"``): with one, the default user's password and rights are
    said there too. `unix_socket` adds one, at `unix_path`.
    """

    program = "redis-server"

    def __init__(
        self,
        options: Mapping[str, str | int] | None = None,
        *,
        password: str | None = None,
        users: Sequence[str] = (),
        unix_socket: bool = False,
        home: Home | None = None,
        place: Place | None = None,
    ) -> None:
        super().__init__(home=home, place=place)
        self.options = dict(options or {})
        self.password = password
        self.users = tuple(users)
        self.unix_socket = unix_socket

    @property
    def url(self) -> str:
        return f"redis://{self.login}{HOST}:{self.port}/0"

    @property
    def unix_path(self) -> Path:
        return self.folder / "socket"

    @property
    def unix_url(self) -> str:
        return f"unix://{self.login}{self.unix_path}"

    @property
    def login(self) -> str:
        """What stands before the host in a URL."""
        return "" if self.password is None else f":{quote(self.password, safe='')}@"

    @property
    def configuration(self) -> Path:
        return self.folder / "redis.conf"

    def prepare(self) -> None:
        settings: dict[str, str | int] = {
            "bind": HOST,
            "port": self.port,
            "dir": str(self.folder),
            "save": '""',
            "databases": 16,
        }
        if self.password is not None:
            settings["requirepass"] = f'"{self.password}"'
        if self.unix_socket:
            settings |= {"unixsocket": str(self.unix_path), "unixsocketperm": 777}
        if self.users:
            path = self.folder / "users.acl"
            path.write_text("".join(f"{line}\n" for line in self.users))
            settings["aclfile"] = str(path)
        lines = [f"{name} {value}\n" for name, value in (settings | self.options).items()]
        self.configuration.write_text("".join(lines))

    def command(self) -> Sequence[str | Path]:
        return [find_program(self.program), self.configuration]

    def answers(self) -> bool:
        # Who may not ask (-NOAUTH) is answered all the same; -LOADING means not yet.
        return self.exchange(b"PING\r\n", self.port).startswith((b"+PONG", b"-NO"))

    def cli(self, *arguments: str | int) -> str:
        """What redis-cli prints for a command, without the line's end. Raises `ServiceError`."""
        command: list[str | Path] = [find_program("redis-cli"), "-e", "-p", str(self.port)]
        if self.password is not None:
            command += ["--no-auth-warning", "-a", self.password]
        return self.run(*command, *map(str, arguments)).rstrip("\n")
