"""The benchmarks run; how fast it was is not a test's business. One is a test itself: a worker's
memory stays flat."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.bench.memory import judge
from tests.bench.report import markdown, rows_of
from tests.bench.rounds import JOBS, Cell, Run, takes_part
from tests.bench.scaling.questions import QUESTIONS, Amounts, Point
from tests.bench.scaling.report import markdown as scaling_table
from tests.bench.targets import TARGETS, Entry, Target, chosen, plan_for, table
from tests.bench.targets import judge as judge_targets

TOP = Path(__file__).parents[2]
pytestmark = pytest.mark.no_cover  # figures of a traced engine would be none


def bench(*arguments: str) -> Any:
    """What a run says of itself, as JSON."""
    command = [sys.executable, "-m", "tests.bench", "--json", "-", "--idle-seconds", "0.05"]
    run = subprocess.run(
        [*command, *arguments], cwd=TOP, capture_output=True, text=True, timeout=100
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_every_workload_runs() -> None:
    said = bench("--store", "memory", "--jobs", "3", "--rounds", "1")
    assert {run["workload"] for run in said["runs"]} == set(JOBS)
    assert all(value >= 0 for run in said["runs"] for value in run["figures"].values())


def test_workers_are_processes_that_lose_nothing() -> None:
    arguments = ["--store", "sqlite", "--only", "drain", "--processes", "1,2", "--rounds", "1"]
    runs = bench(*arguments, "--jobs", "200", "--contestant", "native")["runs"]
    assert sorted(run["processes"] for run in runs) == [1, 2]
    assert all((run["figures"]["lost"], run["error"]) == (0, "") for run in runs)


def run_of(who: str, round: int, value: float, workload: str = "drain") -> Run:
    figure = "jobs/s" if workload == "drain" else "p50 ms"
    figures = {figure: value, "worker CPU µs": 10.0}
    return Run(workload, "redis", "threads", 1, who, round, 100, figures)


def test_ratios_are_those_of_one_round() -> None:
    runs = [run_of("native", n, value) for n, value in enumerate((100.0, 10.0, 50.0))]
    runs += [run_of("celery", n, value) for n, value in enumerate((50.0, 5.0, 10.0))]
    own, other = rows_of(runs)
    assert (own.contestant, own.median, own.ratio) == ("native", 50.0, None)
    assert (other.contestant, other.median, other.ratio) == ("celery", 10.0, 2.0)


def test_less_is_better_where_it_is_time() -> None:
    runs = [run_of("native", 0, 2.0, "latency"), run_of("celery", 0, 8.0, "latency")]
    _, other = rows_of([*runs, run_of("celery", 1, 1.0, "latency")])
    assert other.ratio == 4.0


NATIVE = Entry("native", Cell("drain", "redis"))
TWICE = Target("twice", NATIVE, at_least=2, times=Entry("celery", Cell("drain", "redis")))


@pytest.mark.parametrize(("theirs", "met"), [((50.0, 5.0, 1.0), True), ((60.0, 6.0, 1.0), False)])
def test_a_target_is_judged_by_the_median_of_the_ratios(
    theirs: tuple[float, ...], met: bool
) -> None:
    runs = [run_of("native", n, value) for n, value in enumerate((100.0, 10.0, 50.0))]
    runs += [run_of("celery", n, value) for n, value in enumerate(theirs)]
    (verdict,) = judge_targets([TWICE], runs)
    assert (verdict.met, verdict.ours, verdict.theirs) == (met, 50.0, sorted(theirs)[1])


def test_a_target_that_was_not_measured_is_not_met() -> None:
    at_most = Target("CPU", NATIVE, "worker CPU µs", at_most=5)
    verdicts = judge_targets([TWICE, at_most], [run_of("native", 0, 1.0)])
    assert [verdict.met for verdict in verdicts] == [False, False]
    said = table(verdicts)
    assert "| twice (jobs/s) | ≥ 2 x celery | - | 1 |  | not measured |" in said
    assert "| CPU (worker CPU µs) | ≤ 5 | 10 | 10 |  | no |" in said
    assert "0 of 2 targets are met." in said


def test_every_target_can_be_measured_by_who_takes_part() -> None:
    for target in TARGETS:
        for entry in target.entries:
            assert takes_part(entry.who, entry.cell), target.row
    plan = plan_for(chosen(["redis"], ["bulk"]))
    assert plan == {Cell("bulk", "redis"): ["native", "rq"]}


def test_the_table_names_what_came_to_nothing() -> None:
    failed = Run("drain", "redis", "threads", 1, "rq", 0, 100, {}, "RuntimeError: a worker ended")
    table = markdown([*rows_of([run_of("native", 0, 2.0)])], {"rounds": 1}, errors=[failed])
    assert "| drain, redis, threads 8 x1 | native | jobs/s | 2 | 2 to 2 |" in table
    assert "rq: drain, redis, threads 8 x1: RuntimeError: a worker ended" in table


FEW = Amounts(rounds=2, sample=200, per_queue=3, megabytes=0, lead=0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("question", "sizes", "figures"),
    [
        ("depth", [200, 400], {"claim", "submit"}),
        ("queues", [20, 40], {"claim", "look", "submit", "one"}),
        ("scheduled", [0, 100], {"claim", "submit", "schedule", "promote"}),
        ("payloads", [100, 10_000], {"submit µs", "drain µs", "submit jobs/s", "drain jobs/s"}),
    ],
)
def test_what_grows_is_measured_side_by_side(
    question: str, sizes: list[int], figures: set[str]
) -> None:
    points = list(QUESTIONS[question].ask("sqlite", FEW, sizes))
    assert {(point.size, point.round) for point in points} == {
        (s, n) for s in sizes for n in (0, 1)
    }
    assert figures <= {name for point in points for name in point.figures}
    assert all(value > 0 for point in points for value in point.figures.values())


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_worker_at_rest_is_watched() -> None:
    (point,) = QUESTIONS["rest"].ask("sqlite", Amounts(seconds=0.05), [1])
    assert (point.question, point.size) == ("rest", 1)
    assert point.figures["MiB"] > 1


def test_growth_is_that_of_one_round() -> None:
    claims = {(1_000, 0): 2.0, (1_000, 1): 20.0, (9_000, 0): 3.0, (9_000, 1): 50.0}
    points = [
        Point("depth", "redis", "", size, round, {"claim": value})
        for (size, round), value in claims.items()
    ]
    said = scaling_table(points, {"rounds": 2})
    assert "| jobs that wait | | 1,000 | 9,000 |" in said
    assert "| redis | claim | 11 | 26.5 (2.00x) |" in said


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("jobs", ["--jobs=20000 --failing=0", "--jobs=0 --failing=2000"])
@pytest.mark.parametrize("pool", ["threads", "processes"])
def test_memory_stays_flat(tmp_path: Path, pool: str, jobs: str) -> None:
    """20,000 jobs that do nothing, or 2,000 that fail with 400 KB in local variables."""
    command = [sys.executable, "-m", "tests.bench", "memory", "--json", "--pool", pool, "-c", "2"]
    command += [*jobs.split(), "--locals", "200000", "--folder", str(tmp_path)]
    run = subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=110)
    assert run.returncode == 0, run.stdout + run.stderr
    (verdict,) = json.loads(run.stdout).values()
    assert verdict["jobs"] >= 2_000


@pytest.mark.parametrize(("leak", "flat"), [(0, True), (5, True), (500, False), (-500, True)])
def test_a_leak_is_told_from_noise(leak: int, flat: bool) -> None:
    noise = (0, 900_000, -400_000)
    samples = [
        (begun, 50_000_000 + leak * begun + noise[begun // 1000 % 3])
        for begun in range(0, 50_001, 1000)
    ]
    verdict = judge(samples, warm_up=30_000, seconds=1.0, bound=8.0)
    assert verdict.flat is flat
    assert verdict.jobs == 20_000
    assert verdict.bytes_a_job == pytest.approx(leak, abs=60)
