"""Jobs in one SQLite file, for any number of processes on one machine. No server.

Read `sql/0001_initial.sql` (the tables), then `database` (connections and transactions), then one
module for each thing that happens: `enqueue`, `reserve`, `settle`, `dependencies`, `upkeep`,
`query`, `registry`, `listener`. ``docs/reference/sqlite.md`` says what users need to know.
"""

from __future__ import annotations

from .transport import SqliteTransport, from_url

__all__ = ["SqliteTransport", "from_url"]
