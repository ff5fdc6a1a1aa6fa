"""Runs taskmq-migrate on real applications, and writes what came of it as a table.

    .venv/bin/python tools/migrate_applications.py --to shim --write docs/migrate/applications.md
    .venv/bin/python tools/migrate_applications.py --to native weblate pretix

The applications are wheels or sdists from the package index, fetched by pip into ``.cache/`` and
never committed. Each is unpacked, moved to the target, compiled, and moved once more: nothing may
fail, and the second run may change nothing. No part of CI: it takes minutes and the network.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from taskmq_migrate.model import Status, Target
from taskmq_migrate.project import Result, Run, run
from taskmq_migrate.registry import select
from taskmq_migrate.reports.summary import totals
from taskmq_migrate.writing import write

TOP = Path(__file__).resolve().parent.parent
CACHE = TOP / ".cache" / "applications"
APPLICATIONS = (
    "allianceauth",
    "arches",
    "celery-director",
    "django-user-tasks",
    "edx-celeryutils",
    "edx-enterprise",
    "galaxy-app",
    "geonode",
    "indico",
    "invenio-celery",
    "lemur",
    "mayan-edms",
    "nautobot",
    "pretix",
    "squad",
    "swh.scheduler",
    "tendenci",
    "weblate",
)
HEAD = """# Real applications, moved

What `taskmq-migrate --to {to}` does to applications as they are on the package index. Written by
`tools/migrate_applications.py`; do not edit.

* **files**: seen, of every kind that rules are about; **failed** could not be read, see below.
* **sites** are places that a rule has something to say about: converted, *marked* for people,
  waiting for `--unsafe`, or only *reported*.
* **compiles**: changed Python files that compile afterwards, of those that did before.
* **again**: files that a second run changes.

"""
COLUMNS = (
    "application",
    "version",
    "files",
    "changed",
    "failed",
    "sites",
    "converted",
    "marked",
    "unsafe",
    "reported",
    "compiles",
    "again",
)


@dataclass(frozen=True)
class Row:
    """What came of one application."""

    name: str
    version: str
    result: Result
    broken: int
    compiled: int
    again: int

    def cells(self) -> list[str]:
        numbers = totals(self.result)
        keys = ("files_seen", "files_changed", "files_failed", "sites_found", "sites_converted")
        cells = [self.name, self.version, *(f"{numbers[each]:,}" for each in keys)]
        cells += [f"{numbers[f'sites_{each}']:,}" for each in ("marked", "unsafe", "reported")]
        kept = f"{self.compiled - self.broken:,} of {self.compiled:,}"
        return [*cells, kept, str(self.again)]


def fetched(name: str) -> Path:
    """The archive of an application, wheel before sdist; from the cache if it is there."""
    folder = CACHE / name
    found = sorted(folder.glob("*")) if folder.exists() else []
    if found:
        return found[0]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--ignore-requires-python",
    ]
    for kind in ("--only-binary=:all:", "--no-binary=:all:"):
        done = subprocess.run(
            [*command, kind, "--dest", str(folder), name], capture_output=True, text=True
        )
        found = sorted(folder.glob("*")) if folder.exists() else []
        if done.returncode == 0 and found:
            return found[0]
    raise SystemExit(f"{name} cannot be fetched: {done.stderr.strip().splitlines()[-1]}")


def unpacked(archive: Path, folder: Path) -> str:
    """Unpack into a folder; gives the version."""
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(folder)  # noqa: S202  # never leaves the folder
        return archive.name.split("-")[1]
    with tarfile.open(archive) as sdist:
        sdist.extractall(folder, filter="data")  # the filter keeps it there
    return archive.name.removesuffix(".tar.gz").rpartition("-")[2]


def compiles(path: str, source: bytes) -> bool:
    """Whether a file is Python that compiles."""
    try:
        compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def moved(name: str, to: Target, *, unsafe: bool, jobs: int) -> Row:
    """Move one application, twice."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        version = unpacked(fetched(name), root)
        plan = Run(root, (root,), select(to), unsafe, (), jobs)
        first = run(plan)
        problems = write(root, first.changes)
        if problems:
            raise SystemExit(f"{name}: {problems}")
        python = [each for each in first.changes if each.path.endswith(".py")]
        before = [each for each in python if compiles(each.path, each.before)]
        broken = sum(not compiles(each.path, each.after) for each in before)
        second = run(plan)
        return Row(name, version, first, broken, len(before), len(second.changes))


def page(rows: list[Row], to: Target) -> str:
    """The table, with what failed below."""
    lines = ["| " + " | ".join(row.cells()) + " |" for row in rows]
    sums = [totals(row.result) for row in rows]
    found = sum(each["sites_found"] for each in sums)
    marked = sum(each["sites_marked"] for each in sums)
    share = 100 * (found - marked) / found if found else 100
    head = ["| " + " | ".join(COLUMNS) + " |", "|---|---" + "|--:" * (len(COLUMNS) - 2) + "|"]
    text = HEAD.format(to=to.value) + "\n".join([*head, *lines])
    text += f"\n\n{found:,} sites in {len(rows)} applications; {share:.1f} % without a marker.\n"
    by_rule: dict[str, list[int]] = {}
    for row in rows:
        for each in row.result.findings:
            counts = by_rule.setdefault(each.rule, [0, 0, 0, 0])
            counts[list(Status).index(each.status)] += 1
    text += "\n| rule | converted | marked | unsafe | reported |\n|---|--:|--:|--:|--:|\n"
    for rule, counts in sorted(by_rule.items()):
        text += f"| {rule} | " + " | ".join(f"{each:,}" for each in counts) + " |\n"
    failures = [
        f"* {row.name}: `{outcome.path}` {outcome.error}\n"
        for row in rows
        for outcome in row.result.failed
    ]
    if failures:
        text += "\n## Not readable\n\n" + "".join(failures)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description="Move real applications, and say how it went.")
    parser.add_argument("names", nargs="*", default=APPLICATIONS, metavar="application")
    parser.add_argument("--to", type=Target, choices=list(Target), default=Target.SHIM)
    parser.add_argument("--unsafe", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", type=Path, help="the page to write")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.names or APPLICATIONS:
        rows.append(moved(name, arguments.to, unsafe=arguments.unsafe, jobs=arguments.jobs))
        print(" ".join(rows[-1].cells()), flush=True)
        if arguments.write:
            arguments.write.write_text(page(rows, arguments.to))
    if not arguments.write:
        print(page(rows, arguments.to))
    return 1 if any(row.broken or row.again for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
