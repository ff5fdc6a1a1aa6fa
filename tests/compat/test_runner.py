"""What misbehaves in a suite is reported as what it is, and nothing else suffers from it."""

from __future__ import annotations

import dataclasses
import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from compat import runner, work
from compat.catalog import read_catalog
from compat.environments import SHIM, Environment
from compat.problems import Problem
from compat.results import CRASHED, ERROR, FAILED, HUNG, PASSED, SKIPPED, Result, Run
from compat.runner import HOPELESS, Follower, divide
from compat.screen import Screen
from compat.work import limits
from rich.console import Console
from tests.compat.conftest import CATALOG

if TYPE_CHECKING:
    from tests.compat.conftest import Bench

SEEDED = (Path(__file__).parent / "seeded.py").read_text()
TESTS = re.findall(r"^def (test_\w+)\(\)", SEEDED, re.MULTILINE)
PARAMETERS = ["test_has_parameters[a]", "test_has_parameters[b[c]]"]


@dataclasses.dataclass
class Seen:
    """The seeded suite after a run."""

    status: int
    said: str
    run: Run
    folder: Path

    def outcome(self, test: str) -> str:
        return self.run.outcome(f"test_seeded.py::{test}")

    def message(self, test: str) -> str:
        return self.run.results[f"test_seeded.py::{test}"].message

    def has_line(self, *parts: str) -> bool:
        return any(all(part in line for part in parts) for line in self.said.splitlines())


@pytest.fixture(scope="module")
def seen(module_bench: Bench) -> Seen:
    module_bench.seed(SEEDED)
    module_bench.passes_on_celery([*TESTS, *PARAMETERS])
    module_bench.expect(
        test_is_expected_to_fail="known",
        test_passes_unexpectedly="was missing",
        test_no_longer_there="gone",
    )
    status, said = module_bench.run()
    return Seen(status, said, module_bench.found(), module_bench.request().folder)


def test_what_differs_makes_the_exit_status(seen: Seen) -> None:
    assert seen.status == 1


def test_an_unexpected_failure(seen: Seen) -> None:
    assert seen.outcome("test_fails") == FAILED
    assert seen.message("test_fails") == "ValueError: seeded failure"
    assert seen.has_line("fails unexpectedly", "::test_fails", "seeded failure")


def test_an_expected_failure_is_no_news(seen: Seen) -> None:
    assert seen.outcome("test_is_expected_to_fail") == FAILED
    assert not seen.has_line("fails unexpectedly", "test_is_expected_to_fail")
    assert seen.has_line("1 not-yet")


def test_an_unexpected_pass(seen: Seen) -> None:
    assert seen.outcome("test_passes_unexpectedly") == PASSED
    assert seen.has_line("passes unexpectedly", "::test_passes_unexpectedly")


def test_a_hang(seen: Seen) -> None:
    assert seen.outcome("test_hangs") == HUNG
    assert seen.has_line("hung", "::test_hangs", "still running after 1 s")
    assert seen.has_line("fails unexpectedly", "::test_hangs")


def test_a_hang_says_where(seen: Seen) -> None:
    detail = seen.run.results["test_seeded.py::test_hangs"].detail
    assert "test_seeded.py" in detail
    assert "in test_hangs" in detail


def test_a_crash(seen: Seen) -> None:
    assert seen.outcome("test_crashes") == CRASHED
    assert seen.has_line("crashed", "::test_crashes", "SIGKILL")
    assert seen.has_line("fails unexpectedly", "::test_crashes")


def test_a_flaky_test_has_passed(seen: Seen) -> None:
    assert seen.outcome("test_is_flaky") == PASSED
    assert seen.run.flaky() == ["test_seeded.py::test_is_flaky"]
    assert seen.has_line("flaky", "::test_is_flaky")


def test_a_broken_fixture_is_an_error(seen: Seen) -> None:
    assert seen.outcome("test_has_no_fixture") == ERROR
    assert seen.message("test_has_no_fixture") == "LookupError: no fixture"


def test_a_skip_counts_as_a_failure_where_celery_passes(seen: Seen) -> None:
    assert seen.outcome("test_is_skipped") == SKIPPED
    assert seen.has_line("fails unexpectedly", "::test_is_skipped", "not here")


def test_what_comes_after_the_bad_ones_is_run(seen: Seen) -> None:
    assert [seen.outcome(each) for each in (*PARAMETERS, "test_comes_last")] == [PASSED] * 3


def test_an_expectation_of_no_test(seen: Seen) -> None:
    assert seen.has_line("there is no such test", "test_no_longer_there")


def test_totals(seen: Seen) -> None:
    passes = {"test_passes", "test_passes_unexpectedly", "test_is_flaky", "test_comes_last"}
    total = len(TESTS) + len(PARAMETERS)
    assert seen.has_line(f"shim {len(passes) + 2} / Celery {total} / collected {total}")


def test_junit(seen: Seen) -> None:
    suite = ElementTree.parse(seen.folder / "junit.xml").getroot()  # noqa: S314  # our own
    assert suite.get("tests") == str(len(TESTS) + len(PARAMETERS))
    failed = {case.get("name"): case.find("failure") for case in suite.iter("testcase")}
    hang = failed["test_hangs"]
    assert hang is not None
    assert hang.get("type") == HUNG


def test_all_as_expected(bench: Bench) -> None:
    bench.seed("def test_good(): pass\ndef test_bad(): raise ValueError\n")
    bench.passes_on_celery(["test_good", "test_bad"])
    bench.expect(test_bad="known")
    status, said = bench.run()
    assert status == 0, said


def test_a_module_that_does_not_import_fails_its_tests(bench: Bench) -> None:
    bench.seed("import no_such_module\ndef test_good(): pass\n")
    bench.passes_on_celery(["test_good"])
    status, said = bench.run()
    assert status == 1
    assert "fails unexpectedly: test_seeded.py::test_good (ModuleNotFoundError" in said


def test_what_pytest_itself_cannot_do_fails_all_tests(bench: Bench) -> None:
    bench.seed("def test_good(): pass\n")
    bench.suite = dataclasses.replace(bench.suite, arguments=("--no-such-option",))
    bench.passes_on_celery(["test_good"])
    status, said = bench.run()
    assert status == 1
    assert "test_good" in said
    assert "unrecognized arguments: --no-such-option" in said


def test_an_interrupted_run_goes_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.seed(
        "from pathlib import Path\n"
        f"ran = Path({str(bench.sources)!r}) / 'ran'\n"
        "def test_a(): ran.open('a').write('a')\n"
        "def test_b(): ran.open('a').write('b')\n"
    )
    monkeypatch.setattr(work, "revision", lambda: "1")
    with monkeypatch.context() as patch:
        patch.setattr(Screen, "told", interrupt)
        with pytest.raises(KeyboardInterrupt):
            bench.run()
    _, said = bench.run()
    assert "goes on where it was interrupted, after 1 tests" in said
    assert (bench.sources / "ran").read_text().count("a") == 1


def interrupt(screen: Screen, test: str, result: Result) -> None:
    raise KeyboardInterrupt


def test_a_part_of_a_suite_is_judged_alone(bench: Bench) -> None:
    bench.seed("def test_good(): pass\ndef test_bad(): raise ValueError\n")
    bench.passes_on_celery(["test_good", "test_bad", "test_more"])
    bench.expect(test_gone="is no business of this run")
    status, said = bench.run(bench.request(keyword="good"))
    assert status == 0, said
    assert work.last_run("seeded", "", bench.request().environment) is None


def test_two_processes_share_the_files(bench: Bench) -> None:
    bench.seed("def test_one(): pass\n")
    (bench.sources / "test_other.py").write_text("def test_two(): pass\n")
    bench.suite = dataclasses.replace(
        bench.suite,
        keep=("test_seeded.py", "test_other.py"),
        tests=("test_seeded.py", "test_other.py"),
        processes=2,
    )
    bench.run(bench.request(processes=2))
    assert list(bench.found().results) == ["test_seeded.py::test_one", "test_other.py::test_two"]
    assert len(list(bench.request().folder.glob("process-*.log"))) == 2


def test_what_shares_services_has_one_process(bench: Bench) -> None:
    with pytest.raises(Problem, match="-n 1 only"):
        bench.run(bench.request(processes=2))


def test_what_is_in_no_sdist_needs_a_checkout(bench: Bench) -> None:
    with pytest.raises(Problem, match="--checkout PATH"):
        bench.run(bench.request(checkout=None))


def test_shares_are_even_and_keep_files_together() -> None:
    tests = ["a::1", "a::2", "b::1", "c::1", "c::2"]
    weights = {"a::1": 3.0, "a::2": 3.0, "b::1": 5.0, "c::1": 0.5, "c::2": 0.5}
    assert divide(tests, 2, weights) == [["a::1", "a::2"], ["b::1", "c::1", "c::2"]]


def test_reruns_of_a_test_share_its_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: now[0]))
    told: list[str] = []
    follower = Follower(lambda test: 10.0, lambda test, result: told.append(result.outcome))
    start = {"event": "start", "id": "t.py::test_a"}
    for now[0] in (1.0, 6.0):
        follower.hear([start])
    now[0] = 10.5
    assert not follower.is_late()
    now[0] = 11.5
    assert follower.is_late()
    follower.give_up("")
    assert told == [HUNG]


def test_what_is_known_to_fail_is_tried_once(bench: Bench) -> None:
    told = bench.sources / "told"
    bench.seed(
        "import pytest\n"
        "@pytest.fixture\n"
        "def told(request):\n"
        "    mark = request.node.get_closest_marker('flaky')\n"
        f"    open({str(told)!r}, 'a').write(f'{{mark.kwargs}}\\n')\n"
        "@pytest.mark.flaky(reruns=5)\n"
        "def test_bad(told): assert False\n"
        "@pytest.mark.flaky(reruns=5)\n"
        "def test_good(told): pass\n"
    )
    screen = Screen(Console(file=io.StringIO()), "seeded")
    once = {"test_seeded.py::test_bad"}
    work.carry_out(bench.request(), CATALOG, screen, expected=lambda test: True, once=once)
    assert told.read_text().splitlines() == ["{'reruns': 0}", "{'reruns': 5}"]


def test_what_hung_before_gets_no_more_patience() -> None:
    results = {
        "hangs": Result(HUNG, 50.0),
        "is slow": Result(PASSED, 20.0),
        "is fast": Result(PASSED),
    }
    baseline = Run("seeded", "celery", "1.0", "", results=results)
    suite = dataclasses.replace(read_catalog().suite("integration"), seconds=300)
    limit = limits(work.Request(suite, Environment(SHIM, "1.0")), baseline)
    assert [limit(each) for each in ("hangs", "is slow", "is fast", "is new")] == [
        50.0,
        200.0,
        work.LEAST_SECONDS,
        300.0,
    ]


def test_a_set_up_that_never_works_is_not_tried_for_ever() -> None:
    told: dict[str, str] = {}
    follower = Follower(lambda test: 1.0, lambda test, result: told.update({test: result.message}))
    tests = [f"t.py::test_{number}" for number in range(HOPELESS + 5)]

    def done(test: str, outcome: str, message: str = "") -> dict[str, object]:
        common = {"event": "done", "seconds": 0.1, "detail": "", "reruns": 0}
        return {**common, "id": test, "outcome": outcome, "message": message}

    failing = [done(test, ERROR, "no server") for test in tests[:HOPELESS]]
    follower.hear([*failing[:-1], done("t.py::test_passes", PASSED)])
    assert follower.hopeless is None
    follower.hear([*failing[:-1], done("t.py::test_is_skipped", SKIPPED), failing[-1]])
    assert follower.hopeless == ("t.py", "no server")
    follower.pass_over([*tests, "other.py::test_a"])
    assert [told[test] for test in tests[HOPELESS:]] == ["not run: no server"] * 5
    assert "other.py::test_a" not in told
