"""Jobs in a PostgreSQL schema.

Everything that happens to jobs is a function in the database (``sql/functions``): one call is one
round trip and one transaction, whatever the batch's size. Read ``sql/0001_tables.sql``, then those,
then `transport`; `database` has the connections, `listener` the wake-ups.
``docs/reference/postgres.md`` says what users need to know.
"""

from __future__ import annotations

from taskmq.errors import ConfigError

try:
    import psycopg  # noqa: F401  # only to say what is missing
except ImportError as error:
    raise ConfigError(
        "postgresql:// needs the driver psycopg, which is not installed or lacks libpq; run: "
        "pip install 'taskmq-py[postgres]'"
    ) from error

from .transport import PostgresTransport, from_url

__all__ = ["PostgresTransport", "from_url"]
