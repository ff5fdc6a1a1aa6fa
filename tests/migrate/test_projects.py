"""Whole projects: their tests pass on the real Celery, and on the shim once they were moved.

Written with the old names of settings and commands that Celery 5 still takes. With the Python of an
environment that has the real Celery, Django, Flask and FastAPI, this says whether they pass there:

    cd tests/migrate/projects/flat && PYTHON -m pytest -p no:cacheprovider
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from taskmq_migrate.model import Status, Target
from taskmq_migrate.project import Run, run
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
    "canvas": {"TMQ100": 1, "TMQ130": 5, "TMQ150": 1, "TMQ160": 1, "TMQ190": 1},
    "flat": {},
    "package": {"TMQ100": 1, "TMQ190": 1},
    "with_django": {},
    "with_fastapi": {"TMQ100": 1},
    "with_flask": {"TMQ100": 1},
}
"""What is left to people on the way to the native API: base classes, routes, settings that are read
or changed later, a canvas inside of an expression, signals, remote control."""


@pytest.mark.parametrize("name", sorted(MARKED_TO_NATIVE))
def test_a_project_on_the_way_to_the_native_api(name: str, tmp_path: Path) -> None:
    root = tmp_path / name
    shutil.copytree(PROJECTS / name, root, ignore=shutil.ignore_patterns("__pycache__"))
    plan = Run(root, (root,), select(Target.NATIVE), unsafe=True)
    result = run(plan)
    assert not result.failed
    marked = [each.rule for each in result.findings if each.status is Status.MARKED]
    assert {each: marked.count(each) for each in marked} == MARKED_TO_NATIVE[name]
    assert write(root, result.changes) == []
    for each in result.changes:
        if each.path.endswith(".py"):
            compile(each.after, each.path, "exec")
    assert run(plan).changes == []


@pytest.mark.parametrize("name", sorted(SITES))
def test_a_project_passes_its_tests_on_the_shim(name: str, tmp_path: Path) -> None:
    root = tmp_path / name
    shutil.copytree(PROJECTS / name, root, ignore=shutil.ignore_patterns("__pycache__"))
    plan = Run(root, (root,), select(Target.SHIM))
    result = run(plan)
    assert not result.failed
    assert {each.status for each in result.findings} == {Status.CONVERTED}
    counts: dict[str, int] = {}
    for each in result.findings:
        counts[each.rule] = counts.get(each.rule, 0) + 1
    assert counts == SITES[name]
    assert write(root, result.changes) == []
    assert run(plan).changes == []
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", "."]
    tests = subprocess.run(
        command, cwd=root, env=os.environ | {"PYTHONPATH": "."}, capture_output=True, text=True
    )
    assert tests.returncode == 0, tests.stdout + tests.stderr
