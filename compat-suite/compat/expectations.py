"""Which tests are expected not to pass on the shim, and why: the files in expectations/.

    [[expected]]
    class = "not-yet"
    reason = "no module celery.events"
    tests = ["t/unit/events/*", "t/unit/app/test_app.py::test_App::test_events"]

A star stands for any text; everything else, brackets too, for itself. An entry with `pairs` counts
for these brokers and backends only. The first entry that names a test is the one that counts. One
with ``made = true`` was made by ``python -m compat expect``, which makes it anew each time; whoever
writes a better reason, or another class, takes that line out. With ``sometimes = true`` it is no
news when a test of the entry passes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .places import EXPECTATIONS, short
from .problems import Problem
from .results import file_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

DIFFERS_BY_DESIGN = "differs-by-design"
PRIVATE_INTERNALS = "private-internals"
NOT_YET = "not-yet"
NEEDS_IMAGE = "needs-another-image"
CLASSES = {
    DIFFERS_BY_DESIGN: "different on purpose; docs/celery/differences.md says how",
    PRIVATE_INTERNALS: "asserts on what no document and no package of the ecosystem uses",
    NOT_YET: "missing or wrong: counts against the shim",
    # For the record: the real Celery does not pass these here either, and nobody is judged by them.
    NEEDS_IMAGE: "needs an image, a cloud's service or a limit that nothing stands in for here",
}
KEYS = {"class", "reason", "tests", "pairs", "made", "sometimes"}


@dataclass(frozen=True)
class Expectation:
    """One reason, and the tests that do not pass for it."""

    kind: str
    reason: str
    tests: tuple[str, ...]
    pairs: tuple[str, ...] = ()
    made: bool = False
    """Its reason is what the tests said, in no person's words."""
    sometimes: bool = False
    """Its tests pass now and then: that is no news."""

    @property
    def may_pass(self) -> bool:
        # What this machine has no image for, or is too small for, may pass on another.
        return self.sometimes or self.kind == NEEDS_IMAGE

    def counts_for(self, pair: str) -> bool:
        return not self.pairs or pair in self.pairs


class Expectations:
    """The entries of a suite that count for one pair, ready to be asked."""

    def __init__(self, entries: Iterable[Expectation], pair: str = "") -> None:
        self.entries = [each for each in entries if each.counts_for(pair)]
        self._exact: dict[str, Expectation] = {}
        # By file, as far as a pattern names one: thousands of tests are looked up.
        self._patterns: dict[str, list[tuple[re.Pattern[str], Expectation]]] = {}
        for entry in self.entries:
            for test in entry.tests:
                if "*" not in test:
                    self._exact.setdefault(test, entry)
                    continue
                file = file_of(test)
                key = "" if "*" in file else file
                self._patterns.setdefault(key, []).append((compiled(test), entry))

    def of(self, test: str) -> Expectation | None:
        """The entry that names a test."""
        if test in self._exact:
            return self._exact[test]
        for key in (file_of(test), ""):
            for pattern, entry in self._patterns.get(key, ()):
                if pattern.fullmatch(test):
                    return entry
        return None

    def stale(self, tests: Iterable[str]) -> list[str]:
        """Names and patterns that no test has."""
        names = list(tests)
        known = set(names)
        found = []
        for entry in self.entries:
            for each in entry.tests:
                pattern = compiled(each)
                if each not in known and not any(map(pattern.fullmatch, names)):
                    found.append(each)
        return found


def compiled(test: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, test.split("*"))), re.DOTALL)


def path_of(suite: str) -> Path:
    return EXPECTATIONS / f"{suite}.toml"


def read(suite: str) -> list[Expectation]:
    """All entries of a suite, none where it has no file. Raises `Problem` for a wrong one."""
    path = path_of(suite)
    if not path.exists():
        return []
    try:
        content = tomllib.loads(path.read_text())
        return [checked(number, each) for number, each in enumerate(content["expected"], 1)]
    except (KeyError, TypeError, ValueError) as error:
        raise Problem(f"{short(path)}: {error}") from None


def checked(number: int, said: dict[str, Any]) -> Expectation:
    for key in said:
        if key not in KEYS:
            raise ValueError(f"entry {number} has a key {key} that is not known")
    missing = {"class", "reason", "tests"} - set(said)
    if missing:
        raise ValueError(f"entry {number} has no {', '.join(sorted(missing))}")
    if said["class"] not in CLASSES:
        known = ", ".join(CLASSES)
        raise ValueError(f"entry {number}: no class is called {said['class']}: {known}")
    if not said["reason"].strip() or "\n" in said["reason"]:
        raise ValueError(f"entry {number}: the reason is one line")
    return Expectation(
        said["class"],
        said["reason"],
        tuple(said["tests"]),
        tuple(said.get("pairs", ())),
        bool(said.get("made", False)),
        bool(said.get("sometimes", False)),
    )


HEAD = """\
# What does not pass on the shim although it passes on the real Celery, and why.
# `python -m compat expect {suite}` drops what passes by now and adds what fails.
"""


def write(suite: str, entries: Sequence[Expectation]) -> Path:
    """Write a suite's file; where everything passes there is none."""
    path = path_of(suite)
    if not entries:
        path.unlink(missing_ok=True)
        return path
    parts = [HEAD.format(suite=suite)]
    for entry in entries:
        lines = ["", "[[expected]]", f'class = "{entry.kind}"']
        lines.append(f"reason = {json.dumps(entry.reason, ensure_ascii=False)}")
        if entry.made:
            lines.append("made = true")
        if entry.sometimes:
            lines.append("sometimes = true")
        if entry.pairs:
            lines.append(f"pairs = {json.dumps(list(entry.pairs))}")
        lines.append("tests = [")
        lines += [f"    {json.dumps(test, ensure_ascii=False)}," for test in entry.tests]
        lines.append("]")
        parts.append("\n".join(lines) + "\n")
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(parts))
    return path
