"""The tables for people: docs/compatibility.md, and the lines in the README."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import Template

from .baselines import kept
from .catalog import CELERY, Catalog
from .environments import Environment
from .expectations import CLASSES, PRIVATE_INTERNALS
from .places import PAGE, README
from .problems import Problem
from .records import KINDS, Record, runs_of

TEMPLATE = Path(__file__).with_name("page.md")
BEGIN, END = "<!-- compat: begin -->", "<!-- compat: end -->"
NOT_RUN = "not run yet"
NEEDS_CHECKOUT = "needs a checkout, not run"


def write_page(records: Sequence[Record], catalog: Catalog) -> None:
    PAGE.write_text(page(records, catalog))


def page(records: Sequence[Record], catalog: Catalog) -> str:
    content = Template(TEMPLATE.read_text()).substitute(
        classes="\n".join(f"| `{name}` | {told} |" for name, told in CLASSES.items()),
        suites=suites_table(records, catalog).rstrip(),
        private=private_table(records).rstrip(),
        files="".join(map(file_table, records)),
    )
    return content.rstrip("\n") + "\n"


def suites_table(records: Sequence[Record], catalog: Catalog) -> str:
    known = {(each.suite, each.pair): each for each in records}
    lines = [
        "| suite | shim | Celery | collected | by design | private | not yet | measured |",
        "|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    for suite, pair in runs_of(catalog):
        record = known.get((suite, pair))
        title = f"{suite} ({pair})" if pair else suite
        if record is None:
            lines.append(f"| {title} | | | | | | | {why_not(suite, pair, catalog)} |")
            continue
        kinds = [record.classes.get(kind, 0) for kind in KINDS]
        numbers = [record.shim, record.celery, record.collected, *kinds]
        cells = " | ".join(f"{number:,}" for number in numbers)
        measured = f"{record.measured_at[:10]}, Celery {record.version}, {record.revision}"
        lines.append(f"| {title} | {cells} | {measured} |")
    notes = [f"{title}: {note}." for title, note in notes_of(catalog)]
    return "\n".join(lines) + "\n" + "".join(f"\n{note}\n" for note in notes)


def notes_of(catalog: Catalog) -> list[tuple[str, str]]:
    """What a reader should know of comparisons, by their titles."""
    return [
        (f"{suite.name} ({pair})" if pair else suite.name, note)
        for suite in catalog.suites.values()
        for pair, note in suite.notes.items()
    ]


def why_not(suite: str, pair: str, catalog: Catalog) -> str:
    """What stands in the place of a comparison that there is not."""
    if catalog.suite(suite).checkout:
        return NEEDS_CHECKOUT
    known = kept(suite, pair, Environment(CELERY, catalog.celery[0]))
    if known is None:
        return NOT_RUN
    collected = sum("::" in test for test in known.results)
    return f"not run yet / {len(known.passed()):,} / {collected:,}"


def private_table(records: Sequence[Record]) -> str:
    rows = [
        f"| {record.suite}: {file} | {counts[PRIVATE_INTERNALS]} of {counts['celery']} |"
        for record in records
        for file, counts in record.files.items()
        if counts.get(PRIVATE_INTERNALS)
    ]
    if not rows:
        return "No test is in this class today.\n"
    return "\n".join(["| file | tests |", "|---|--:|", *rows]) + "\n"


def file_table(record: Record) -> str:
    lines = [
        f"\n## {record.title}, by file\n",
        "| file | shim | Celery | collected | by design | private | not yet |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for file, counts in sorted(record.files.items()):
        numbers = [counts["shim"], counts["celery"], counts["tests"]]
        numbers += [counts.get(kind, 0) for kind in KINDS]
        lines.append(f"| {file} | {' | '.join(map(str, numbers))} |")
    return "\n".join(lines) + "\n"


def write_readme(records: Sequence[Record], catalog: Catalog) -> None:
    """Replace what stands between the marks. Raises `Problem` where they are missing."""
    text = README.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise Problem(f"README.md has no {BEGIN} and {END}")
    README.write_text(f"{before}{begin}\n{readme_table(records, catalog)}{end}{after}")


def readme_table(records: Sequence[Record], catalog: Catalog) -> str:
    known = {(each.suite, each.pair): each for each in records}
    lines = ["| suite | shim / real Celery / collected |", "|---|---|"]
    for suite, pair in runs_of(catalog):
        record = known.get((suite, pair))
        title = f"{suite} ({pair})" if pair else suite
        told = why_not(suite, pair, catalog)
        if record is not None:
            told = f"{record.shim:,} / {record.celery:,} / {record.collected:,}"
        lines.append(f"| {title} | {told} |")
    return "\n".join(lines) + "\n"
