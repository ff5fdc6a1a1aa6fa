"""A streaming standby of a private PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from .group import wait_until
from .home import Home
from .postgres import Postgres
from .programs import find_program
from .service import HOST, as_user
from .sql import USER


class Standby(Postgres):
    """A hot standby of a running `primary`, until it is promoted.

    Replication is asynchronous unless the primary was started with
    ``{"synchronous_standby_names": "*"}``, which makes its commits wait for the standby.
    """

    def __init__(
        self,
        primary: Postgres,
        options: Mapping[str, str | int] | None = None,
        *,
        fsync: bool = False,
        home: Home | None = None,
    ) -> None:
        super().__init__(options, fsync=fsync, home=home)
        self.primary = primary

    def prepare(self) -> None:
        prefix = as_user(USER)
        if prefix:
            shutil.chown(self.folder, USER)
        source = ["--host", HOST, "--port", str(self.primary.port), "--username", USER]
        flags = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
        command: Sequence[str | Path] = [find_program("pg_basebackup"), *source, *flags]
        self.run(*prefix, *command, "--pgdata", self.data)

    def failover_url(self, database: str = "postgres") -> str:
        """A URL of both servers, with which a client finds the one that takes writes."""
        hosts = f"{HOST}:{self.primary.port},{HOST}:{self.port}"
        target = "target_session_attrs=read-write"
        return f"postgresql://{USER}@{hosts}/{quote(database, safe='')}?{target}"

    def catch_up(self) -> None:
        """Wait until it has replayed all that the primary has written by now."""
        position = self.primary.query("SELECT pg_current_wal_lsn()")
        has_it = f"SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn"
        wait_until(lambda: self.query(has_it) == "t", f"{self} catches up")

    def promote(self) -> None:
        """Make it a primary; it takes writes on return. Kill or stop the old one first."""
        self.query("SELECT pg_promote(wait => true)")
        wait_until(lambda: self.query("SELECT pg_is_in_recovery()") == "f", f"{self} is promoted")
