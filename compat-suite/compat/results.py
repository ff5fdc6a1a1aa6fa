"""What a run found out: one outcome for each test. Written as JSON, and as JUnit's XML."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from xml.etree import ElementTree

PASSED = "passed"
SKIPPED = "skipped"
XFAILED = "xfailed"
FAILED = "failed"
ERROR = "error"
"""It could not be set up, torn down or collected."""
HUNG = "hung"
"""It went on past its time limit and was killed."""
CRASHED = "crashed"
"""The process died while it ran."""

BAD = (FAILED, ERROR, HUNG, CRASHED)
# What XML 1.0 cannot hold.
UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")


@dataclass(frozen=True)
class Result:
    """What became of one test, or of a module that could not be collected."""

    outcome: str
    seconds: float = 0.0
    message: str = ""
    detail: str = ""
    flaky: bool = False
    """It failed at first and passed when it was run again."""


@dataclass
class Run:
    """One suite on one side."""

    suite: str
    side: str
    version: str
    """Of Celery: the real one, or the one that the shim answers to."""
    revision: str
    """Of taskmq; of nothing on the real Celery."""
    pair: str = ""
    started_at: str = ""
    seconds: float = 0.0
    results: dict[str, Result] = field(default_factory=dict)

    def counts(self) -> Counter[str]:
        return Counter(each.outcome for each in self.results.values())

    def passed(self) -> set[str]:
        return {test for test, result in self.results.items() if result.outcome == PASSED}

    def outcome(self, test: str) -> str:
        """Empty where there is no such test."""
        return self.results[test].outcome if test in self.results else ""

    def failing(self) -> dict[str, Result]:
        return {test: each for test, each in self.results.items() if each.outcome in BAD}

    def flaky(self) -> list[str]:
        return [test for test, result in self.results.items() if result.flaky]


def file_of(test: str) -> str:
    """The file that a test is in."""
    return test.partition("::")[0]


def by_file(tests: Iterable[str]) -> dict[str, list[str]]:
    files: dict[str, list[str]] = {}
    for test in tests:
        files.setdefault(file_of(test), []).append(test)
    return files


def write_json(run: Run, path: Path) -> None:
    path.write_text(json.dumps(asdict(run), indent=1) + "\n")


def read_json(path: Path) -> Run:
    content = json.loads(path.read_text())
    results = {test: Result(**said) for test, said in content.pop("results").items()}
    return Run(**content, results=results)


def write_junit(run: Run, path: Path) -> None:
    """For programs that read JUnit's format."""
    counts = run.counts()
    suite = ElementTree.Element(
        "testsuite",
        name=f"{run.suite}{' ' + run.pair if run.pair else ''} on {run.side}",
        tests=str(len(run.results)),
        failures=str(counts[FAILED] + counts[HUNG]),
        errors=str(counts[ERROR] + counts[CRASHED]),
        skipped=str(counts[SKIPPED] + counts[XFAILED]),
        time=f"{run.seconds:.3f}",
        timestamp=run.started_at,
    )
    for test, result in run.results.items():
        module, _, name = test.partition("::")
        case = ElementTree.SubElement(
            suite, "testcase", classname=module, name=name or module, time=f"{result.seconds:.3f}"
        )
        add_outcome(case, result)
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def add_outcome(case: ElementTree.Element, result: Result) -> None:
    tags = {FAILED: "failure", HUNG: "failure", ERROR: "error", CRASHED: "error"}
    tags |= {SKIPPED: "skipped", XFAILED: "skipped"}
    tag = tags.get(result.outcome)
    if tag is None:
        return
    message = UNPRINTABLE.sub("?", result.message)
    said = ElementTree.SubElement(case, tag, type=result.outcome, message=message)
    said.text = UNPRINTABLE.sub("?", result.detail)
