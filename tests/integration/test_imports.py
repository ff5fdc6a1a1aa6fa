"""What a process has imported, counted: a module stays in memory as long as its process lives, and
there are many workers. Seconds and bytes depend on the machine; names of modules do not.

What a store's driver imports by itself is its own affair, and differs from version to version of it
and of Python: it is taken off. Who needs more imports it where it is needed, or says why here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

TASKS = """
import sys
from taskmq import App, Config

app = App(Config.from_env({}, transport=sys.argv.pop()))

@app.task(name="say")
def say() -> None:
    print(*sorted(sys.modules))
"""
WORK = """
import sys
from taskmq.cli.main import main
from tasks import app

app.tasks["say"].submit()
sys.exit(main(["worker", "--app", "tasks:app", "--until-idle", "--log-level", "error"]))
"""
SUBMIT = "from tasks import app\napp.tasks['say'].submit()\napp.tasks['say'].function()"
DRIVERS = {
    "sqlite": "import sqlite3",
    "redis": "import redis, redis.sentinel, ssl",
    "postgres": "import psycopg, psycopg.conninfo",
}
ALWAYS = "import json, logging, msgspec, socket, sys"
"""What the engine and msgspec need."""
COMMAND_LINE = "import argparse, shutil"
"""argparse asks how wide the terminal is with what copies files."""
HEAVY = {
    "asyncio",
    "concurrent.futures",
    "ctypes.util",
    "decimal",
    "difflib",
    "email",
    "getpass",
    "http",
    "importlib.metadata",
    "importlib.resources",
    "logging.config",
    "logging.handlers",
    "multiprocessing",
    "opentelemetry",
    "shutil",
    "socketserver",
    "ssl",
    "subprocess",
    "sysconfig",
    "tempfile",
    "unittest",
    "urllib.request",
    "xml",
    "zipfile",
    "zoneinfo",
}
OTHERS = {
    "taskmq.cli.probe",
    "taskmq.otel",
    "taskmq.payloads",
    "taskmq.pools.aio",
    "taskmq.pools.processes",
    "taskmq.spool",
    "taskmq.testing",
    "taskmq.workflow",
}
MODULES = {"sqlite": 145, "redis": 128, "postgres": 127}
"""Of taskmq, in a worker; five more than there were when this was written."""


@pytest.fixture(params=DRIVERS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Its kind and the URL of an empty one."""
    if request.param == "sqlite":
        return "sqlite", f"sqlite:///{tmp_path}/jobs.db"
    return request.param, request.getfixturevalue(f"{request.param}_url")


def modules_of(program: str, folder: Path, *arguments: str) -> set[str]:
    """What a process that runs it tells; coverage would import more into it."""
    (folder / "tasks.py").write_text(TASKS)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return set(ran.stdout.split())


def unneeded(loaded: set[str], folder: Path, *imports: str) -> Sequence[str]:
    """What is among those named here and would not be there with these imports alone."""
    needed = modules_of("\n".join([*imports, ALWAYS, "print(*sys.modules)"]), folder)
    return sorted(loaded & (HEAVY | OTHERS) - needed)


def test_a_worker_has_what_it_needs(store: tuple[str, str], tmp_path: Path) -> None:
    kind, url = store
    loaded = modules_of(WORK, tmp_path, url)
    assert {"taskmq.worker", "taskmq.pools.threads", f"taskmq.transports.{kind}"} <= loaded
    assert unneeded(loaded, tmp_path, DRIVERS[kind], COMMAND_LINE) == []
    own = [name for name in loaded if name.partition(".")[0] == "taskmq"]
    assert len(own) <= MODULES[kind]


def test_a_producer_has_what_it_needs(store: tuple[str, str], tmp_path: Path) -> None:
    kind, url = store
    loaded = modules_of(SUBMIT, tmp_path, url)
    assert f"taskmq.transports.{kind}" in loaded
    assert unneeded(loaded, tmp_path, DRIVERS[kind]) == []
    assert not {"argparse", "taskmq.cli", "taskmq.pools", "taskmq.worker"} & loaded


def test_what_the_command_line_needs_to_say_what_there_is(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom taskmq.cli.parser import build_parser\n"
        "build_parser(['--help']).format_help()\nprint(*sys.modules)"
    )
    loaded = modules_of(program, tmp_path)
    assert unneeded(loaded, tmp_path, COMMAND_LINE) == []
    assert "taskmq.schedule" not in loaded
