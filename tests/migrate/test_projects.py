"""Whole projects: their tests pass on the real Celery, and once they were moved, on the shim and on
the engine.

Written with the old names of settings and commands that Celery 5 still takes. With the Python of an
environment that has the real Celery, Django, Flask and FastAPI, this says whether they pass there:

    cd tests/migrate/projects/flat && PYTHON -m pytest -p no:cacheprovider
"""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.migrate.tools import worker

from taskmq_migrate.model import Status, Target
from taskmq_migrate.project import Result, Run, run
from taskmq_migrate.registry import select
from taskmq_migrate.writing import write

PROJECTS = Path(__file__).parent / "projects"
SITES = {
    "canvas": {"TMQ030": 6, "TMQ040": 2},
    "flat": {"TMQ001": 1, "TMQ030": 7, "TMQ040": 1},
    "package": {"TMQ004": 1, "TMQ030": 5, "TMQ031": 3},
    "with_django": {"TMQ030": 2, "TMQ032": 1, "TMQ040": 2},
    "with_fastapi": {"TMQ009": 1, "TMQ031": 3, "TMQ040": 1},
    "with_flask": {"TMQ002": 1, "TMQ031": 3},
}

MARKED_TO_NATIVE = {
    "canvas": {"TMQ101": 1, "TMQ130": 1, "TMQ150": 1, "TMQ190": 1},
    "flat": {"TMQ101": 2},
    "package": {"TMQ101": 2},
    "with_django": {},
    "with_fastapi": {"TMQ101": 1},
    "with_flask": {},
}
"""What is left to people on the way to the native API: settings that the engine does not have, and
in ``canvas`` fields of schedules, chunks, a signal and remote control."""
LEFT_TO_PEOPLE = {
    "canvas": {"test_chunks", "test_fields_of_a_schedule", "test_signals"},
    "flat": {"test_settings_of_celery_alone"},
    "package": {"test_settings_of_celery_alone"},
    "with_django": set[str](),
    "with_fastapi": {"test_settings_of_celery_alone"},
    "with_flask": set[str](),
}
"""The tests of each project that hold a marker once they are converted: those alone are not run on
the engine."""
UNSAFE = {
    "canvas": {"TMQ100": 1, "TMQ130": 1, "TMQ160": 1, "TMQ170": 1},
    "flat": {"TMQ100": 1, "TMQ101": 1, "TMQ171": 1},
    "package": {"TMQ100": 1},
    "with_django": {"TMQ100": 1},
    "with_fastapi": {"TMQ141": 1},
}
"""What they need --unsafe for: settings that are loaded by name, a group made at run time, and what
tests expect of failed jobs and of states."""
VARIABLES = os.environ | {"PYTHONPATH": "."}
HOLDS = re.compile(r"(?m)^(?:@.*\n)*def (test_\w+)\(.*\n(?:(?:[ #].*)?\n)*?.*TODO\(taskmq-migrate")


@pytest.mark.parametrize("name", sorted(MARKED_TO_NATIVE))
def test_a_project_on_the_way_to_the_native_api(name: str, tmp_path: Path) -> None:
    root = _copy(name, tmp_path)
    plan = Run(root, (root,), select(Target.NATIVE), unsafe=True)
    result = run(plan)
    assert not result.failed
    assert _count(result, Status.MARKED) == MARKED_TO_NATIVE[name]
    assert write(root, result.changes) == []
    for each in result.changes:
        if each.path.endswith(".py"):
            compile(each.after, each.path, "exec")
    assert run(plan).changes == []


@pytest.mark.parametrize("name", sorted(LEFT_TO_PEOPLE))
def test_a_project_passes_its_tests_on_the_engine(name: str, tmp_path: Path) -> None:
    root = _copy(name, tmp_path)
    plan = Run(root, (root,), select(Target.NATIVE), unsafe=True)
    assert write(root, run(plan).changes) == []
    (tests,) = root.glob("test_*.py")
    left = set(HOLDS.findall(tests.read_text()))
    assert left == LEFT_TO_PEOPLE[name]
    assert "celery" not in _imported(root)
    _pass(root, *(f"--deselect={tests.name}::{each}" for each in sorted(left)))


@pytest.mark.slow
def test_a_project_passes_its_tests_with_a_worker_of_the_engine(tmp_path: Path) -> None:
    root = _copy("flat", tmp_path)
    settings = root / "celeryconfig.py"
    text = settings.read_text().replace("CELERY_ALWAYS_EAGER = True", "CELERY_ALWAYS_EAGER = False")
    settings.write_text(text.replace("memory://", f"sqlite:///{root}/jobs.db", 1))
    plan = Run(root, (root,), select(Target.NATIVE), unsafe=True)
    assert write(root, run(plan).changes) == []
    with worker("tasks:app", root, VARIABLES):
        _pass(root, "--deselect=test_tasks.py::test_settings_of_celery_alone")


@pytest.mark.parametrize("name", sorted(MARKED_TO_NATIVE))
def test_what_of_a_project_waits_for_unsafe(name: str, tmp_path: Path) -> None:
    root = _copy(name, tmp_path)
    result = run(Run(root, (root,), select(Target.NATIVE)))
    assert _count(result, Status.UNSAFE) == UNSAFE.get(name, {})


@pytest.mark.parametrize("name", sorted(SITES))
def test_a_project_passes_its_tests_on_the_shim(name: str, tmp_path: Path) -> None:
    root = _copy(name, tmp_path)
    plan = Run(root, (root,), select(Target.SHIM))
    result = run(plan)
    assert not result.failed
    assert {each.status for each in result.findings} == {Status.CONVERTED}
    assert _count(result, Status.CONVERTED) == SITES[name]
    assert write(root, result.changes) == []
    assert run(plan).changes == []
    _pass(root)


def _copy(name: str, folder: Path) -> Path:
    root = folder / name
    shutil.copytree(PROJECTS / name, root, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def _count(result: Result, status: Status) -> dict[str, int]:
    """How many sites of each rule have come to that."""
    return dict(Counter(each.rule for each in result.findings if each.status is status))


def _imported(root: Path) -> set[str]:
    """Packages from which the Python files of a project import at their top level."""
    return {
        name.partition(".")[0]
        for file in root.rglob("*.py")
        for name in re.findall(r"(?m)^(?:from|import) ([\w.]+)", file.read_text())
    }


def _pass(root: Path, *options: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", "."]
    tests = subprocess.run(
        [*command, *options],
        cwd=root,
        env=VARIABLES,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert tests.returncode == 0, tests.stdout + tests.stderr
