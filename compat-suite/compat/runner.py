"""Runs the tests of a suite to the end, whatever they do.

First they are collected. Then one pytest process, or several beside each other, works through them.
A test that goes on past its limit, or that takes the process down, costs its process: the result is
noted and a new process goes on with the next test. Everything is noted at once in a journal, so a
run that is interrupted goes on where it was.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .results import BAD, CRASHED, ERROR, HUNG, PASSED, SKIPPED, Result, by_file, file_of
from .session import Command, Session, describe_end

Told = Callable[[str, Result], None]
"""Hears what has become of a test."""
START_SECONDS = 300.0
"""For imports and collection, on a machine that is busy."""
LOOK_SECONDS = 0.1
FEW = 20
"""Tests that are run again when they fail. More that fail are no accident."""
HOPELESS = 15
"""Tests of one file in a row whose set-up fails in the same way: so would that of the others."""
ERROR_LINE = re.compile(r"(?:\b[Ee]rror|Error|Exception|Exit): ")
PYTEST = ["-p", "compat.recorder", "-p", "no:cacheprovider", "-p", "no:randomly"]
PYTEST += ["--rootdir=.", "--tb=short", "--color=no", "-q"]


class Journal:
    """What a run has found so far, on disk line by line."""

    def __init__(self, path: Path, key: str) -> None:
        self._path = path
        self._key = key
        self._lock = threading.Lock()

    def read(self) -> dict[str, Result]:
        """What an interrupted run of the same kind left; nothing if there is none."""
        if not self._path.exists():
            return {}
        lines = self._path.read_text().splitlines()
        if not lines or lines[0] != self._key:
            return {}
        found: dict[str, Result] = {}
        for line in lines[1:]:
            try:
                test, said = json.loads(line)
            except ValueError:
                break  # the line that it was writing
            found[test] = Result(**said)
        return found

    def begin(self, found: Mapping[str, Result]) -> None:
        self._path.write_text(f"{self._key}\n")
        for test, result in found.items():
            self.add(test, result)

    def add(self, test: str, result: Result) -> None:
        with self._lock, self._path.open("a") as journal:
            journal.write(json.dumps([test, asdict(result)]) + "\n")

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


@dataclass
class Collected:
    """What pytest found in a suite."""

    tests: list[str] = field(default_factory=list)
    errors: dict[str, Result] = field(default_factory=dict)
    """Modules that could not be collected, and those that leave themselves out."""


@dataclass
class Plan:
    """How one run is done."""

    command: Command
    tests: Sequence[str]
    """Files and folders, as pytest takes them."""
    arguments: Sequence[str]
    keyword: str
    work: Path
    logs: Path
    limit: Callable[[str], float]
    """The seconds that a test may take."""
    once: Collection[str] = ()
    """Known to fail: one attempt shows that as well as the six that a suite may ask for."""
    processes: int = 1
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set, it ends the run from outside."""


class Interrupted(Exception):
    """The run was ended before its end. The same command goes on where it was."""


class Runner:
    """Carries out a plan. `told` hears of every result as it comes, from several threads."""

    def __init__(self, plan: Plan, told: Told) -> None:
        self._plan = plan
        self._told = told
        self._failed = threading.Event()

    @property
    def _is_stopping(self) -> bool:
        return self._failed.is_set() or self._plan.stopping.is_set()

    def collect(self) -> Collected:
        """What there is to run; where pytest does not get so far, an error for all of it."""
        plan = self._plan
        arguments = [*PYTEST, *plan.arguments, "--collect-only"]
        if plan.keyword:
            arguments += ["-k", plan.keyword]
        log = plan.logs / "collect.log"
        log.unlink(missing_ok=True)
        session = Session(plan.command, [*arguments, *plan.tests], work=plan.work, log=log)
        found, reason = Collected(), ""
        try:
            deadline = time.monotonic() + START_SECONDS
            while not (reason or session.has_ended):
                self._hear_collected(session.read(LOOK_SECONDS), found)
                if self._is_stopping:
                    raise Interrupted
                if time.monotonic() > deadline:
                    reason = f"collecting took longer than {START_SECONDS:.0f} s"
            self._hear_collected(session.read(0), found)
        finally:
            session.kill()
        if not found.tests and not found.errors:
            nothing = 5  # pytest's status for no tests
            if session.status == nothing:
                return found
            message = reason or last_line(log)
            detail = log.read_text(errors="replace")[-4000:]
            found.errors = {each: Result(ERROR, 0, message, detail) for each in plan.tests}
        return found

    def _hear_collected(self, events: Iterable[Mapping[str, Any]], found: Collected) -> None:
        for event in events:
            if event["event"] == "collected":
                found.tests = event["ids"]
            elif event["event"] == "error":
                result = Result(ERROR, 0, event["message"], event["detail"])
                found.errors[event["id"]] = result
            elif event["event"] == "left out":
                found.errors[event["id"]] = Result(SKIPPED, 0, event["message"])

    def run(self, tests: Sequence[str], weights: Mapping[str, float]) -> None:
        """Run them all; what is interrupted, by Ctrl-C or a failure here, ends its processes."""
        shares = divide(tests, self._plan.processes, weights)
        threads = []
        failures: list[BaseException] = []

        def work(number: int, share: Sequence[str]) -> None:
            try:
                self._run_share(number, share)
            except BaseException as error:  # the thread that waits raises it
                failures.append(error)
                self._failed.set()

        for number, share in enumerate(shares):
            thread = threading.Thread(target=work, args=(number, share))
            thread.start()
            threads.append(thread)
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            self._failed.set()
            for thread in threads:
                thread.join()
            raise
        if failures:
            raise failures[0]
        if self._is_stopping:
            raise Interrupted

    def _run_share(self, number: int, share: Sequence[str]) -> None:
        remaining = list(share)
        while remaining and not self._is_stopping:
            finished = self._run_process(number, remaining, self._told)
            if not finished and not self._is_stopping:
                # A process that does nothing at all would do so again.
                message = last_line(self._plan.logs / f"process-{number}.log")
                for test in remaining:
                    self._told(test, Result(ERROR, 0, f"not run: {message}"))
                return
            remaining = [test for test in remaining if test not in finished]

    def _run_process(self, number: int, tests: Sequence[str], told: Told) -> set[str]:
        """Run until the end, or the first test that hangs or crashes; what is finished then."""
        plan = self._plan
        session = Session(
            plan.command,
            [*PYTEST, *plan.arguments, *by_file(tests)],
            work=plan.work,
            log=plan.logs / f"process-{number}.log",
            selected=tests,
            once=plan.once,
        )
        follower = Follower(plan.limit, told)
        try:
            while not session.has_ended and not self._is_stopping:
                follower.hear(session.read(LOOK_SECONDS))
                if follower.is_late():
                    follower.give_up(session.stacks())
                    break
                if follower.hopeless is not None:
                    follower.pass_over(tests)
                    break
            else:
                follower.hear(session.read(0))
                if not self._is_stopping:
                    follower.end(describe_end(session.status))
        finally:
            session.kill()
        return follower.finished

    def again(self, tests: Iterable[str], found: Mapping[str, Result]) -> None:
        """Run once more, each by itself, what failed; what passes now is flaky."""

        def hear(test: str, result: Result) -> None:
            if result.outcome == PASSED:
                first = found[test]
                flaky = Result(PASSED, result.seconds, first.message, first.detail, flaky=True)
                self._told(test, flaky)

        for test in tests:
            self._run_process(0, [test], hear)
            if self._is_stopping:
                raise Interrupted


class Follower:
    """Follows one pytest process: which test runs, since when, and how the others have ended."""

    def __init__(self, limit: Callable[[str], float], told: Told) -> None:
        self._limit = limit
        self._told = told
        self.finished: set[str] = set()
        self._running: str | None = None
        self._last: str | None = None
        self._since = time.monotonic()
        self._errors: list[tuple[str, str]] = []
        """File and message of the set-ups that failed since the last one that did not."""

    def hear(self, events: Iterable[Mapping[str, Any]]) -> None:
        for event in events:
            if event["event"] == "start" and event["id"] == self._running:
                continue  # a rerun that the suite itself asks for: all of them have one limit
            self._since = time.monotonic()
            if event["event"] == "start":
                self._running = event["id"]
            elif event["event"] == "done":
                self._running, self._last = None, event["id"]
                flaky = event["reruns"] > 0 and event["outcome"] == PASSED
                result = Result(
                    event["outcome"], event["seconds"], event["message"], event["detail"], flaky
                )
                self._finish(event["id"], result)

    def is_late(self) -> bool:
        return time.monotonic() - self._since > self._allowed()

    def _allowed(self) -> float:
        if self._running is not None:
            return self._limit(self._running)
        # Between two tests, what the last one has set up for its module is taken down.
        return START_SECONDS if self._last is None else self._limit(self._last)

    @property
    def hopeless(self) -> tuple[str, str] | None:
        """The file whose set-up fails all the time, and what it says."""
        if len(self._errors) < HOPELESS or len(set(self._errors[-HOPELESS:])) > 1:
            return None
        return self._errors[-1]

    def pass_over(self, tests: Iterable[str]) -> None:
        """Leave out what is left of the hopeless file."""
        if self.hopeless is not None:
            file, message = self.hopeless
            for test in tests:
                if file_of(test) == file and test not in self.finished:
                    self._finish(test, Result(ERROR, 0, f"not run: {message}"))

    def give_up(self, stacks: str) -> None:
        if self._running is not None:
            message = f"still running after {self._allowed():.0f} s"
            self._finish(self._running, Result(HUNG, self._allowed(), message, stacks))

    def end(self, how: str) -> None:
        """The process is gone by itself: it should have run no test any more."""
        if self._running is not None:
            seconds = time.monotonic() - self._since
            self._finish(
                self._running, Result(CRASHED, round(seconds, 3), f"{how} during the test")
            )

    def _finish(self, test: str, result: Result) -> None:
        self.finished.add(test)
        if result.outcome == ERROR:
            self._errors.append((file_of(test), result.message))
        elif result.outcome != SKIPPED:
            self._errors.clear()
        self._told(test, result)


def divide(tests: Sequence[str], count: int, weights: Mapping[str, float]) -> list[list[str]]:
    """Shares of about the same weight; a file stays together, and tests keep their order."""
    files = by_file(tests)
    heavy_first = sorted(files, key=lambda file: -sum(weights.get(t, 0.1) for t in files[file]))
    loads = [0.0] * count
    owner: dict[str, int] = {}
    for file in heavy_first:
        least = loads.index(min(loads))
        owner[file] = least
        loads[least] += sum(weights.get(test, 0.1) for test in files[file])
    shares = [[t for t in tests if owner[t.partition("::")[0]] == each] for each in range(count)]
    return [share for share in shares if share]


def last_line(log: Path) -> str:
    """The last error that a process told of; pytest quotes with an E the one that counts."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    lines = [line for line in lines if line]
    errors = [line[1:].strip() for line in lines if line.startswith("E ")]
    errors = errors or [line for line in lines if ERROR_LINE.search(line)]
    return (errors or lines or ["it said nothing"])[-1][:300]


def suspects(found: Mapping[str, Result], tests: Iterable[str]) -> list[str]:
    """What is worth running again: nothing when too much has failed."""
    failing = [test for test in tests if test in found and found[test].outcome in BAD]
    return failing if len(failing) <= FEW else []
