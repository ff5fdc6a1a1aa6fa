"""docs/explanation/pool-matrix.md says what every pool does, and each hook comes once."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).parents[2]
PAGE = TOP / "docs/explanation/pool-matrix.md"
VERDICTS = {"S", "R", "F"}
pytestmark = pytest.mark.no_cover  # many jobs of what other tests cover


@pytest.fixture(scope="module")
def matrix() -> Any:
    """``seen`` by column and row, and the ``page`` that was made of it."""
    command = [sys.executable, "-m", "tests.integration.pool_matrix", "--json"]
    run = subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.fixture(scope="module")
def jobs(matrix: Any) -> dict[str, Any]:
    """What was seen of each job that there was, by its column and row."""
    return {
        f"{column}: {row}": job
        for column, rows in matrix["seen"].items()
        for row, job in rows.items()
        if job["end"].isupper() or ":" in job["end"]
    }


def attempts(job: Any) -> list[list[tuple[str, str]]]:
    """Its task's hooks, and what each was given, by attempt."""
    found: list[list[tuple[str, str]]] = []
    for letter, told in zip(job["hooks"], job["told"], strict=True):
        if letter == "B":
            found.append([])
        if letter != "D":
            found[-1].append((letter[0], told))
    return found


def test_the_page_says_what_was_seen(matrix: Any) -> None:
    assert PAGE.read_text() == matrix["page"], "python -m tests.integration.pool_matrix writes it"


def test_no_attempt_calls_a_hook_twice_or_out_of_order(jobs: dict[str, Any]) -> None:
    for name, job in jobs.items():
        for attempt in attempts(job):
            letters = [letter for letter, _ in attempt]
            assert max(Counter(letters).values()) == 1, name
            assert letters == sorted(letters, key="BSRFA".index), name
            assert len(VERDICTS & set(letters)) <= 1, name


def test_whoever_fails_or_expires_is_told_of_once(jobs: dict[str, Any]) -> None:
    for name, job in jobs.items():
        ended = job["end"].startswith(("FAILED", "EXPIRED"))
        ended = ended or name.endswith("revoked unstarted")
        told = sum(letter[0] in "FD" for letter in job["hooks"])
        assert told == ended, name
        assert (job["events"][-1:] in (["failed"], ["dropped"])) == (
            ended or (job["end"] == "REVOKED" and "B" in job["hooks"])
        ), name


def test_after_return_is_told_the_state_that_is_stored(jobs: dict[str, Any]) -> None:
    for name, job in jobs.items():
        last = [
            told for letter, told in zip(job["hooks"], job["told"], strict=True) if "A" in letter
        ]
        assert last[-1:] in ([], [job["end"].partition(":")[0]]), name


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("timeout, with retry", "SoftTimeLimit"),
        ("hard_timeout, with retry", "HardTimeLimit"),
        ("killed too often", "WorkerLost"),
    ],
)
def test_hooks_are_told_which_limit_it_was(matrix: Any, row: str, error: str) -> None:
    job = matrix["seen"]["`processes`"][row]
    told = [told for attempt in attempts(job) for letter, told in attempt if letter in "RF"]
    assert set(told) == {error}
