"""The report says what was measured, and the files in the repository are what it writes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from compat import baselines, expectations, records, report
from compat.catalog import Catalog, Suite, read_catalog
from compat.environments import Environment
from compat.expectations import NOT_YET, PRIVATE_INTERNALS, Expectation, Expectations
from compat.html import html
from compat.places import PAGE, README
from compat.problems import Problem
from compat.records import Record, read_history, read_records
from compat.results import FAILED, PASSED, SKIPPED, Result, Run
from compat.verdict import compare

CATALOG = Catalog(
    celery=("1.0",),
    extras=(),
    packages=(),
    suites={
        "unit": Suite("unit", "about", "celery", ("t",)),
        "integration": Suite("integration", "about", "celery", ("t",), pairs=("redis+redis",)),
    },
)
ENTRIES = [
    Expectation(NOT_YET, "no <chords>", ("t/a.py::two",)),
    Expectation(PRIVATE_INTERNALS, "a private name", ("t/b.py::three",)),
]


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """Four tests, of which the real Celery passes three and the shim one."""
    monkeypatch.setattr(expectations, "EXPECTATIONS", tmp_path / "expectations")
    monkeypatch.setattr(records, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(records, "HISTORY", tmp_path / "history.json")
    expectations.write("unit", ENTRIES)
    celery = dict.fromkeys(["t/a.py::one", "t/a.py::two", "t/b.py::three"], Result(PASSED))
    baseline = Run("unit", "celery", "1.0", "", results={**celery, "t/b.py::four": Result(SKIPPED)})
    shim = dict.fromkeys(baseline.results, Result(FAILED)) | {"t/a.py::one": Result(PASSED)}
    run = Run("unit", "shim", "1.0", "abc", started_at="2026-12-01T00:00:00", results=shim)
    return records.record_of(run, baseline, compare(run, baseline, Expectations(ENTRIES)))


def test_totals(record: Record) -> None:
    assert (record.shim, record.celery, record.collected) == (1, 3, 4)
    assert record.classes == {NOT_YET: 1, PRIVATE_INTERNALS: 1}


def test_page(record: Record) -> None:
    page = report.page([record], CATALOG)
    assert "| unit | 1 | 3 | 4 | 0 | 1 | 1 | 2026-12-01, Celery 1.0, abc |" in page
    assert "| t/a.py | 1 | 2 | 2 | 0 | 0 | 1 |" in page
    assert "| unit: t/b.py | 1 of 1 |" in page
    assert f"| integration (redis+redis) | | | | | | | {report.NOT_RUN} |" in page


def test_what_only_the_real_celery_has_run_is_told(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baselines, "BASELINES", tmp_path)
    results = {"t/a.py::one": Result(PASSED), "t/a.py::two": Result(FAILED)}
    baselines.keep(Run("integration", "celery", "1.0", "", "redis+redis", results=results))
    told = "| integration (redis+redis) | not run yet / 1 / 2 |"
    assert told in report.readme_table([record], CATALOG)


def test_every_red_number_leads_to_its_reason(record: Record) -> None:
    page = html([record], [], CATALOG)
    links = set(re.findall(r'href="#([^"]+)"', page))
    assert links == set(re.findall(r' id="([^"]+)"', page))
    assert "no &lt;chords&gt;" in page


def test_a_trend_needs_two_points(record: Record) -> None:
    point = {"suite": "unit", "pair": "", "shim": 1, "celery": 3}
    assert "<polyline" not in html([record], [point], CATALOG)
    assert "<polyline" in html([record], [point, {**point, "shim": 2}], CATALOG)


def test_a_measurement_is_one_point_of_the_history(record: Record) -> None:
    records.extend_history([record])
    records.extend_history([record])
    (point,) = read_history()
    assert (point["shim"], point["celery"], point["collected"]) == (1, 3, 4)


def test_what_is_in_no_commit_is_no_point_of_the_history(record: Record) -> None:
    assert records.extend_history([replace(record, revision="abc+")]) == []


def test_what_was_not_measured_again_stays(record: Record) -> None:
    records.update([record], CATALOG)
    assert read_records() == [record]
    assert records.update([], CATALOG) == [record]


def test_lines_of_the_readme(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = tmp_path / "README.md"
    monkeypatch.setattr(report, "README", readme)
    readme.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write_readme([record], CATALOG)
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| unit | 1 / 3 / 4 |" in text
    assert "old" not in text


def test_a_readme_without_marks(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = tmp_path / "README.md"
    monkeypatch.setattr(report, "README", readme)
    readme.write_text("no marks\n")
    with pytest.raises(Problem, match="compat: begin"):
        report.write_readme([record], CATALOG)


def test_a_baseline_that_is_kept_is_the_same_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baselines, "BASELINES", tmp_path)
    results = {
        "t/a.py::C::one[a::b]": Result(PASSED, 12.5),
        "t/a.py::two": Result(FAILED),
        "t/b.py": Result(SKIPPED),
    }
    run = Run("unit", "celery", "1.0", "", "redis+redis", "2026-12-01T00:00:00", 3.0, results)
    baselines.keep(run)
    assert baselines.kept("unit", "redis+redis", Environment("celery", "1.0")) == run


def test_the_repository_says_what_was_measured() -> None:
    """Of a test that fails: `python -m compat report` writes these files."""
    every, catalog = read_records(), read_catalog()
    assert report.page(every, catalog) == PAGE.read_text()
    assert report.readme_table(every, catalog) in README.read_text()


def test_expectations_and_measurements_of_the_repository_agree() -> None:
    """Every test that passed on the real Celery and not on the shim has an entry."""
    for record in read_records():
        assert sum(record.classes.values()) == record.celery - record.shim
        assert set(record.classes) <= set(records.KINDS), record.title
