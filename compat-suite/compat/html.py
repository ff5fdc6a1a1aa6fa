"""The same as docs/compatibility.md to look at: one page, complete in itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from .catalog import Catalog
from .expectations import CLASSES, Expectation, read
from .places import HTML
from .records import KINDS, Record, runs_of
from .report import notes_of, why_not
from .results import file_of
from .verdict import UNEXPECTED

TEMPLATE = Path(__file__).with_name("page.html")
STYLE = TEMPLATE.with_suffix(".css")
TREND = (90, 22)
"""Width and height of a trend's line."""
OPEN = 40
"""Files that a reader sees without asking."""
SHOWN = 12
"""Tests that are named under a reason."""


def write_html(
    records: Sequence[Record], history: Sequence[Mapping[str, Any]], catalog: Catalog
) -> None:
    HTML.write_text(html(records, history, catalog))


def html(records: Sequence[Record], history: Sequence[Mapping[str, Any]], catalog: Catalog) -> str:
    return Template(TEMPLATE.read_text()).substitute(
        style=STYLE.read_text(),
        shim=f"{sum(each.shim for each in records):,}",
        celery=f"{sum(each.celery for each in records):,}",
        key=key(),
        overview=overview(records, history, catalog),
        sections="".join(suite_section(each, catalog) for each in records),
    )


def key() -> str:
    told = {"good": "passes", **{kind: CLASSES[kind] for kind in KINDS}}
    told["other"] = "does not pass on the real Celery either"
    names = {"good": "", "other": ""}
    items = [
        f'<span><i class="{kind}"></i>{names.get(kind, f"<b>{kind}</b>: ")}{escape(text)}</span>'
        for kind, text in told.items()
    ]
    return f'<div class="key">{"".join(items)}</div>'


def overview(
    records: Sequence[Record], history: Sequence[Mapping[str, Any]], catalog: Catalog
) -> str:
    known = {(each.suite, each.pair): each for each in records}
    rows = []
    for suite, pair in runs_of(catalog):
        record = known.get((suite, pair))
        if record is None:
            title = f"{suite} ({pair})" if pair else suite
            told = why_not(suite, pair, catalog)
            rows.append(f'<tr><td>{title}<td colspan="6" class="none">{told}')
            continue
        points = [
            each["shim"] / max(each["celery"], 1)
            for each in history
            if (each["suite"], each["pair"]) == (suite, pair)
        ]
        rows.append(
            f'<tr><td><a href="#{anchor(record.title)}">{escape(record.title)}</a>'
            f'<td class="wide">{bar(record.collected, record.shim, record.classes)}'
            f"<td><b>{record.shim:,}</b><td>{record.celery:,}<td>{record.collected:,}"
            f'<td>{trend(points)}<td class="quiet">{record.measured_at[:10]} {record.revision}'
        )
    head = "<tr><th>suite<th><th>shim<th>Celery<th>collected<th>trend<th>measured"
    return f'<div class="sheet"><table>{head}{"".join(rows)}</table></div>'


def bar(total: int, passes: int, classes: Mapping[str, int]) -> str:
    parts = [("good", passes), *((kind, classes.get(kind, 0)) for kind in (*KINDS, UNEXPECTED))]
    drawn = [
        f'<i class="{kind}" style="width:{100 * count / total:.2f}%" title="{count} {kind}"></i>'
        for kind, count in parts
        if count and total
    ]
    return f'<div class="bar">{"".join(drawn)}</div>'


def trend(shares: Sequence[float]) -> str:
    """The share that passes, from run to run."""
    if len(shares) < 2:
        return ""
    width, height = TREND
    step = width / (len(shares) - 1)
    places = " ".join(
        f"{number * step:.1f},{(height - 2) * (1 - share) + 1:.1f}"
        for number, share in enumerate(shares)
    )
    return f'<svg width="{width}" height="{height}"><polyline points="{places}"/></svg>'


def suite_section(record: Record, catalog: Catalog) -> str:
    reasons = reasons_by_file(record)
    rows = []
    for file, counts in sorted(record.files.items()):
        cells = [f"<td>{counts['shim']}<td>{counts['celery']}<td>{counts['tests']}"]
        for kind in KINDS:
            count = counts.get(kind, 0)
            told = f'<a class="red" href="#{anchor(record.title, file)}">{count}</a>'
            cells.append(f"<td>{told if count else ''}")
        drawn = bar(counts["tests"], counts["shim"], counts)
        rows.append(f'<tr><td><code>{escape(file)}</code><td class="wide">{drawn}{"".join(cells)}')
    opened = " open" if len(rows) <= OPEN else ""
    head = "<tr><th>file<th><th>shim<th>Celery<th>collected<th>by design<th>private<th>not yet"
    told = "".join(reason_list(record, file, found) for file, found in reasons.items())
    minutes = (
        f"{record.shim_seconds / 60:.0f} min on the shim, {record.celery_seconds / 60:.0f} min"
    )
    note = dict(notes_of(catalog)).get(record.title, "")
    files = "1 file" if len(rows) == 1 else f"{len(rows)} files"
    return f"""
<h2 id="{anchor(record.title)}">{escape(record.title)}</h2>
<p class="quiet">{record.share:.1%} of what passes on Celery {record.version}. {minutes} on the real
Celery; {record.flaky} flaky.{f" {escape(note[0].upper() + note[1:])}." if note else ""}</p>
<details{opened}><summary class="quiet">{files}</summary>
<div class="sheet"><table>{head}{"".join(rows)}</table></div></details>
<details><summary class="quiet">reasons</summary>{told}</details>
"""


def reasons_by_file(record: Record) -> dict[str, list[tuple[Expectation, list[str]]]]:
    """The entries that count for a record, with their tests of each file."""
    found: dict[str, list[tuple[Expectation, list[str]]]] = {}
    for entry in read(record.suite):
        if entry.counts_for(record.pair):
            files: dict[str, list[str]] = {}
            for test in entry.tests:
                files.setdefault(file_of(test), []).append(test)
            for file, tests in files.items():
                found.setdefault(file, []).append((entry, tests))
    return dict(sorted(found.items()))


def reason_list(record: Record, file: str, found: Iterable[tuple[Expectation, list[str]]]) -> str:
    items = []
    for entry, tests in found:
        named = [f"<li><code>{escape(test)}</code>" for test in tests[:SHOWN]]
        if len(tests) > SHOWN:
            named.append(f"<li>and {len(tests) - SHOWN} more")
        tag = f'<span class="tag {entry.kind}">{entry.kind}</span>'
        items.append(f"<li>{tag}{escape(entry.reason)}<ul>{''.join(named)}</ul>")
    return (
        f'<div id="{anchor(record.title, file)}"><ul class="reasons">'
        f"<li><b><code>{escape(file)}</code></b>{''.join(items)}</ul></div>"
    )


def anchor(*parts: str) -> str:
    return re.sub(r"[^\w.-]+", "-", "--".join(parts))
