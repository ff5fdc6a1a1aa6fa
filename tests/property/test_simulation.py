"""Random schedules over the real worker and both stores break no rule, and can be repeated."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from taskmq.testing import FakeClock
from taskmq.testing.simulation import RULES, Report, Violation, simulate
from taskmq.testing.simulation.__main__ import main
from taskmq.testing.simulation.journal import Journal
from taskmq.transports.memory import MemoryTransport

STEPS = 150
CHUNK = 25
SETTLEMENTS = ("Ack", "RetryLater", "DeadLetter", "Defer", "Release", "Revoke", "Expire")
TROUBLE = ("lease_lost", "repeated", "left: worker_lost", "left: expired", "is killed", "crashed")
FAULTS = ("did not reach the store", "was lost", "IdempotencyConflict", "UnknownDependency")
OTHERS = ("stopped", "begins", "extend", "cancel_requested", "replay", "bury", "purge", "acquire")
EVENTS = (*SETTLEMENTS, *TROUBLE, *FAULTS, *OTHERS)


def first_violation(seeds: range, transport: str) -> Report | None:
    return next(
        (report for seed in seeds if (report := simulate(seed, STEPS, transport)).violations), None
    )


@pytest.mark.parametrize("first", range(0, 6 * CHUNK, CHUNK))
def test_no_seed_breaks_a_rule_on_memory(first: int) -> None:
    assert first_violation(range(first, first + CHUNK), "memory") is None


@pytest.mark.parametrize("first", [0, 8])
def test_no_seed_breaks_a_rule_on_sqlite(first: int) -> None:
    assert first_violation(range(first, first + 8), "sqlite") is None


def test_everything_that_should_happen_does() -> None:
    seen: Counter[str] = Counter()
    for seed in range(1000, 1040):
        text = "\n".join(line.text for line in simulate(seed, 2 * STEPS).journal.lines)
        seen.update({event: text.count(event) for event in EVENTS})
    assert [event for event in EVENTS if not seen[event]] == []


def story(seed: int, transport: str) -> list[str]:
    return [str(line) for line in simulate(seed, STEPS, transport).journal.lines]


@pytest.mark.parametrize("transport", ["memory", "sqlite"])
def test_a_seed_tells_the_same_story_again(transport: str) -> None:
    assert story(3, transport) == story(3, transport)
    assert story(3, transport) != story(4, transport)


def test_the_story_does_not_depend_on_the_process() -> None:
    """Nothing is decided by the order of a set."""
    arguments = ["--seed", "3", "--steps", str(STEPS), "--verbose"]
    told = [
        subprocess.run(
            [sys.executable, "-m", "taskmq.testing.simulation", *arguments],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout.splitlines()
        for hash_seed in ("1", "2")
    ]
    assert told[0][:-1] == told[1][:-1]  # the last line has the seconds that it took
    assert told[0][: len(story(3, "memory"))] == story(3, "memory")


# -- what people get to see -----------------------------------------------------------------------


def a_report(*violations: Violation) -> Report:
    journal = Journal(FakeClock())
    journal.step = 7
    journal.add("w1", "reserve 1 -> j1 #1")
    journal.add("w2", "reserve 1 -> j2 #2")
    return Report(
        seed=5,
        steps=40,
        transport="sqlite",
        violations=violations,
        journal=journal,
        jobs=2,
        runs=1,
        stale_starts=0,
        crashes=0,
        faults=0,
    )


def test_a_good_report_is_one_line() -> None:
    line = "seed 5 on sqlite: 40 steps, 2 jobs, 1 runs, 0 crashes, 0 faults: nothing wrong"
    assert str(a_report()) == line


def test_a_bad_report_tells_the_rule_the_story_and_how_to_replay_it() -> None:
    text = str(a_report(Violation("fifo", 7, "job j1 was delivered before its turn", "j1")))
    assert f"step 7: fifo ({RULES['fifo']}): job j1 was delivered before its turn" in text
    about = text.partition("what happened to j1:")[2].partition("the last steps:")[0]
    assert "j1 #1" in about
    assert "j2" not in about
    command = "python -m taskmq.testing.simulation --seed 5 --transport sqlite --steps 40"
    assert text.endswith(f"replay: {command}")


def test_a_store_of_ones_own_is_replayed_by_a_call() -> None:
    report = simulate(1, 20, lambda clock: MemoryTransport(clock))
    assert report.replay == "simulate(seed=1, steps=20, transport=<lambda>)"


def test_the_command_line_takes_the_factory_of_the_conformance_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_store.py").write_text(
        "from taskmq.transports.memory import MemoryTransport\n"
        "def open_store(name, clock):\n"
        "    return MemoryTransport(clock)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    target = "their_store:open_store"
    assert main(["--seeds", "1", "--steps", "20", "--transport", target]) == 0


def test_the_command_line_sums_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3", "--steps", "50"]) == 0
    assert "memory: 3 seeds, 150 steps" in capsys.readouterr().out


def test_the_command_line_fails_with_the_story(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryTransport, "bury", lambda store, job_ids: len(job_ids) + 1)
    assert main(["--seeds", "20", "--steps", "100"]) == 1
    assert "replay: python -m taskmq.testing.simulation --seed" in capsys.readouterr().out


def test_the_command_line_spreads_seeds_over_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "4", "--steps", "20", "--jobs", "2"]) == 0
    assert "4 seeds, 80 steps" in capsys.readouterr().out


def test_the_command_line_names_a_transport_that_it_does_not_know(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--transport", "sqlight"]) == 2
    assert "sqlight" in capsys.readouterr().err
