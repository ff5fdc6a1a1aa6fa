"""Runs taskmq-migrate on real applications, and writes what came of it as a table.

    .venv/bin/python tools/migrate_applications.py --to shim --write docs/migrate/applications.md
    .venv/bin/python tools/migrate_applications.py --to native weblate pretix

The applications are wheels or sdists from the package index, fetched by pip into ``.cache/`` and
never committed. Each is unpacked, moved to the target, compiled, and moved once more: nothing may
fail, and the second run may change nothing. No part of CI: it takes minutes and the network.
What came of an application is kept beside its archive until the codemod changes: an interrupted
run goes on, and several may run beside each other. ``--kept`` writes the page of what is there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path

from taskmq_migrate.model import Status, Target
from taskmq_migrate.project import Run, run
from taskmq_migrate.registry import select
from taskmq_migrate.reports.summary import totals
from taskmq_migrate.writing import write

TOP = Path(__file__).resolve().parent.parent
CACHE = TOP / ".cache" / "applications"
APPLICATIONS = (
    "allianceauth",
    "apache-superset",
    "arches",
    "celery-director",
    "django-user-tasks",
    "edx-celeryutils",
    "edx-enterprise",
    "faradaysec",
    "galaxy-app",
    "geonode",
    "indico",
    "invenio-celery",
    "lemur",
    "mayan-edms",
    "nautobot",
    "openwisp-controller",
    "openwisp-monitoring",
    "pretix",
    "squad",
    "swh.scheduler",
    "tendenci",
    "weblate",
    "wooey",
)
OLD = (
    "allianceauth==2.0.0",
    "apache-airflow==1.10.9",
    "apache-superset==0.36.0",
    "cartoview==1.8.5",
    "geonode==2.4",
    "geonode==3.0.0",
    "lemur==0.8.0",
    "mayan-edms==2.7.3",
    "mayan-edms==3.0",
    "openquake.engine==2.9.0",
    "pretix==1.5.0",
    "superset==0.20.0",
    "weblate==3.2",
)
"""Written for Celery 3 and 4, with names and settings of that time: they are moved to the shim."""
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
    numbers: dict[str, int]
    rules: dict[str, list[int]]
    """How many sites of each rule, in the order of `Status`."""
    failures: list[str]
    broken: int
    compiled: int
    again: int

    def cells(self) -> list[str]:
        keys = ("files_seen", "files_changed", "files_failed", "sites_found", "sites_converted")
        cells = [self.name, self.version, *(f"{self.numbers[each]:,}" for each in keys)]
        cells += [f"{self.numbers[f'sites_{each}']:,}" for each in ("marked", "unsafe", "reported")]
        kept = f"{self.compiled - self.broken:,} of {self.compiled:,}"
        return [*cells, kept, str(self.again)]


def kept_at(name: str, to: Target, *, unsafe: bool) -> Path:
    """Where the row of an application is kept, for the codemod as it is."""
    digest = hashlib.sha256()
    for each in sorted((TOP / "migrate" / "src").rglob("*.py")):
        digest.update(each.read_bytes())
    how = f"{to.value}{'-unsafe' if unsafe else ''}-{digest.hexdigest()[:12]}"
    return CACHE.parent / "applications-rows" / f"{name}-{how}.json"


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
        rules: dict[str, list[int]] = {}
        for each in first.findings:
            rules.setdefault(each.rule, [0] * len(Status))[list(Status).index(each.status)] += 1
        failures = [f"`{outcome.path}` {outcome.error}" for outcome in first.failed]
        again, good = len(second.changes), len(before)
        return Row(
            name.partition("==")[0], version, totals(first), rules, failures, broken, good, again
        )


def row_of(name: str, to: Target, *, unsafe: bool, jobs: int) -> Row:
    """The row of an application: as it is kept, or made now and kept."""
    kept = kept_at(name, to, unsafe=unsafe)
    if kept.exists():
        return Row(**json.loads(kept.read_text()))
    row = moved(name, to, unsafe=unsafe, jobs=jobs)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(asdict(row)))
    return row


def page(rows: list[Row], to: Target) -> str:
    """The table, with what failed below."""
    lines = ["| " + " | ".join(row.cells()) + " |" for row in rows]
    sums = {
        key: sum(row.numbers[f"sites_{key}"] for row in rows)
        for key in ("found", "converted", "marked")
    }
    found = sums["found"] or 1
    head = ["| " + " | ".join(COLUMNS) + " |", "|---|---" + "|--:" * (len(COLUMNS) - 2) + "|"]
    text = HEAD.format(to=to.value) + "\n".join([*head, *lines])
    text += (
        f"\n\n{sums['found']:,} sites in {len(rows)} applications: "
        f"{100 * sums['converted'] / found:.1f} % converted, "
        f"{100 - 100 * sums['marked'] / found:.1f} % without a marker.\n"
    )
    by_rule: dict[str, list[int]] = {}
    for row in rows:
        for rule, counts in row.rules.items():
            sofar = by_rule.get(rule, [0] * len(Status))
            by_rule[rule] = [one + other for one, other in zip(sofar, counts, strict=True)]
    text += "\n| rule | converted | marked | unsafe | reported |\n|---|--:|--:|--:|--:|\n"
    for rule, counts in sorted(by_rule.items()):
        text += f"| {rule} | " + " | ".join(f"{each:,}" for each in counts) + " |\n"
    failures = [f"* {row.name}: {each}\n" for row in rows for each in row.failures]
    if failures:
        text += "\n## Not readable\n\n" + "".join(failures)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description="Move real applications, and say how it went.")
    parser.add_argument("names", nargs="*", metavar="application")
    parser.add_argument("--to", type=Target, choices=list(Target), default=Target.SHIM)
    parser.add_argument("--unsafe", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", type=Path, help="the page to write")
    parser.add_argument("--kept", action="store_true", help="only what is kept of earlier runs")
    arguments = parser.parse_args()
    to, unsafe = arguments.to, arguments.unsafe
    rows = []
    for name in arguments.names or (APPLICATIONS if to is Target.NATIVE else APPLICATIONS + OLD):
        if arguments.kept and not kept_at(name, to, unsafe=unsafe).exists():
            continue
        rows.append(row_of(name, to, unsafe=unsafe, jobs=arguments.jobs))
        print(" ".join(rows[-1].cells()), flush=True)
        if arguments.write:
            arguments.write.write_text(page(rows, to))
    if not arguments.write:
        print(page(rows, to))
    return 1 if any(row.broken or row.again for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
