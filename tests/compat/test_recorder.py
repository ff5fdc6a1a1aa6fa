"""What the plugin writes down of tests that pytest-rerunfailures runs again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from compat.recorder import Recorder

TEST = "t/a.py::test"


def report(outcome: Any, when: Any = "call") -> pytest.TestReport:
    return pytest.TestReport(TEST, ("t/a.py", 1, "test"), {}, outcome, None, when, duration=0.5)


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    made = Recorder(tmp_path / "events", None)
    yield made
    made.pytest_unconfigure()


def attempt(recorder: Recorder, *reports: pytest.TestReport) -> None:
    recorder.pytest_runtest_logstart(TEST)
    for each in reports:
        recorder.pytest_runtest_logreport(each)
    recorder.pytest_runtest_logfinish(TEST)


def test_an_attempt_that_is_repeated_has_no_outcome(recorder: Recorder, tmp_path: Path) -> None:
    attempt(recorder, report("rerun"), report("passed", "teardown"))
    attempt(recorder, report("rerun"), report("passed", "teardown"))
    attempt(recorder, report("passed"), report("passed", "teardown"))
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert [each["event"] for each in events] == ["start", "start", "start", "done"]
    assert (events[-1]["outcome"], events[-1]["reruns"]) == ("passed", 2)


def test_the_last_attempt_decides(recorder: Recorder, tmp_path: Path) -> None:
    attempt(recorder, report("rerun"))
    attempt(recorder, report("failed"), report("passed", "teardown"))
    done = json.loads((tmp_path / "events").read_text().splitlines()[-1])
    assert (done["outcome"], done["reruns"]) == ("failed", 1)
