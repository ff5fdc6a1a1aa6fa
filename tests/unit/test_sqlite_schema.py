"""The schema mirrors the table of states, and the rows follow it."""

import sqlite3
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest

from taskmq.states import TERMINAL, TRANSITIONS, Event, JobState
from taskmq.transports import _files
from taskmq.transports.postgres import schema as postgres_schema
from taskmq.transports.sqlite import schema
from taskmq.transports.sqlite.rows import DELAYED, FINISHED, READY, RUNNING, Row

NOW = 1000.0
STORED = [state for state in JobState if state is not JobState.UNKNOWN]
PHASES = {
    -1: {"QUEUED", "RETRYING"},
    0: {"WAITING"},
    1: {"FAILED"},
    2: {"QUEUED", "RETRYING"},
    3: {"QUEUED", "RETRYING"},
    4: {"RUNNING"},
    5: {"SUCCEEDED", "EXPIRED", "REVOKED", "SKIPPED"},
}
INSERT = (
    "INSERT INTO jobs (id, phase, state, due_at, queue, priority, token, visible_at, result_ttl, "
    "keep_result, on_receipt, max_deliveries, task, enqueued_at) "
    "VALUES (?, ?, ?, ?, 'q', 0, 0, 0, 0, 0, 0, 5, 't', 0)"
)


def new_database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for script in schema.MIGRATIONS.values():
        for statement in schema.statements(_files.read_text(schema.PACKAGE, f"sql/{script}")):
            connection.execute(statement)
    return connection


def a_row(state: JobState, **fields: object) -> Row:
    values = dict.fromkeys(Row.__struct_fields__, 0) | {"state": state.value}
    nothing = ("history", "failure", "worker", "dead_reason", "settled_as", "limits", "gate")
    return Row(**{**values, **dict.fromkeys(nothing), "result_ttl": 60.0, **fields})  # type: ignore[arg-type]  # only what matters here


def test_every_stored_state_has_a_phase_and_no_other_fits() -> None:
    connection = new_database()
    for number, (phase, state) in enumerate(product(range(-1, 7), JobState)):
        due_at = 1.0 if phase >= 3 else None
        values = (str(number), phase, state.value, due_at)
        if state.value in PHASES.get(phase, ()):
            connection.execute(INSERT, values)
        else:
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(INSERT, values)
    assert {state for states in PHASES.values() for state in states} == set(STORED)
    connection.close()


@pytest.mark.parametrize(("phase", "due_at"), [(2, 1.0), (3, None), (4, None), (5, None)])
def test_no_job_is_without_the_instant_that_ends_its_phase(phase: int, due_at: object) -> None:
    connection = new_database()
    state = min(PHASES[phase])
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(INSERT, ("a", phase, state, due_at))
    connection.close()


SETTLED = {E for E in Event if E.value in "retry nack defer release reclaim dead expire revoke"}


@pytest.mark.parametrize(
    ("state", "event"),
    [(s, e) for s, e in TRANSITIONS if e in SETTLED | {Event.REPLAY}],
)
def test_a_row_moves_by_the_table(state: JobState, event: Event) -> None:
    row = a_row(state, visible_at=NOW)
    row.move(event, NOW)
    after = JobState(row.state)
    assert after is TRANSITIONS[state, event]
    assert after.value in PHASES[row.phase]
    assert (row.due_at is not None) == (row.phase >= 3)
    assert (row.finished_at == NOW) == (after in TERMINAL)


def test_what_the_table_does_not_know_cannot_happen() -> None:
    with pytest.raises(AssertionError, match="no transition from SUCCEEDED by nack"):
        a_row(JobState.SUCCEEDED).move(Event.NACK, NOW)


def test_a_job_that_is_visible_later_is_delayed_and_an_end_lasts_as_long_as_it_says() -> None:
    row = a_row(JobState.RUNNING, phase=RUNNING, visible_at=NOW + 5)
    row.move(Event.RETRY, NOW)
    assert (row.phase, row.due_at) == (DELAYED, NOW + 5)
    row.visible_at = NOW
    row.state = "RUNNING"
    row.move(Event.NACK, NOW)
    assert (row.phase, row.due_at) == (READY, None)
    row.move(Event.REVOKE, NOW)
    assert (row.phase, row.due_at) == (FINISHED, NOW + 60.0)


def test_history_keeps_the_newest_twenty_and_short_details() -> None:
    row = a_row(JobState.RUNNING)
    for attempt in range(25):
        row.attempt = attempt
        row.note(Event.RETRY, NOW, "x" * 600)
    assert row.history is not None
    assert row.history.count('"event"') == 20
    assert row.history.startswith('[{"at":1000.0,"event":"retry","attempt":5,')
    assert "x" * 500 in row.history
    assert "x" * 501 not in row.history


def test_what_belongs_to_a_job_goes_with_it() -> None:
    connection = new_database()
    connection.execute(INSERT, ("child", 0, "WAITING", None))
    connection.execute(INSERT, ("other", 0, "WAITING", None))
    connection.execute("INSERT INTO envelopes VALUES (1, 'e')")
    connection.execute("INSERT INTO results VALUES (1, 'json', 'r')")
    connection.execute("INSERT INTO inputs VALUES ('parent', 'json', 'i')")
    connection.executemany("INSERT INTO edges VALUES ('parent', ?, 1)", [(1,), (2,)])

    def left() -> tuple[int, ...]:
        statement = (
            "SELECT (SELECT count(*) FROM envelopes), (SELECT count(*) FROM results), "
            "(SELECT count(*) FROM edges), (SELECT count(*) FROM inputs)"
        )
        return tuple(connection.execute(statement).fetchone())

    connection.execute("DELETE FROM jobs WHERE id = 'child'")
    assert left() == (0, 0, 1, 1)
    connection.execute("DELETE FROM jobs WHERE id = 'other'")
    assert left() == (0, 0, 0, 0)
    connection.close()


def test_migrations_are_numbered_without_gaps() -> None:
    assert list(schema.MIGRATIONS) == list(range(1, schema.VERSION + 1))


@pytest.mark.parametrize("module", [schema, postgres_schema])
def test_every_migration_is_known(module: ModuleType) -> None:
    files = (Path(module.__file__ or "").parent / "sql").glob("[0-9]*.sql")
    assert sorted(file.name for file in files) == list(module.MIGRATIONS.values())
    assert all(name == f"{number:04}_{name[5:]}" for number, name in module.MIGRATIONS.items())


def test_a_script_is_split_where_its_statements_end() -> None:
    script = (
        "-- a; comment\nCREATE TABLE a (x);\nCREATE TRIGGER t AFTER DELETE ON a\nBEGIN\n"
        "    DELETE FROM a;\nEND;\n"
    )
    assert [text.split()[-1] for text in schema.statements(script)] == ["(x);", "END;"]
