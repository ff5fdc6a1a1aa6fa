"""From ``-A`` to an app: every form that Celery takes, and one line where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from celery import Celery
from celery.app.lookup import find_app
from celery.bin.celery import celery

pytestmark = pytest.mark.integration

MODULES = {
    "flat.py": """
        from celery import Celery
        app = Celery("flat")
        other = Celery("other")
        number = 3
        """,
    "named.py": "from celery import Celery\ncelery = Celery('named')\n",
    "odd.py": "from celery import Celery\nzork = Celery('odd')\n",
    "none.py": "x = 1\n",
    "broken.py": "\nimport nonexistent\n",
    "syntax.py": "def x(:\n",
    "zero.py": "\n\n1 / 0\n",
    "attribute.py": "import os\nos.no_such_thing\n",
    "pkg/__init__.py": "",
    "pkg/celery.py": "from celery import Celery\napp = Celery('pkg')\n",
    "usual/__init__.py": "from .celery import app as celery_app\n",
    "usual/celery.py": "from celery import Celery\napp = Celery('usual')\n",
    "empty/__init__.py": "",
    "bad/__init__.py": "",
    "bad/celery.py": "import nonexistent\n",
}


@pytest.fixture
def modules(program: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, source in MODULES.items():
        program.write(source, name)
    monkeypatch.chdir(program.folder)
    return program


@pytest.mark.parametrize(
    ("path", "main"),
    [
        ("flat", "flat"),
        ("flat:app", "flat"),
        ("flat.app", "flat"),
        ("flat:other", "other"),
        ("named", "named"),
        ("odd", "odd"),
        ("pkg", "pkg"),
        ("pkg.celery", "pkg"),
        ("pkg.celery:app", "pkg"),
        ("usual", "usual"),
    ],
)
def test_apps_are_found(modules: Any, path: str, main: str) -> None:
    """In a process of its own: modules stay imported otherwise."""
    code = f"""
        import json; from celery.app.lookup import find_app
        print(json.dumps(find_app({path!r}).main))
    """
    assert modules.ask(code) == main


def test_an_app_stands_for_itself() -> None:
    app = Celery("given", set_as_current=False)
    assert find_app(app) is app  # type: ignore[arg-type]  # as app.start() gives it


NOT_FOUND = "The module {} was not found."
WHILE = "While trying to load the module {} the following error occurred: "


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("nothere", NOT_FOUND.format("nothere")),
        ("flat:nope", NOT_FOUND.format("flat:nope")),
        ("flat.nope", NOT_FOUND.format("flat.nope")),
        ("pkg.nope", NOT_FOUND.format("pkg.nope")),
        ("none", "Module 'none' has no attribute 'celery'"),
        ("empty", "Module 'empty' has no attribute 'celery'"),
        ("flat:number", "flat:number is no Celery app but of type int."),
        ("broken", f"{WHILE.format('broken')}ModuleNotFoundError: No module named 'nonexistent'"),
        ("bad", f"{WHILE.format('bad')}ModuleNotFoundError: No module named 'nonexistent'"),
        ("syntax", f"{WHILE.format('syntax')}SyntaxError: "),
        ("zero", f"{WHILE.format('zero')}ZeroDivisionError: division by zero"),
        ("attribute", f"{WHILE.format('attribute')}AttributeError: module 'os' has no attribute"),
    ],
)
def test_what_is_no_app_is_one_line_and_exit_code_2(modules: Any, path: str, reason: str) -> None:
    done = modules.celery("-A", path, "worker")
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert line.startswith(f"Error: Unable to load celery application. {reason}")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("path", "place"), [("broken", 2), ("zero", 3), ("syntax", 1)])
def test_an_error_in_the_program_comes_with_its_place(modules: Any, path: str, place: int) -> None:
    told = modules.celery("-A", path, "worker").stderr
    assert told.rstrip().endswith(f"({modules.folder}/{path}.py, line {place})")


def test_the_app_may_come_from_the_environment(modules: Any) -> None:
    for variable in ("APP", "CELERY_APP"):
        done = modules.celery("call", "some.task", **{variable: "pkg"})
        assert done.returncode == 0, done.stderr


def test_start_runs_the_command_line_of_a_program(modules: Any) -> None:
    modules.write("from flat import app\nimport sys\napp.start(sys.argv[1:])\n", "main.py")
    code = """
        import json, runpy, sys
        sys.argv = ["main.py", "call", "some.task"]
        try:
            runpy.run_path("main.py", run_name="__main__")
        except SystemExit as stopped:
            print(json.dumps(stopped.code))
        else:
            print(json.dumps(0))
    """
    assert modules.ask(code) in (0, None)


def test_preload_options_of_an_app_reach_every_command(modules: Any) -> None:
    modules.write(
        """
        import click
        from celery import Celery, signals
        app = Celery("pre")
        app.user_options["preload"].add(click.Option(["-Z", "--template"], default="plain"))
        @signals.user_preload_options.connect
        def told(options, **kwargs):
            print("template", options["template"])
        """,
        "pre.py",
    )
    assert "template fancy\n" in modules.celery("-A", "pre", "call", "x", "-Z", "fancy").stdout


def test_a_plugin_command_can_be_added() -> None:
    @celery.command("hello")  # type: ignore[untyped-decorator]  # click-plugins carries no types
    def hello() -> None:
        print("hi")

    try:
        done = CliRunner().invoke(celery, ["hello"])
    finally:
        del celery.commands["hello"]
    assert (done.output, done.exit_code) == ("hi\n", 0)


def test_a_program_in_the_background_takes_this_ones_place(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from celery.bin.worker import detach\n"
        "arguments = ['-c', 'print(\"there\")']\n"
        "detach(sys.executable, arguments, workdir='.', fake=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "there\n"


def test_a_program_that_is_not_there_is_named_in_the_log(tmp_path: Path) -> None:
    code = (
        "from celery.bin.worker import detach\n"
        f"raise SystemExit(detach('/no/program', ['-x'], {str(tmp_path / '%n@%d.log')!r},"
        " workdir='.', fake=True, hostname='w@box'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "Can't exec '/no/program -x'" in "".join(each.read_text() for each in tmp_path.iterdir())
