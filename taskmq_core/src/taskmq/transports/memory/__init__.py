"""The reference semantics: every promise of the port in plain dicts and heaps, under one lock.

Read `job` (the columns), `store` (the tables), then one module for each thing that happens:
`enqueue`, `reserve`, `settle`, `endings`, `dependencies`, `upkeep`. The state of a job changes in
one place only, `Store.move`, by the table in `taskmq.states`.

Nothing outlives the process, and every `from_url` opens a store of its own.
"""

from __future__ import annotations

from .transport import MemoryTransport, from_url

__all__ = ["MemoryTransport", "from_url"]
