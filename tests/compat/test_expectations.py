"""Expectations: how they are read, what they match, how they are brought up to date."""

from __future__ import annotations

from pathlib import Path

import pytest
from compat import expectations
from compat.catalog import read_catalog
from compat.expectations import (
    NEEDS_IMAGE,
    NOT_YET,
    PRIVATE_INTERNALS,
    Expectation,
    Expectations,
)
from compat.places import EXPECTATIONS
from compat.problems import Problem
from compat.results import ERROR, FAILED, PASSED, Result, Run
from compat.revise import revised
from compat.verdict import compare

ENTRY = Expectation(NOT_YET, "reason", ("t/a.py::test_one[*", "t/b.py::*", "*::test_beat"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(expectations, "EXPECTATIONS", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("test", "matches"),
    [
        ("t/a.py::test_one[x]", True),
        ("t/a.py::test_one", False),
        ("t/a.py::test_onex", False),
        ("t/b.py::test_any", True),
        ("t/bb.py::test_any", False),
        ("t/c.py::test_beat", True),
        ("t/c.py::test_beaten", False),
    ],
)
def test_a_star_stands_for_any_text_and_brackets_for_themselves(test: str, matches: bool) -> None:
    assert (Expectations([ENTRY]).of(test) is ENTRY) is matches


def test_an_entry_may_count_for_some_pairs_only() -> None:
    entry = Expectation(NOT_YET, "reason", ("t/a.py::*",), ("redis+redis",))
    assert Expectations([entry], "redis+redis").of("t/a.py::test") is entry
    assert Expectations([entry], "sqlite+sqlite").of("t/a.py::test") is None


def test_what_no_test_has_is_stale() -> None:
    assert Expectations([ENTRY]).stale(["t/a.py::test_one[x]"]) == ["t/b.py::*", "*::test_beat"]


def test_what_is_written_is_read(folder: Path) -> None:
    entries = [
        Expectation(NOT_YET, 'says "no"', ("t/a.py::test[\\n é]",)),
        Expectation(PRIVATE_INTERNALS, "a private name", ("t/b.py::*",), ("redis+redis",), True),
    ]
    expectations.write("suite", entries)
    assert expectations.read("suite") == entries


def test_where_everything_passes_there_is_no_file(folder: Path) -> None:
    expectations.write("suite", [ENTRY])
    expectations.write("suite", [])
    assert list(folder.iterdir()) == []
    assert expectations.read("suite") == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('class = "never"\nreason = "r"\ntests = ["t"]', "no class is called never"),
        ('class = "not-yet"\nreason = "r"', "entry 1 has no tests"),
        ('class = "not-yet"\nreason = " "\ntests = ["t"]', "the reason is one line"),
        ('class = "not-yet"\nreson = "r"\ntests = ["t"]', "a key reson that is not known"),
        ("class = not-yet", "Invalid"),
    ],
)
def test_a_wrong_file_is_told_in_one_line(folder: Path, text: str, complaint: str) -> None:
    (folder / "suite.toml").write_text(f"[[expected]]\n{text}\n")
    with pytest.raises(Problem, match=complaint) as caught:
        expectations.read("suite")
    assert "\n" not in str(caught.value)


def test_all_files_of_the_repository_are_right() -> None:
    """Also that suites.toml is: each file is that of a suite, each pair is one of it."""
    for path in EXPECTATIONS.glob("*.toml"):
        suite = read_catalog().suite(path.stem)
        for entry in expectations.read(suite.name):
            assert set(entry.pairs) <= set(suite.pairs)
            assert entry.tests


# -------------------------------------------------------------------------------- up to date

BASELINE = Run(
    "suite",
    "celery",
    "1.0",
    "",
    results={
        f"t/{name}": Result(PASSED)
        for name in (
            "a.py::C::x",
            "a.py::C::y",
            "a.py::D::x",
            "b.py::p[1]",
            "b.py::p[2]",
            "b.py::q",
        )
    },
)


def revise(entries: list[Expectation], **outcomes: str) -> list[Expectation]:
    """After a run in which every test that is not named has passed."""
    changed = {f"t/{name}": Result(FAILED, 0, said) for name, said in outcomes.items()}
    run = Run("suite", "shim", "1.0", "", results={**BASELINE.results, **changed})
    verdict = compare(run, BASELINE, Expectations(entries))
    return revised(entries, {"": (verdict, BASELINE)}, ())


def test_new_failures_that_say_the_same_are_one_entry() -> None:
    assert revise([], **{"a.py::C::x": "KeyError: 1", "b.py::q": "KeyError: 1"}) == [
        Expectation(NOT_YET, "KeyError: 1", ("t/a.py::C::x", "t/b.py::q"), made=True)
    ]


def test_a_pattern_stands_for_a_class_or_for_parameters_of_which_none_passes() -> None:
    failing = dict.fromkeys(["a.py::C::x", "a.py::C::y", "b.py::p[1]", "b.py::p[2]"], "no")
    (entry,) = revise([], **failing)
    assert entry.tests == ("t/a.py::C::*", "t/b.py::p[*")


def test_a_pattern_stands_for_a_file_of_which_none_passes() -> None:
    (entry,) = revise([], **dict.fromkeys(["b.py::p[1]", "b.py::p[2]", "b.py::q"], "no"))
    assert entry.tests == ("t/b.py::*",)


def test_what_needs_another_image_is_recorded_and_stays() -> None:
    needs = Expectation(NEEDS_IMAGE, "needs RabbitMQ 4", ("t/c.py::*",))
    assert revise([needs], **{"a.py::C::x": "no"}) == [
        needs,
        Expectation(NOT_YET, "no", ("t/a.py::C::x",), made=True),
    ]


def test_what_needs_another_image_may_pass_where_there_is_one() -> None:
    needs = Expectation(NEEDS_IMAGE, "needs three processors", ("t/a.py::C::x",))
    late = Expectation(NOT_YET, "no", ("t/a.py::C::y",))
    verdict = compare(BASELINE, BASELINE, Expectations([needs, late]))
    assert [each.test for each in verdict.unexpected_passes] == ["t/a.py::C::y"]


def test_rare_messages_are_one_entry_of_their_file() -> None:
    (entry,) = revise([], **{"a.py::C::x": "one", "a.py::C::y": "one", "a.py::D::x": "two"})
    assert entry.reason == "a.py: 2 different failures, 2 of them one"


def test_what_passes_leaves_its_entry_and_the_reason_stays() -> None:
    entry = Expectation(PRIVATE_INTERNALS, "by hand", ("t/a.py::C::*",))
    assert revise([entry], **{"a.py::C::y": "whatever"}) == [
        Expectation(PRIVATE_INTERNALS, "by hand", ("t/a.py::C::y",))
    ]
    assert revise([entry]) == []


def test_a_reason_that_no_person_wrote_is_made_anew() -> None:
    (entry,) = revise([], **{"a.py::C::x": "KeyError: 1"})
    assert revise([entry], **{"a.py::C::x": "KeyError: 2"}) == [
        Expectation(NOT_YET, "KeyError: 2", ("t/a.py::C::x",), made=True)
    ]


def test_a_missing_module_is_told_in_four_words() -> None:
    message = "ModuleNotFoundError: No module named 'celery.beat'"
    (entry,) = revise([], **{"a.py::C::x": message})
    assert entry.reason == "no module celery.beat"


def test_pairs_that_were_not_run_keep_what_they_have() -> None:
    pairs = ("redis+redis", "sqlite+sqlite")
    old = Expectation(NOT_YET, "both", ("t/a.py::C::x",))
    verdict = compare(BASELINE, BASELINE, Expectations([old], "redis+redis"))
    assert revised([old], {"redis+redis": (verdict, BASELINE)}, pairs) == [
        Expectation(NOT_YET, "both", ("t/a.py::C::x",), ("sqlite+sqlite",))
    ]


def test_what_fails_for_all_pairs_names_none() -> None:
    pairs = ("redis+redis", "sqlite+sqlite")
    run = Run("suite", "shim", "1.0", "", results={"t/a.py": Result(ERROR, 0, "no")})
    verdict = compare(run, BASELINE, Expectations([]))
    (entry, rest) = revised([], dict.fromkeys(pairs, (verdict, BASELINE)), pairs)
    assert (entry.pairs, entry.tests) == ((), ("t/a.py::*",))
    assert (rest.reason, rest.tests) == ("not collected", ("t/b.py::*",))


def test_what_passes_sometimes_is_no_news() -> None:
    entry = Expectation(NOT_YET, "a race", ("t.py::a", "t.py::b"), sometimes=True)
    baseline = Run("s", "celery", "1", "", results={t: Result(PASSED) for t in entry.tests})
    found = Run(
        "s", "shim", "1", "1", results={"t.py::a": Result(PASSED), "t.py::b": Result("failed")}
    )
    verdict = compare(found, baseline, Expectations([entry]))
    assert verdict.is_as_expected
    assert (verdict.shim, verdict.by_class()) == (1, {NOT_YET: 1})
    assert revised([entry], {"": (verdict, baseline)}, ()) == [entry]
