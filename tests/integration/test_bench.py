"""The benchmarks run, on both stores; what they say is not a test's business."""

import json
import subprocess
import sys
from pathlib import Path

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
