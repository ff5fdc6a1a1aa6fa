"""A file that other processes open and close while it is in use here stays one store.

SQLite's locks belong to the process and the file: closing any descriptor of the file drops them
all (https://www.sqlite.org/howtocorrupt.html, 2.2). Another process then takes itself for the last
user, and deletes the log that is still written to.
"""

import subprocess
import sys
from pathlib import Path

from taskmq import App, Config

OTHER = """
import sys
from taskmq import App, Config
with App(Config(transport=sys.argv[1])) as app:
    app.task(name="t")(lambda: None).delay()
    print(len(app.transport.stats()), app.transport.stats()[0].ready)
"""


def nothing() -> None: ...


def visitor(url: str) -> str:
    """Another process that submits one job, looks, and closes the store."""
    command = [sys.executable, "-c", OTHER, url]
    return subprocess.check_output(command, text=True, timeout=30).strip()


def test_a_visitor_never_takes_the_log_away(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with App(Config(transport=url)) as app:
        app.task(name="t")(nothing).delay()
    with App(Config(transport=url)) as app:  # an old file now: both connections look at it first
        task, ready = app.task(name="t")(nothing), 1
        for _ in range(3):
            assert app.transport.stats()[0].ready == ready
            task.delay()
            log = (tmp_path / "jobs.db-wal").stat().st_ino
            ready += 2
            assert visitor(url) == f"1 {ready}"
            assert (tmp_path / "jobs.db-wal").stat().st_ino == log
        assert app.transport.stats()[0].ready == ready
