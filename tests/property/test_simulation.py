"""Random schedules over the real worker and both stores break no rule, and can be repeated."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from taskmq.errors import ConfigError
from taskmq.testing import FakeClock
from taskmq.testing.simulation import (
    RULES,
    Move,
    Report,
    Schedule,
    Violation,
    replay,
    shrink,
    simulate,
)
from taskmq.testing.simulation.__main__ import main
from taskmq.testing.simulation.journal import Journal
from taskmq.transports.memory import MemoryTransport

STEPS = 150

# -- 10,000 schedules in `make test`; others by the environment ----------------------------------
SCHEDULES = int(os.environ.get("SIMULATION_SCHEDULES", "10000"))
FIRST = int(os.environ.get("SIMULATION_FIRST", "0"))
SHORT, LONG = 10, 300
"""Steps of a schedule. Short ones differ most for their cost; long ones get deep."""
CHUNK = 500
ON_SQLITE = 6
"""Of a chunk. They cost ten times as much."""
DEEP = 4

SETTLEMENTS = ("Ack", "RetryLater", "DeadLetter", "Defer", "Release", "Revoke", "Expire", "Nack")
GROWTH = ("Delegate", "spawn")
TROUBLE = ("lease_lost", "repeated", "left: worker_lost", "left: expired", "is killed", "crashed")
FAULTS = ("did not reach the store", "was lost", "IdempotencyConflict", "UnknownDependency")
POOLS = ("soft_limit", "hard_limit", "child_lost", "terminated", "does not let", "ended")
FLOW = ("QueueFull", "pause", "resume", "by force", "reclaim from")
TIME = ("set back", "+60.000", "+300.000")
OTHERS = ("stopped", "begins", "extend", "cancel_requested", "replay", "bury", "purge", "acquire")
EVENTS = (*SETTLEMENTS, *GROWTH, *TROUBLE, *FAULTS, *POOLS, *FLOW, *TIME, *OTHERS)


def nothing_is_wrong(seeds: range, transport: str, steps: int) -> None:
    for seed in seeds:
        report = simulate(seed, steps, transport)
        assert not report.violations, str(report)


@pytest.mark.parametrize("first", range(FIRST, FIRST + SCHEDULES, CHUNK))
def test_no_schedule_breaks_a_rule(first: int) -> None:
    on_memory = range(first, first + CHUNK - ON_SQLITE)
    nothing_is_wrong(on_memory, "memory", SHORT)
    nothing_is_wrong(range(on_memory.stop, first + CHUNK), "sqlite", SHORT)


@pytest.mark.parametrize("transport", ["memory", "sqlite"])
def test_no_long_schedule_breaks_a_rule(transport: str) -> None:
    nothing_is_wrong(range(FIRST, FIRST + DEEP), transport, LONG)


def test_everything_that_should_happen_does() -> None:
    seen: Counter[str] = Counter()
    for seed in range(1000, 1080):
        text = "\n".join(line.text for line in simulate(seed, STEPS).journal.lines)
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


# -- what people get to see ------------------------------------------------------------------


def a_report(*violations: Violation) -> Report:
    journal = Journal(FakeClock())
    journal.step = 7
    journal.add("w1", "reserve 1 -> j1 #1")
    journal.add("w2", "reserve 1 -> j2 #2")
    return Report(
        schedule=Schedule(5, "sqlite", [Move("step", 1), Move("wait", 2, plain=True)]),
        violations=violations,
        journal=journal,
        jobs=2,
        runs=1,
        stale_starts=0,
        crashes=0,
        faults=0,
    )


def test_a_good_report_is_one_line() -> None:
    line = "seed 5 on sqlite: 2 steps, 2 jobs, 1 runs, 0 crashes, 0 faults: nothing wrong"
    assert str(a_report()) == line


def test_a_bad_report_tells_the_rule_the_story_and_how_to_replay_it() -> None:
    text = str(a_report(Violation("fifo", 7, "job j1 was delivered before its turn", "j1")))
    assert f"step 7: fifo ({RULES['fifo']}): job j1 was delivered before its turn" in text
    about = text.partition("what happened to j1:")[2].partition("the last steps:")[0]
    assert "j1 #1" in about
    assert "j2" not in about
    schedule = '{"seed": 5, "transport": "sqlite", "moves": "step:1 wait:2!"}'
    command = f"python -m taskmq.testing.simulation --replay '{schedule}'"
    assert text.endswith(f"replay: {command}")


def test_a_store_of_ones_own_is_replayed_by_a_call() -> None:
    report = simulate(1, 2, lambda clock: MemoryTransport(clock))
    assert report.replay == f"replay(Schedule.load({report.schedule.dump()!r}), <lambda>)"


# -- schedules --------------------------------------------------------------------------------


class BuriesOneMore(MemoryTransport):
    """Says that it has deleted one more than it has."""

    def bury(self, job_ids: Sequence[str]) -> int:
        return super().bury(job_ids) + 1


def a_failure() -> Report:
    reports = (simulate(seed, STEPS, BuriesOneMore) for seed in range(20))
    return next(report for report in reports if report.violations)


def test_a_schedule_is_one_line_of_text() -> None:
    schedule = Schedule.draw(3, STEPS, "memory")
    line = schedule.dump()
    assert "\n" not in line
    assert Schedule.load(line) == schedule


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"seed": 1, "transport": "memory", "moves": "fly:3"}',
        '{"seed": 1, "transport": "memory", "moves": "step"}',
        '{"seed": "x", "transport": "memory", "moves": ""}',
        '{"seed": 1, "transport": "memory", "moves": 3}',
    ],
)
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="simulation"):
        Schedule.load(text)


def test_a_schedule_tells_the_same_story_again() -> None:
    report = simulate(3, STEPS)
    again = replay(Schedule.load(report.schedule.dump()))
    assert list(map(str, again.journal.lines)) == list(map(str, report.journal.lines))


def test_a_failure_is_shrunk_to_the_moves_that_it_needs() -> None:
    failure = a_failure()
    short = shrink(failure, BuriesOneMore)
    assert [move.action for move in short.schedule.moves] == ["bury"]
    again = replay(short.schedule, BuriesOneMore)
    assert [v.text for v in again.violations] == [v.text for v in short.violations]


def test_shrinking_ends_in_time_with_the_best_so_far() -> None:
    failure = a_failure()
    hurried = shrink(failure, BuriesOneMore, seconds=0.0)
    assert hurried.violations[0].rule == failure.violations[0].rule
    assert hurried.steps <= failure.violations[0].step


def test_what_broke_no_rule_cannot_be_shrunk() -> None:
    with pytest.raises(ValueError, match="broke no rule"):
        shrink(a_report())


# -- the command --------------------------------------------------------------------------------


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
    assert "replay: python -m taskmq.testing.simulation --replay" in capsys.readouterr().out


def test_the_command_line_shrinks_saves_and_replays(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(MemoryTransport, "bury", lambda store, job_ids: len(job_ids) + 1)
    file = str(tmp_path / "failing.json")
    assert main(["--seeds", "20", "--steps", "100", "--shrink", "30", "--save", file]) == 1
    assert "to 1 in" in capsys.readouterr().out
    assert main(["--replay", file, "--verbose"]) == 1
    assert "VIOLATION" in capsys.readouterr().out
    monkeypatch.undo()
    assert main(["--replay", file]) == 0
    assert main(["--replay", Path(file).read_text(encoding="utf-8")]) == 0


def test_the_command_line_names_a_schedule_that_is_not_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--replay", "nowhere.json"]) == 2
    assert "nowhere.json" in capsys.readouterr().err


def test_the_command_line_spreads_seeds_over_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "4", "--steps", "20", "--jobs", "2"]) == 0
    assert "4 seeds, 80 steps" in capsys.readouterr().out


def test_the_command_line_names_a_transport_that_it_does_not_know(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--transport", "sqlight"]) == 2
    assert "sqlight" in capsys.readouterr().err
