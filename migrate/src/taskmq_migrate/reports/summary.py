"""The numbers of a run: per file and in total, so that they add up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from taskmq_migrate.model import Status
from taskmq_migrate.project import Result

__all__ = ["FileRow", "rows", "totals"]


@dataclass(frozen=True)
class FileRow:
    """One file: its sites by what became of them, and whether it changes."""

    path: str
    converted: int
    marked: int
    unsafe: int
    reported: int
    changed: bool
    error: str

    @property
    def sites(self) -> int:
        return self.converted + self.marked + self.unsafe + self.reported


def rows(result: Result) -> list[FileRow]:
    """Every file with something to say, by path."""
    changed = {each.path for each in result.changes}
    found = []
    for outcome in result.outcomes:
        counts = Counter(each.status for each in outcome.findings)
        row = FileRow(
            outcome.path,
            counts[Status.CONVERTED],
            counts[Status.MARKED],
            counts[Status.UNSAFE],
            counts[Status.REPORTED],
            outcome.path in changed,
            outcome.error,
        )
        if row.sites or row.changed or row.error:
            found.append(row)
    return found


def totals(result: Result) -> dict[str, int]:
    """Files: seen = changed + untouched + failed. Sites: found is the sum of the other four."""
    table = rows(result)
    failed = sum(bool(each.error) for each in table)
    changed = len(result.changes)
    return {
        "files_seen": result.seen,
        "files_changed": changed,
        "files_failed": failed,
        "files_untouched": result.seen - changed - failed,
        "sites_found": sum(each.sites for each in table),
        "sites_converted": sum(each.converted for each in table),
        "sites_marked": sum(each.marked for each in table),
        "sites_unsafe": sum(each.unsafe for each in table),
        "sites_reported": sum(each.reported for each in table),
    }
