"""The examples of Celery's source distribution, fetched from the index and moved.

To the native API their broker is a store of the engine first, as a person would choose one: a file
of SQLite in place of RabbitMQ.
"""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from compat.fetch import sdist, unpack
from compat.problems import Problem
from tests.migrate.tools import worker

from taskmq_migrate.model import Status, Target
from taskmq_migrate.project import Result, Run, run
from taskmq_migrate.registry import select
from taskmq_migrate.writing import write

pytestmark = pytest.mark.slow
RELEASE = "5.7.0"
BROKER = re.compile(r"""(?:py)?amqp://[^'"]*""")

TO_SHIM = {
    "celery_http_gateway": {"TMQ020": 1},
    "django": {"TMQ001": 1},
    "gevent": {"TMQ020": 1},
    "next-steps": {"TMQ005": 1},
    "resultgraph": {"TMQ020": 7},
}
"""What is converted to the shim: the others are as they should be."""
MARKED_FOR_SHIM = {"celery_http_gateway": {"TMQ022": 1}}

MARKED_TO_NATIVE = {
    "app": {"TMQ118": 1},
    "celery_http_gateway": {"TMQ022": 1},
    "django": {},
    "eventlet": {"TMQ110": 1},
    "gevent": {},
    "next-steps": {"TMQ118": 1},
    "periodic-tasks": {"TMQ118": 1},
    "pydantic": {"TMQ110": 1},
    "quorum-queues": {"TMQ100": 1, "TMQ118": 3},
    "resultgraph": {"TMQ190": 2},
    "security": {"TMQ100": 1, "TMQ118": 1},
    "stamping": {"TMQ112": 1, "TMQ118": 1, "TMQ130": 20, "TMQ190": 1},
    "tutorial": {"TMQ118": 1},
}
"""What is left to people. TMQ118 is ``app.start()`` in most: a program is no command line here."""

CLIENTS = {
    "django": (
        "proj.celery:app",
        "import django\n\ndjango.setup()\n\n"
        "from demoapp.models import Widget\n"
        "from demoapp.tasks import add, count_widgets, rename_widget, xsum\n\n"
        "widget = Widget.objects.create(name='old')\n"
        "rename_widget.delay(widget.id, 'new').get(30)\n"
        "widget.refresh_from_db()\n"
        "print(add.delay(2, 3).get(30), xsum.delay([1, 2]).get(30), widget.name)\n"
        "print(count_widgets.delay().get(30) == Widget.objects.count())\n",
        ["5 3 new", "True"],
    ),
    "next-steps": (
        "proj.celery:app",
        "from celery import chain, chord, group\n"
        "from proj.tasks import add, mul, xsum\n\n"
        "print(add.delay(2, 2).get(30))\n"
        "print(group(add.s(i, i) for i in range(10))().get(30))\n"
        "print(chain(add.s(4, 4) | mul.s(8))().get(30))\n"
        "print(chord((add.s(i, i) for i in range(10)), xsum.s())().get(30))\n",
        ["4", str([i + i for i in range(10)]), "64", "90"],
    ),
    "tutorial": (
        "tasks:app",
        "from tasks import add\n\nprint(add.delay(4, 4).get(30))\n",
        ["8"],
    ),
}
"""The app of an example, a client of it as one is written for Celery, and what that prints."""


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("celery")
    try:
        unpack(sdist("celery", RELEASE), ["examples"], folder)
    except Problem as problem:
        pytest.skip(f"no package index: {problem}")
    return folder / "examples"


@pytest.fixture
def project(examples: Path, tmp_path: Path, name: str) -> Path:
    """One example on its own."""
    return Path(shutil.copytree(examples / name, tmp_path / name))


def moved(root: Path, to: Target) -> Result:
    """Move a project; what was done. A second run changes nothing, and all of it compiles."""
    plan = Run(root, (root,), select(to), unsafe=to is Target.NATIVE)
    result = run(plan)
    assert not result.failed
    assert write(root, result.changes) == []
    for each in root.rglob("*.py"):
        compile(each.read_bytes(), each, "exec")
    assert run(plan).changes == []
    return result


def on_a_file(root: Path) -> None:
    """Let the broker that an example names be a file."""
    for each in root.rglob("*.py"):
        each.write_text(BROKER.sub(f"sqlite:///{root}/jobs.db", each.read_text()))


def count(result: Result, status: Status) -> dict[str, int]:
    return dict(Counter(each.rule for each in result.findings if each.status is status))


@pytest.mark.parametrize("name", sorted(MARKED_TO_NATIVE))
def test_an_example_moves_to_the_shim(name: str, project: Path) -> None:
    result = moved(project, Target.SHIM)
    assert count(result, Status.CONVERTED) == TO_SHIM.get(name, {})
    assert count(result, Status.MARKED) == MARKED_FOR_SHIM.get(name, {})


@pytest.mark.parametrize("name", sorted(MARKED_TO_NATIVE))
def test_an_example_moves_to_the_native_api(name: str, project: Path) -> None:
    on_a_file(project)
    result = moved(project, Target.NATIVE)
    assert count(result, Status.MARKED) == MARKED_TO_NATIVE[name]


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_an_example_runs_on_the_engine(name: str, project: Path) -> None:
    app, client, said = CLIENTS[name]
    on_a_file(project)
    (project / "client.py").write_text(client)
    moved(project, Target.NATIVE)
    assert "celery import" not in (project / "client.py").read_text()
    if name == "django":
        command([sys.executable, "manage.py", "migrate", "--verbosity", "0"], project)
    with worker(app, project, variables()):
        assert command([sys.executable, "client.py"], project).splitlines() == said


def command(arguments: list[str], folder: Path) -> str:
    done = subprocess.run(
        arguments, cwd=folder, env=variables(), capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def variables() -> dict[str, str]:
    return {**os.environ, "DJANGO_SETTINGS_MODULE": "proj.settings", "PYTHONPATH": "."}
