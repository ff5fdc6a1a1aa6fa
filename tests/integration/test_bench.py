"""The benchmarks run, on both stores; what they say is not a test's business. One is a test
itself: a worker's memory stays flat."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.bench.memory import judge

TOP = Path(__file__).parents[2]


def test_benchmarks_give_every_figure_for_every_round(tmp_path: Path) -> None:
    sizes = ["--jobs", "200", "--samples", "2", "--idle-seconds", "0.05", "--rounds", "2"]
    run = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--json", "--folder", str(tmp_path), *sizes],
        cwd=TOP,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    results = json.loads(run.stdout)["results"]
    assert set(results) == {"sqlite", "memory"}
    for figures in results.values():
        assert len(figures) == 8
        assert all(len(rounds) == 2 for rounds in figures.values())
        assert all(value >= 0 for rounds in figures.values() for value in rounds)


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
