"""A private PgBouncer."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from .home import Home
from .postgres import Postgres
from .programs import find_program
from .service import HOST, as_user
from .sql import USER, SqlService


class PgBouncer(SqlService):
    """A PgBouncer in front of a running PostgreSQL, in transaction mode, for any database.

    `options` are settings of pgbouncer.ini by name: ``{"pool_mode": "session"}``. The database
    ``pgbouncer`` is its console: ``query("SHOW POOLS", database="pgbouncer")``.
    """

    program = "pgbouncer"

    def __init__(
        self,
        postgres: Postgres,
        options: Mapping[str, str | int] | None = None,
        *,
        home: Home | None = None,
    ) -> None:
        super().__init__(home=home)
        self.postgres = postgres
        self.options = dict(options or {})

    @property
    def configuration(self) -> Path:
        return self.folder / "pgbouncer.ini"

    def prepare(self) -> None:
        settings: dict[str, str | int] = {
            "listen_addr": HOST,
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "any",
            "pool_mode": "transaction",
            "max_client_conn": 500,
            "default_pool_size": 20,
            "admin_users": USER,
            **self.options,
        }
        lines = [f"{name} = {value}\n" for name, value in settings.items()]
        target = f"* = host={HOST} port={self.postgres.port} user={USER}\n"
        self.configuration.write_text("".join(["[databases]\n", target, "[pgbouncer]\n", *lines]))
        if as_user(USER):
            shutil.chown(self.folder, USER)

    def command(self) -> Sequence[str | Path]:
        return [*as_user(USER), find_program(self.program), self.configuration]
