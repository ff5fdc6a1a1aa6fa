"""Pytest plugin, in the environment of a suite: writes down what each test does, as it does it.

The runner reads along, so it knows which test hung when it kills the process, and which one was
running when the process died. `COMPAT_EVENTS` is the file, one JSON object a line; `COMPAT_SELECT`
names a file with the ids of the tests to run, all of them if it is not set, and `COMPAT_ONCE` one
with those that are tried once, whatever number of reruns the suite asks for.

Standard library and pytest only.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

MESSAGE = 300
"""Characters of an error's message that are kept."""
DETAIL = 4000
"""Characters of a traceback's end that are kept."""


class Recorder:
    """Events in the order in which they happen; each is on disk when the next thing starts."""

    def __init__(self, events: Path, selected: Path | None, once: Path | None = None) -> None:
        self._file = events.open("a", buffering=1)
        # A child that a test forks off goes through the same hooks: it is not the one that runs.
        self._pid = os.getpid()
        self._selected = None if selected is None else set(json.loads(selected.read_text()))
        self._once = set() if once is None else set(json.loads(once.read_text()))
        self._reports: list[pytest.TestReport] = []
        self._reruns: Counter[str] = Counter()

    def _write(self, event: str, **fields: Any) -> None:
        if os.getpid() == self._pid:
            self._file.write(json.dumps({"event": event, **fields}) + "\n")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            message, detail = explain(report)
            self._write("error", id=report.nodeid, message=message, detail=detail)
        elif report.skipped:
            self._write("left out", id=report.nodeid, message=explain(report)[0])

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        if self._selected is not None:
            left_out = [each for each in items if each.nodeid not in self._selected]
            items[:] = [each for each in items if each.nodeid in self._selected]
            config.hook.pytest_deselected(items=left_out)
        for each in items:
            if each.nodeid in self._once:
                # The mark that is nearest to a test is the one that pytest-rerunfailures takes.
                each.add_marker(pytest.mark.flaky(reruns=0), append=False)
        self._write("collected", ids=[each.nodeid for each in items])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._reports.clear()
        self._write("start", id=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        reports = self._reports
        # pytest-rerunfailures has an outcome of its own, and starts the test again after this.
        if any(str(each.outcome) == "rerun" for each in reports):
            self._reruns[nodeid] += 1
            return
        outcome, decisive = judge(reports)
        message, detail = ("", "") if decisive is None else explain(decisive)
        self._write(
            "done",
            id=nodeid,
            outcome=outcome,
            seconds=round(sum(each.duration for each in reports), 3),
            message=message,
            detail=detail,
            reruns=self._reruns[nodeid],
        )

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._write("end", status=int(exitstatus))

    def pytest_unconfigure(self) -> None:
        self._file.close()


def judge(reports: list[pytest.TestReport]) -> tuple[str, pytest.TestReport | None]:
    """A test's outcome from the reports of its phases, and the one that explains it."""
    for report in reports:
        if report.failed:
            return ("failed" if report.when == "call" else "error"), report
    for report in reports:
        if report.skipped:
            return ("xfailed" if hasattr(report, "wasxfail") else "skipped"), report
    return ("passed" if reports else "error"), None


def explain(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str]:
    """What went wrong in a line, and the end of the traceback."""
    representation = report.longrepr
    if isinstance(representation, tuple):
        return representation[2][:MESSAGE], ""
    detail = str(representation or "")
    crash = getattr(representation, "reprcrash", None)
    if crash is not None:
        message = crash.message
    else:
        # A module that does not import: the last line of what pytest quotes.
        lines = [line for line in detail.splitlines() if line.strip()]
        errors = [line[1:].strip() for line in lines if line.startswith("E ")]
        message = (errors or lines or ["no reason given"])[-1]
    return message.strip().partition("\n")[0][:MESSAGE], detail[-DETAIL:]


def pytest_configure(config: pytest.Config) -> None:
    # Asked by this signal, a process that hangs says where, whatever its threads are doing.
    dump = Path(os.environ["COMPAT_DUMP"]).open("w")  # noqa: SIM115  # until pytest ends
    config.add_cleanup(dump.close)
    faulthandler.register(signal.SIGUSR1, file=dump)
    named = [os.environ.get(name) for name in ("COMPAT_SELECT", "COMPAT_ONCE")]
    selected, once = (Path(name) if name else None for name in named)
    config.pluginmanager.register(Recorder(Path(os.environ["COMPAT_EVENTS"]), selected, once))
