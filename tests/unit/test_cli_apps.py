"""Finding the app: every way in which a path can be wrong, in one line."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskmq import App, ConfigError
from taskmq.cli.apps import load_app, open_app, open_store
from taskmq.cli.exits import CommandFailed
from taskmq.errors import StoreFull

FILES = {
    "good.py": (
        "from taskmq import App, Config\n"
        "class box: inner = App(Config())\n"
        "app = App(Config())\n"
        "number = 5\n"
        "def make(): return app\n"
    ),
    "elsewhere.py": "from taskmq import App, Config\nqueue = App(Config())\n",
    "empty.py": "",
    "package/__init__.py": "",
    "package/jobs.py": (
        "from taskmq import App, Config\napp = App(Config(), include=['package.t'])\n"
    ),
    "package/t.py": "from taskmq import task\n@task\ndef t() -> None: ...\n",
    "bad_include.py": "from taskmq import App, Config\napp = App(Config(), include=['nowhere'])\n",
    "bad_included.py": "from taskmq import App, Config\napp = App(Config(), include=['divides'])\n",
    "divides.py": "x = 1\ny = x / 0\n",
    "needy.py": "import no_such_library\n",
    "syntax.py": "x = 1\ndef f(:\n",
    "setting.py": "from taskmq import App, Config\n\napp = App(Config(concurency=8))\n",
    "task_option.py": (
        "from taskmq import App, Config\napp = App(Config())\n"
        "@app.task(retries=3)\ndef t() -> None: ...\n"
    ),
    "script.py": "import sys\nsys.exit(3)\n",
    "full.py": "from taskmq.errors import StoreFull\nraise StoreFull('no space')\n",
    "exits_on_load.py": "from taskmq import App, Config\napp = App(Config(), include=['script'])\n",
}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with the modules above, in which the command is run."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def arguments(app: str | None = None, transport: str | None = None) -> Namespace:
    return Namespace(app=app, transport=transport)


@pytest.mark.parametrize("spec", ["good:app", "good", "good:box.inner", "package.jobs:app"])
def test_an_app_is_found_from_the_current_directory(spec: str) -> None:
    assert isinstance(load_app(spec), App)


def test_the_modules_that_it_includes_are_loaded() -> None:
    assert open_app(arguments("package.jobs:app")).tasks.names() == ["package.t.t"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nowhere:app", "no module 'nowhere' \\(looked in .* and Python's path\\)"),
        ("package.nowhere:app", "no module 'package.nowhere'"),
        ("good.py", "'good.py' is no app path: write a module's name, e.g. good:app"),
        ("./good:app", "is no app path: write a module's name, e.g. good:app"),
        (":app", "is no app path: write a module's name, e.g. tasks:app"),
        ("good:ap", "module 'good' has no 'ap'; there is good:app"),
        ("elsewhere", "module 'elsewhere' has no 'app'; there is elsewhere:queue"),
        ("empty:app", "module 'empty' has no 'app'$"),
        ("empty:__nam__", "module 'empty' has no '__nam__'; did you mean '__name__'"),
        ("good:box.outer", "module 'good' has no 'box.outer'"),
        ("good:number", "good:number is of type int, not a taskmq.App"),
        ("good:make", "good:make is of type function, not a taskmq.App"),
        (
            "divides:app",
            r"importing 'divides' failed: ZeroDivisionError: division by zero "
            r"\(divides.py line 2: y = x / 0\)",
        ),
        (
            "needy:app",
            r"importing 'needy' failed: ModuleNotFoundError: No module named 'no_such_library' "
            r"\(needy.py line 1: import no_such_library\)",
        ),
        (
            "syntax:app",
            r"failed: SyntaxError: .* \(syntax.py line 2: def f\(:\)",
        ),
        (
            "setting:app",
            r"Config has no field 'concurency'; did you mean 'concurrency'\? "
            r"\(setting.py line 3: app = App\(Config\(concurency=8\)\)\)",
        ),
        ("task_option:app", r"no task option 'retries'; .* \(task_option.py line [34]: "),
        ("bad_include:app", "cannot include 'nowhere': there is no module 'nowhere'"),
        ("bad_included:app", r"ZeroDivisionError: division by zero \(divides.py line 2"),
    ],
)
def test_what_is_wrong_is_told_with_the_place(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        open_app(arguments(spec))
    assert "\n" not in str(caught.value)


def test_a_celery_app_is_known_as_one() -> None:
    (Path.cwd() / "old.py").write_text(
        "class Celery: ...\nCelery.__module__ = 'celery.app.base'\napp = Celery()\n"
    )
    with pytest.raises(ConfigError, match="old:app is a Celery app: run it with `celery -A old`"):
        load_app("old:app")


@pytest.mark.parametrize("spec", ["script:app", "exits_on_load:app"])
def test_a_module_that_ends_the_program_does_not(spec: str) -> None:
    with pytest.raises(CommandFailed, match=r"ended the program \(exit 3\): is it a script\?"):
        open_app(arguments(spec))


def test_a_store_that_fails_while_a_module_is_imported_keeps_its_kind() -> None:
    with pytest.raises(StoreFull):
        load_app("full:app")


def test_a_store_alone_needs_no_app(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKMQ_APP", "nowhere:app")
    assert open_store(arguments(transport="memory://")).config.transport == "memory://"
    monkeypatch.delenv("TASKMQ_APP")
    monkeypatch.setenv("TASKMQ_TRANSPORT", "sqlite:///x.db")
    assert open_store(arguments()).config.transport == "sqlite:///x.db"


def test_the_app_comes_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKMQ_APP", "good:app")
    assert open_store(arguments()) is open_app(arguments()) is sys.modules["good"].app


def test_without_any_the_ways_are_told() -> None:
    with pytest.raises(ConfigError, match=r"which app\? pass --app module:attribute or set"):
        open_app(arguments())
    with pytest.raises(ConfigError, match=r"which store\? .* or pass --transport URL"):
        open_store(arguments())


def test_both_are_one_too_many() -> None:
    with pytest.raises(ConfigError, match="pass --app or --transport, not both"):
        open_store(arguments("good:app", "memory://"))
