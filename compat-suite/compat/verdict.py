"""The shim's run beside the real Celery's, judged by what is expected."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .expectations import Expectation, Expectations
from .results import ERROR, PASSED, Result, Run, file_of

UNEXPECTED = "unexpected"


@dataclass
class Case:
    """A test that passes on the real Celery and not on the shim, or passes there unexpectedly."""

    test: str
    result: Result
    expectation: Expectation | None

    @property
    def kind(self) -> str:
        return UNEXPECTED if self.expectation is None else self.expectation.kind


@dataclass
class Verdict:
    """What the comparison of two runs says."""

    collected: int
    """Tests that the real Celery has."""
    celery: int
    """Of them, those that pass there."""
    shim: int
    """Of those that pass there, those that pass on the shim too."""
    failing: list[Case] = field(default_factory=list)
    """Pass on the real Celery, not on the shim."""
    unexpected_passes: list[Case] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    """Expectations of tests that there are not."""

    @property
    def unexpected_failures(self) -> list[Case]:
        return [each for each in self.failing if each.expectation is None]

    @property
    def is_as_expected(self) -> bool:
        return not (self.unexpected_failures or self.unexpected_passes or self.stale)

    def by_class(self) -> Counter[str]:
        return Counter(each.kind for each in self.failing)


def compare(run: Run, baseline: Run, expectations: Expectations, *, whole: bool = True) -> Verdict:
    """Judge a run on the shim. Of a part of a suite, only the tests that it ran are judged."""
    standing = Standing(run)
    tests = [test for test in baseline.results if "::" in test and (whole or standing.knows(test))]
    passing = [test for test in tests if baseline.results[test].outcome == PASSED]
    verdict = Verdict(collected=len(tests), celery=len(passing), shim=0)
    for test in passing:
        case = Case(test, standing.of(test), expectations.of(test))
        if case.result.outcome == PASSED:
            verdict.shim += 1
            if case.expectation is not None and not case.expectation.may_pass:
                verdict.unexpected_passes.append(case)
        else:
            verdict.failing.append(case)
    if whole:
        verdict.stale = expectations.stale(baseline.results)
    return verdict


class Standing:
    """What became of any test on the shim, also of one whose module could not be collected."""

    def __init__(self, run: Run) -> None:
        self._results = run.results
        self._modules = {test: result for test, result in run.results.items() if "::" not in test}
        self._files = {file_of(test) for test in run.results if "::" in test}

    def knows(self, test: str) -> bool:
        return test in self._results or self._module(test) is not None

    def of(self, test: str) -> Result:
        found = self._results.get(test) or self._module(test)
        if found is not None:
            return found
        return Result(ERROR, 0, "not collected")

    def _module(self, test: str) -> Result | None:
        """The error of the nearest file or folder that the test is in."""
        place = file_of(test)
        while place:
            if place in self._modules:
                return self._modules[place]
            place = place.rpartition("/")[0]
        return None


def per_file(verdict: Verdict, baseline: Run) -> dict[str, Counter[str]]:
    """For each file: tests, ``celery`` passes, ``shim`` passes, and the rest by class."""
    files: dict[str, Counter[str]] = {}
    for test, result in baseline.results.items():
        if "::" in test:
            counts = files.setdefault(file_of(test), Counter())
            counts["tests"] += 1
            counts["celery"] += result.outcome == PASSED
            counts["shim"] += result.outcome == PASSED
    for case in verdict.failing:
        counts = files[file_of(case.test)]
        counts["shim"] -= 1
        counts[case.kind] += 1
    return files
