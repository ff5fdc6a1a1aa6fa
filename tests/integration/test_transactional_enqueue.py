"""Jobs that are stored within a transaction of the caller's: rolled back, they never were;
committed, they run, even if the program is killed right after."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
import sqlalchemy.orm
from tests.services import Postgres
from tests.waiting import PATIENCE

from taskmq import App, Config
from taskmq.errors import ConfigError, IdempotencyConflict, SchemaMismatch
from taskmq.testing import worker_for

RAN: list[int] = []


def make_app(url: str) -> App:
    app = App(Config(transport=url))

    @app.task(name="demo.note")
    def note(number: int) -> None:
        RAN.append(number)

    return app


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@pytest.fixture(params=["postgresql", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def app(url: str) -> Iterator[App]:
    app = make_app(url)
    app.transport.paused()  # the schema is there before a caller's transaction
    yield app
    app.close()


@pytest.fixture
def connect(url: str) -> Callable[[], Any]:
    """Opens the driver's connection to the database that the store is in."""

    def open_it() -> Any:
        if url.startswith("sqlite"):
            return sqlite3.connect(url.removeprefix("sqlite:///"))
        return psycopg.connect(url)

    return open_it


def drain(app: App) -> None:
    with worker_for(app) as worker:
        worker.run_until_idle()


def depth(app: App) -> int:
    return sum(each.ready for each in app.transport.stats())


def test_commit_and_rollback(app: App, connect: Callable[[], Any]) -> None:
    note = app.tasks["demo.note"]
    with closing(connect()) as connection:
        connection.execute("CREATE TABLE orders (id integer)")
        connection.commit()
        connection.execute("INSERT INTO orders VALUES (1)")
        note.submit(1, connection=connection)
        connection.rollback()
        assert depth(app) == 0
        connection.execute("INSERT INTO orders VALUES (2)")
        handle = note.submit(2, connection=connection)
        assert depth(app) == 0, "seen by others before the commit"
        connection.commit()
        assert depth(app) == 1
        assert connection.execute("SELECT id FROM orders").fetchall() == [(2,)]
    drain(app)
    assert RAN == [2]
    assert handle.state == "SUCCEEDED"


def test_a_commit_wakes_who_waits(app: App, connect: Callable[[], Any]) -> None:
    listener = app.transport.listen(["default"])
    with closing(connect()) as connection:
        listener.clear()
        app.tasks["demo.note"].submit(1, connection=connection)
        connection.commit()
        assert listener.wait(PATIENCE)
    listener.close()


def test_all_that_jobs_bring_along(app: App, connect: Callable[[], Any]) -> None:
    """Keys hold, and what is refused leaves the transaction usable."""
    note = app.tasks["demo.note"]
    with closing(connect()) as connection:
        first = note.submit(1, key="k", connection=connection)
        again = note.submit(1, key="k", connection=connection)
        with pytest.raises(IdempotencyConflict):
            note.submit(2, key="k", connection=connection)
        many = note.submit_many([(3,), (4,)], connection=connection, eta=3600.0)
        connection.commit()
    assert (again.id, again.created) == (first.id, False)
    assert [handle.state for handle in (first, *many)] == ["QUEUED"] * 3


@pytest.mark.parametrize("kind", ["connection", "session"])
def test_sqlalchemy(app: App, url: str, kind: str) -> None:
    engine = sqlalchemy.create_engine(
        url.replace("postgresql://", "postgresql+psycopg://"), poolclass=sqlalchemy.NullPool
    )
    note = app.tasks["demo.note"]
    opened: Any = engine.connect() if kind == "connection" else sqlalchemy.orm.Session(engine)
    with opened as connection:
        note.submit(1, connection=connection)
        connection.rollback()
        note.submit(2, connection=connection)
        connection.commit()
    drain(app)
    assert RAN == [2]
    engine.dispose()


DJANGO = """
import os, sys
import django
from django.conf import settings
kind, url = sys.argv[1:]
if kind == "sqlite":
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": url.removeprefix("sqlite:///")}
else:
    from psycopg.conninfo import conninfo_to_dict
    given = conninfo_to_dict(url)
    database = {"ENGINE": "django.db.backends.postgresql", "NAME": given["dbname"],
                "USER": given["user"], "HOST": given["host"], "PORT": given["port"]}
settings.configure(DATABASES={"default": database})
django.setup()
from django.db import connection, transaction
from taskmq import App, Config, ConfigError
app = App(Config(transport=url))
note = app.task(name="demo.note")(lambda number: None)
try:
    note.submit(0, connection=connection)
except ConfigError as error:
    assert "transaction.atomic()" in str(error), error
else:
    raise AssertionError("not refused")
try:
    with transaction.atomic():
        note.submit(1, connection=connection)
        raise KeyError
except KeyError:
    pass
with transaction.atomic():
    note.submit(2, connection=connection)
os.kill(os.getpid(), 9)
"""


def test_django_and_then_killed(app: App, url: str) -> None:
    kind = url.partition(":")[0]
    ended = subprocess.run(
        [sys.executable, "-c", DJANGO, kind, url], capture_output=True, text=True, timeout=PATIENCE
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    drain(app)
    assert RAN == [2]


def test_connections_that_cannot_be(app: App, url: str, tmp_path: Path) -> None:
    note = app.tasks["demo.note"]
    with pytest.raises(ConfigError, match="must be a database connection"):
        note.submit(1, connection=object())
    with (
        closing(sqlite3.connect(tmp_path / "other.db")) as other,
        pytest.raises(ConfigError, match="must lead to the store's"),
    ):
        note.submit(1, connection=other)
    assert depth(app) == 0


def test_connection_that_commits_by_itself(app: App, url: str) -> None:
    opened: Any
    if url.startswith("sqlite"):
        opened = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    else:
        opened = psycopg.connect(url, autocommit=True)
    with closing(opened) as connection:
        with pytest.raises(ConfigError, match="in no transaction"):
            app.tasks["demo.note"].submit(1, connection=connection)
        connection.execute("BEGIN")
        app.tasks["demo.note"].submit(2, connection=connection)
        connection.execute("COMMIT")
    assert depth(app) == 1


def test_another_database_has_no_schema(postgres_server: Postgres, postgres_url: str) -> None:
    app = make_app(postgres_url)
    with (
        psycopg.connect(postgres_server.url) as connection,
        pytest.raises(SchemaMismatch, match="migrate-schema"),
    ):
        app.tasks["demo.note"].submit(1, connection=connection)
    app.close()


def test_a_store_without_transactions_refuses_in_one_line() -> None:
    app = make_app("memory://")
    with (
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(ConfigError, match="connection= needs a store in a database"),
    ):
        app.tasks["demo.note"].submit(1, connection=connection)
    app.close()
