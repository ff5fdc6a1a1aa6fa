"""Runs the tests with coverage, side by side; what fails there is run once more, alone.

    .venv/bin/python tools/run_tests.py [arguments for pytest]

Many tests kill real processes and wait for real servers, on a machine that all of them share. A
test that fails in that crowd and passes by itself is named at the end as flaky, which is a defect
of the test or of what it tests; it does not fail the run, as long as there are few. A test that
fails twice does, and so does coverage below its floor.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
PYTEST = [sys.executable, "-m", "pytest"]
SIDE_BY_SIDE = ["-n", str((os.cpu_count() or 1) + 1), "--dist", "worksteal"]
"""A third of the time a test waits, for a process, a server or an instant: one more than there are
processors keeps those busy. Each starts in another part of the tests, so that those that wait much
(faults) run beside those that compute; who has no more takes from the others."""
FEW = 10
"""Tests that are run again. More that fail are no accident."""
TESTS_FAILED = 1


def failed(cache: Path) -> list[str]:
    """The tests that the last run with this cache left failing."""
    found = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(found.read_text())) if found.exists() else []


def run(arguments: list[str], cache: Path) -> int:
    """Exit status of pytest."""
    return subprocess.call([*PYTEST, "-o", f"cache_dir={cache}", *arguments], cwd=TOP)


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="taskmq-tests-") as folder:
        cache = Path(folder)
        status = run([*SIDE_BY_SIDE, "--cov", "--cov-report=term", *arguments], cache)
        again = failed(cache)
        if status != TESTS_FAILED or not 0 < len(again) <= FEW:
            return status
        print(f"\n== {len(again)} failed; once more, alone", flush=True)
        if run(["--no-cov", *again], Path(folder, "again")):
            return TESTS_FAILED
        for test in again:
            print(f"FLAKY {test}: failed among the others, passed alone")
    return subprocess.call([sys.executable, "-m", "coverage", "report", "--format=total"], cwd=TOP)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
