"""The plugin of the documentation, installed as pip would leave it, and held to every promise."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

# What pytest itself uses on 3.10.
tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "taskmq_zip"
DEADLINE = 100.0


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with the example and its metadata, made from its pyproject.toml."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    folder = tmp_path / "site"
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (folder / "taskmq_zip.py").write_text((EXAMPLE / "taskmq_zip.py").read_text())
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    points = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in names.items())
        for group, names in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(points))
    return folder


def python(site: Path, *arguments: str, cwd: Path | None = None, **environ: str) -> str:
    """Run Python with the example installed; what it printed."""
    run = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(site), **environ},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.mark.parametrize(
    ("url", "only"),
    [
        # tests/conformance is measured.
        pytest.param("zip+memory://", "", marks=pytest.mark.no_cover),
        ("zip+sqlite:///check.db", "deadletter"),
        ("zip+sqlite:///check.db", "durability"),
        ("zip+sqlite:///check.db", "retry"),
    ],
)
def test_it_passes_the_conformance_suite(site: Path, tmp_path: Path, url: str, only: str) -> None:
    """All of it on memory; on a file, where envelopes go in and out or processes meet."""
    command = ["-m", "taskmq.testing.conformance", url, *(["-k", only] if only else [])]
    said = python(site, *command, cwd=tmp_path)
    assert " 0 FAILED" in said
    assert int(said.splitlines()[-1].split(" passed")[0].split()[-1]) > (5 if only else 200)


APP = """
from taskmq import App, Config

app = App(Config(transport="zip+sqlite:///jobs.db", events="plugin:tally"))


@app.task(name="tasks.double", codec="zip")
def double(text):
    return text * 2
"""

PROGRAM = """
import sqlite3
import tasks
from taskmq.worker import Worker

result = tasks.double.delay("taskmq " * 1000)
record = tasks.app.transport.get([result.id])[0]
assert record.envelope.startswith(b"{"), record
rows = sqlite3.connect("jobs.db").execute("SELECT * FROM jobs").fetchall()
assert b"tasks.double" not in b"".join(x for x in rows[0] if isinstance(x, bytes)), rows
Worker(tasks.app).run_until_idle(60)
assert result.get(0) == "taskmq " * 2000
print(sorted(tasks.app.emitter._sinks[0].counts.items()))
"""


def test_installed_it_is_found_by_its_names(site: Path, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(APP)
    said = python(site, "-c", PROGRAM, cwd=tmp_path)
    assert "('JobSubmitted', 1), ('JobSucceeded', 1)" in said


@pytest.mark.parametrize("pool", ["threads", "processes"])
def test_not_installed_it_is_loaded_by_name(tmp_path: Path, pool: str) -> None:
    (tmp_path / "taskmq_zip.py").write_text((EXAMPLE / "taskmq_zip.py").read_text())
    (tmp_path / "tasks.py").write_text(APP.replace(', events="plugin:tally"', ""))
    command = ["-m", "taskmq", "--app", "tasks:app", "--plugins", "taskmq_zip"]
    python(tmp_path, *command, "call", "tasks.double", "--args", '["ab"]', cwd=tmp_path)
    worker = ["worker", "--until-idle", "--pool", pool, "--start-method", "spawn"]
    python(tmp_path, *command, *worker, cwd=tmp_path)
    by_environment = ["-m", "taskmq", "--transport", "zip+sqlite:///jobs.db", "status"]
    said = python(tmp_path, *by_environment, cwd=tmp_path, TASKMQ_PLUGINS="taskmq_zip")
    assert "limitation  envelopes are compressed" in said
    show = "import tasks; print([j.state for j in tasks.app.transport.find(F())])"
    load = "import tasks; tasks.app.load_plugins('taskmq_zip'); from taskmq.records import "
    said = python(tmp_path, "-c", f"{load}JobFilter as F; {show}", cwd=tmp_path)
    assert "SUCCEEDED" in said
