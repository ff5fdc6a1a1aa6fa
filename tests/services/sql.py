"""Servers that speak PostgreSQL's protocol."""

from __future__ import annotations

from urllib.parse import quote

from .programs import find_program
from .service import HOST, Service, ServiceError

USER = "postgres"


class SqlService(Service):
    """What clients reach as the superuser ``postgres``, without a password."""

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """The URL of one database."""
        return f"postgresql://{USER}@{HOST}:{self.port}/{quote(database, safe='')}"

    def query(self, statement: str, *, database: str = "postgres") -> str:
        """What psql prints for a statement: a line for each row, fields divided by ``|``."""
        flags = ["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "-v", "ON_ERROR_STOP=1"]
        psql = find_program("psql")
        return self.run(psql, self.url_of(database), *flags, "-c", statement).rstrip("\n")

    def answers(self) -> bool:
        # Asks as a client does: a server that still recovers refuses.
        try:
            return self.query("SELECT 1") == "1"
        except ServiceError:
            return False
