"""Command ``migrate-schema``: bring the tables of a store in a database up to date."""

from __future__ import annotations

import argparse

from .apps import open_store
from .exits import Exit
from .output import Printer

__all__ = ["migrate_schema"]


def migrate_schema(arguments: argparse.Namespace) -> int:
    """Make or update the schema; with ``--check`` only say what would be done."""
    printer = Printer()
    migrate = getattr(open_store(arguments).transport, "migrate_schema", None)
    if migrate is None:
        printer.line("Nothing to do: this store keeps its own schema up to date.")
        return Exit.OK
    found, known, files = migrate(check_only=arguments.check)
    before = "no schema" if found is None else f"schema version {found}"
    if not files:
        printer.line(f"Nothing to do: {before}, and this taskmq needs {known}.")
        return Exit.OK
    for name in files:
        printer.line(f"{'to run' if arguments.check else 'ran'}: {name}")
    if arguments.check:
        printer.line(f"There is {before}, this taskmq needs {known}: run taskmq migrate-schema.")
        return Exit.FAILED
    printer.line(f"There was {before}, now there is version {known}.")
    return Exit.OK
