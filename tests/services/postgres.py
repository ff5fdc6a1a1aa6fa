"""A private PostgreSQL."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from .home import Home
from .programs import find_program
from .service import HOST, Place, as_user
from .sql import USER, SqlService


class Postgres(SqlService):
    """One PostgreSQL of the newest version installed, with the superuser ``postgres``.

    Everybody who connects is believed, over TCP and over the unix socket in `folder`. `fsync` is
    off, because tests want speed: a killed server still keeps what it committed, a machine without
    power does not. `options` are settings by name. Run as root, the server runs as ``postgres``.
    """

    program = "postgres"
    # Fast: sessions are ended, not awaited.
    stop_signal = signal.SIGINT

    def __init__(
        self,
        options: Mapping[str, str | int] | None = None,
        *,
        fsync: bool = False,
        home: Home | None = None,
        place: Place | None = None,
    ) -> None:
        super().__init__(home=home, place=place)
        self.fsync = fsync
        self.options = dict(options or {})

    @property
    def unix_url(self) -> str:
        return f"postgresql://{USER}@/postgres?host={quote(str(self.folder))}&port={self.port}"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def prepare(self) -> None:
        prefix = as_user(USER)
        if prefix:
            shutil.chown(self.folder, USER)
        flags = ["--auth=trust", "--no-locale", "--encoding=UTF8", "--no-sync", "--no-instructions"]
        initdb = find_program("initdb")
        self.run(*prefix, initdb, f"--username={USER}", *flags, "--pgdata", self.data)

    def settings(self) -> dict[str, str | int]:
        """The settings by name, those that were asked for last."""
        durable = "on" if self.fsync else "off"
        return {
            "listen_addresses": HOST,
            "port": self.port,
            "unix_socket_directories": str(self.folder),
            "fsync": durable,
            "full_page_writes": durable,
            "shared_buffers": "32MB",
            "max_connections": 200,
            "dynamic_shared_memory_type": "mmap",
            **self.options,
        }

    def command(self) -> Sequence[str | Path]:
        settings: list[str | Path] = []
        for name, value in self.settings().items():
            settings += ["-c", f"{name}={value}"]
        return [*as_user(USER), find_program(self.program), "-D", self.data, *settings]

    def create_database(self, name: str) -> str:
        """Make an empty database and give its URL."""
        # Copies files, as versions before 15 always do: half the time of writing them to the log.
        version = int((self.data / "PG_VERSION").read_text())
        strategy = "STRATEGY file_copy" if version >= 15 else ""
        self.query(f'CREATE DATABASE "{name}" {strategy}')
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        """Drop a database; sessions in it are ended."""
        self.query(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
