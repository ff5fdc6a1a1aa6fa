"""Saving what is readable of a damaged store."""

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from taskmq.clock import SystemClock
from taskmq.codec import Payload
from taskmq.envelope import Dependency, Envelope, Sealed, seal
from taskmq.errors import StoreCorrupt
from taskmq.ids import new_id
from taskmq.limits import Limit
from taskmq.records import JobFilter, JobRecord
from taskmq.states import JobState
from taskmq.transport import Ack, Reservation
from taskmq.transports.sqlite import from_url
from taskmq.transports.sqlite.salvage import main, salvage

WANTED = Reservation(queues={"q": 1}, worker="w", lease=60.0, limit=50)
PAGE = 2048
LARGE = 3_000


def job(size: int = 300, **fields: Any) -> Sealed:
    values = {"id": new_id(), "task": "demo.task", "queue": "q", **fields}
    return seal(Envelope(v=1, headers={"x": "x" * size}, **values), 1 << 20)


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A closed store: 50 successes with results, 350 jobs that wait. The envelopes of a hundred are
    apart from the rows of their jobs."""
    path = tmp_path / "jobs.db"
    store = from_url(f"sqlite:///{path}", clock=SystemClock())
    for size in (300, LARGE, LARGE, 300, 300, 300, 300, 300):
        store.enqueue([job(size) for _ in range(50)])
    held = store.reserve(WANTED)
    store.settle([Ack(delivery, Payload("json", b'"r"')) for delivery in held])
    store.close()
    return path


def saved(path: Path) -> list[JobRecord]:
    store = from_url(f"sqlite:///{path}", clock=SystemClock())
    records = store.find(JobFilter(limit=1000))
    for delivery in store.reserve(WANTED):
        assert delivery.envelope
    store.close()
    return records


def test_undamaged_store_is_saved_whole(filled: Path) -> None:
    new = filled.with_name("new.db")
    counts = salvage(filled, new, clock=SystemClock())
    assert (counts["jobs"], counts["envelopes"], counts["results"]) == (400, 350, 50)
    assert counts["salvaged"] == 0
    assert saved(new) == saved(filled)


def test_command_in_the_message_works(filled: Path) -> None:
    os.truncate(filled, int(filled.stat().st_size * 0.7))
    with pytest.raises(StoreCorrupt) as caught:
        from_url(f"sqlite:///{filled}", clock=SystemClock())
    command = str(caught.value).split("`")[1].split()
    assert command[0] == "python"
    before = filled.read_bytes()
    done = subprocess.run([sys.executable, *command[1:]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "dead letters with reason 'salvaged'" in done.stdout
    assert len(saved(Path(command[-1]))) > 100
    assert filled.read_bytes() == before


@pytest.mark.parametrize("seed", range(10))
def test_damaged_pages_cost_their_own_rows_only(filled: Path, seed: int) -> None:
    content = bytearray(filled.read_bytes())
    pages = len(content) // PAGE
    empty = filled.with_name("empty.db")
    from_url(f"sqlite:///{empty}", clock=SystemClock()).close()
    schema = empty.stat().st_size // PAGE  # the beginning, and the roots of the tables
    choose = random.Random(seed)
    for page in choose.sample(range(schema, pages), 5):
        content[page * PAGE : (page + 1) * PAGE] = choose.randbytes(PAGE)
    filled.write_bytes(content)
    new = filled.with_name("new.db")
    salvage(filled, new, clock=SystemClock())
    records = saved(new)
    assert len(records) > 200
    assert {record.dead_reason for record in records} <= {None, "salvaged"}
    assert {record.state for record in records} <= {
        JobState.QUEUED,
        JobState.SUCCEEDED,
        JobState.FAILED,
    }


def test_halves_of_jobs_become_dead_letters(filled: Path, tmp_path: Path) -> None:
    import sqlite3

    store = from_url(f"sqlite:///{filled}", clock=SystemClock())
    parent = new_id()
    store.enqueue([job(LARGE, id=parent), job(after=(Dependency(parent),))])
    store.close()
    with sqlite3.connect(filled) as database:
        database.execute("DROP TRIGGER jobs_delete")
        database.execute("DELETE FROM jobs WHERE seq = 401 OR seq = 100")
        database.execute("DELETE FROM envelopes WHERE seq = 101")
    database.close()
    counts = salvage(filled, tmp_path / "new.db", clock=SystemClock())
    dead = [record for record in saved(tmp_path / "new.db") if record.dead_reason]
    assert counts["salvaged"] == len(dead) == 3
    assert [bool(record.envelope) for record in dead] == [True, False, True]
    assert dead[2].id == parent


def test_jobs_whose_pattern_is_lost_become_dead_letters(filled: Path, tmp_path: Path) -> None:
    """Of 300 jobs whose envelopes are not apart, 50 each were stored at once."""
    import sqlite3

    with sqlite3.connect(filled) as database:
        database.execute("DELETE FROM patterns WHERE seq = 151")
    database.close()
    counts = salvage(filled, tmp_path / "new.db", clock=SystemClock())
    assert (counts["patterns"], counts["salvaged"]) == (5, 50)
    assert [bool(record.dead_reason) for record in saved(tmp_path / "new.db")] == (
        [False] * 150 + [True] * 50 + [False] * 200
    )


def test_jobs_that_were_held_are_limited_in_the_new_store(filled: Path) -> None:
    two = (Limit("concurrency", "k", 2),)
    wanted = Reservation(queues={"limited": 1}, worker="w", lease=60.0, limit=9)
    store = from_url(f"sqlite:///{filled}", clock=SystemClock())
    store.enqueue([job(queue="limited", limits=two) for _ in range(5)])
    assert len(store.reserve(wanted)) == 2
    store.close()
    new = filled.with_name("new.db")
    salvage(filled, new, clock=SystemClock())
    store = from_url(f"sqlite:///{new}", clock=SystemClock())
    assert store.reserve(wanted) == []  # two still run
    (stats,) = store.stats(["limited"])
    assert (stats.held, stats.running) == (3, 2)
    store.close()


def test_wrong_calls_are_one_line(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = filled.with_name("text")
    text.write_text("remember the milk\n" * 10)
    calls = [
        ([], 2, "usage: python -m taskmq.transports.sqlite.salvage DAMAGED.db NEW.db"),
        ([str(filled), str(filled)], 1, "exists; name a new file"),
        ([str(filled) + "x", "new.db"], 1, "there is no such file"),
        ([str(text), str(filled) + ".new"], 1, "not even its beginning is readable"),
    ]
    for arguments, status, says in calls:
        assert main(arguments) == status
        answer = capsys.readouterr().err
        assert says in answer
        assert answer.count("\n") == 1
