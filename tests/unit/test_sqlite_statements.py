"""The statements: each described, none of them slow, all of them in step with the code."""

import re
import sqlite3
from pathlib import Path

import msgspec
import pytest

from taskmq.transports import _files
from taskmq.transports.sqlite import schema, statements
from taskmq.transports.sqlite.rows import Row

GROUPS = {name: getattr(statements, name) for name in statements.__all__}
WHOLE = re.compile(r"(SELECT|INSERT|UPDATE|DELETE|WITH)\b")
STATEMENTS = {
    f"{group}/{name}": sql
    for group, blocks in GROUPS.items()
    for name, sql in blocks.items()
    if group != "SALVAGE" and WHOLE.match(sql)
}
NOT_HOT = {
    "DEPENDENCIES/parents",  # DISTINCT over a batch
    "QUERY/record",  # completed by a condition
    "QUERY/due",  # GROUP BY over what is due
    "REGISTRY/workers",
    "UPKEEP/depended_on",  # only a purge asks
}


def new_database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for script in schema.MIGRATIONS.values():
        for statement in schema.statements(_files.read_text(schema.PACKAGE, f"sql/{script}")):
            connection.execute(statement)
    return connection


def plan(connection: sqlite3.Connection, sql: str) -> list[str]:
    names = re.findall(r":(\w+)", sql)
    values = dict.fromkeys(names) if names else [None] * sql.count("?")
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]


def misled_database() -> sqlite3.Connection:
    """One that somebody ran ANALYZE on when nearly all jobs were finished, in one queue."""
    connection = new_database()
    row = ("ready", 2, "QUEUED", None), *((f"done-{n}", 5, "SUCCEEDED", 1.0) for n in range(500))
    connection.executemany(
        "INSERT INTO jobs (id, phase, state, due_at, queue, priority, token, visible_at, "
        "result_ttl, keep_result, on_receipt, max_deliveries, task, enqueued_at) "
        "VALUES (?, ?, ?, ?, 'q', 0, 0, 0, 0, 0, 0, 5, 't', 0)",
        row,
    )
    connection.execute("ANALYZE")
    return connection


@pytest.mark.parametrize("database", [new_database, misled_database])
@pytest.mark.parametrize("name", sorted(STATEMENTS.keys() - NOT_HOT))
def test_no_statement_scans_a_table_or_sorts(name: str, database: object) -> None:
    assert callable(database)
    connection = database()
    steps = plan(connection, STATEMENTS[name])
    connection.close()
    tables = "jobs|envelopes|results|keys|inputs"
    assert not [step for step in steps if re.match(rf"SCAN ({tables})\b", step)], steps
    assert not [step for step in steps if "TEMP B-TREE" in step], steps


def test_parameters_are_question_marks_or_names_but_no_numbers() -> None:
    # Python 3.12.0 to 3.12.3 take ?1 for a name.
    assert not [name for name, sql in STATEMENTS.items() if re.search(r"\?\d", sql)]


@pytest.mark.parametrize("database", [new_database, misled_database])
def test_jobs_that_are_alike_come_in_the_order_of_the_store(database: object) -> None:
    assert callable(database)
    connection = database()
    steps = plan(connection, statements.SETTLE["alike"])
    connection.close()
    assert "SEARCH jobs USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)" in steps


def test_every_statement_runs_on_the_schema() -> None:
    connection = new_database()
    for sql in STATEMENTS.values():
        plan(connection, sql)
    connection.close()


def test_a_row_is_loaded_and_saved_column_by_column() -> None:
    load, save = statements.SETTLE["load"], statements.SETTLE["save"]
    columns = re.split(r",\s*", load[len("SELECT") : load.index("FROM")].strip())
    assert tuple(columns) == Row.__struct_fields__
    saved = re.findall(r"(\w+) = :(\w+)", save)
    assert [column for column, value in saved if column != value] == []
    assert {column for column, _ in saved} == set(Row.__struct_fields__) - {"id"}
    assert msgspec.structs.fields(Row)[0].name == "seq"


def test_a_block_needs_a_description_and_a_name_of_its_own(tmp_path: Path) -> None:
    assert _files.BLOCK.split("-- name: a\nSELECT 1;\n")[1:3] == ["a", ""]
    package = tmp_path / "taskmq_test_blocks"
    package.mkdir()
    (package / "__init__.py").touch()
    for text in ("-- name: a\nSELECT 1;\n", "-- name: a\n-- x\nSELECT 1;\n" * 2):
        (package / "x.sql").write_text(text)
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(tmp_path))
            with pytest.raises(ValueError, match="block 'a' needs a description"):
                _files.load_blocks("taskmq_test_blocks", "x.sql")
