"""The statements in ``sql/*.sql``, by what they are for."""

from __future__ import annotations

from taskmq.transports._files import load_blocks

__all__ = [
    "CONTROL",
    "DEPENDENCIES",
    "DOCUMENTS",
    "ENQUEUE",
    "FAIR",
    "GATES",
    "QUERY",
    "REGISTRY",
    "RESERVE",
    "SALVAGE",
    "SETTLE",
    "UPKEEP",
]


def _load(name: str) -> dict[str, str]:
    return load_blocks(__package__, f"sql/{name}.sql")


CONTROL = _load("control")
DEPENDENCIES = _load("dependencies")
DOCUMENTS = _load("documents")
ENQUEUE = _load("enqueue")
FAIR = _load("fair")
GATES = _load("gates")
QUERY = _load("query")
REGISTRY = _load("registry")
RESERVE = _load("reserve")
SALVAGE = _load("salvage")
SETTLE = _load("settle")
UPKEEP = _load("upkeep")
