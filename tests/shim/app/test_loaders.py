"""Which modules are imported, and how tasks are discovered."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from celery import Celery, signals
from celery.loaders.base import BaseLoader
from celery.utils.imports import NotAPackage, find_module

pytestmark = pytest.mark.unit

MODULES = {
    "shop/__init__.py": "",
    "shop/tasks.py": "loaded = True",
    "shop/jobs.py": "",
    "empty/__init__.py": "",
    "broken/__init__.py": "",
    "broken/tasks.py": "import no_such_dependency",
    "plain.py": "",
    "apps/__init__.py": "",
    "apps/config.py": "class ShopConfig: pass",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, with modules; it is not on the path of imports."""
    for name, source in MODULES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("shop", "empty", "broken", "plain", "apps"):
            del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture
def on_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))


def test_include_and_imports_are_imported_by_a_worker(
    make_app: Callable[..., Any], folder: Path
) -> None:
    app = make_app(include=["shop.tasks"], imports="plain")
    assert "shop.tasks" not in sys.modules
    app.loader.init_worker()
    assert {"shop.tasks", "plain"} <= set(sys.modules)
    assert app.loader.task_modules == {"shop.tasks", "plain"}


@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize("packages", [["shop", "empty"], lambda: ["shop", "empty"]])
def test_tasks_are_discovered_when_a_worker_imports_the_rest(app: Any, packages: Any) -> None:
    app.autodiscover_tasks(packages)
    assert "shop.tasks" not in sys.modules
    app.loader.import_default_modules()
    assert "shop.tasks" in sys.modules


@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize(
    ("packages", "related", "loaded"),
    [
        (["shop"], "jobs", "shop.jobs"),
        (["shop"], None, "shop"),
        (["apps.config.ShopConfig", "shop"], "tasks", "shop.tasks"),
    ],
)
def test_discovery_by_another_name_at_once(
    app: Any, packages: list[str], related: str | None, loaded: str
) -> None:
    app.autodiscover_tasks(packages, related_name=related, force=True)
    assert loaded in sys.modules


@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize(("package", "missing"), [("broken", "no_such_dependency"), ("no", "no")])
def test_errors_of_discovery_come_out(app: Any, package: str, missing: str) -> None:
    app.autodiscover_tasks([package])
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{missing}'"):
        app.loader.import_default_modules()


def test_a_signal_tells_of_the_import_and_its_errors_come_out(app: Any) -> None:
    def fail(sender: Any = None, **kwargs: Any) -> None:
        raise ValueError(sender.main)

    signals.import_modules.connect(fail, sender=app)
    with pytest.raises(ValueError, match="proj"):
        app.loader.import_default_modules()


class Packages:
    """A fixup that knows packages, as Django's does."""

    def __init__(self, app: Any) -> None: ...

    def autodiscover_tasks(self) -> list[str]:
        return ["celery"]


def test_without_packages_the_fixups_are_asked(make_app: Callable[..., Any]) -> None:
    app = make_app(fixups=[Packages])
    app.autodiscover_tasks(related_name="states")
    app.loader.import_default_modules()
    assert "celery.states" in app.loader.task_modules


def test_an_own_loader(make_app: Callable[..., Any]) -> None:
    app = make_app(loader=OwnLoader, broker=None)
    assert app.conf.broker_url == "memory://own"
    app.loader.init_worker()
    app.loader.init_worker()
    assert app.loader.started == 1


class OwnLoader(BaseLoader):
    started = 0

    def read_configuration(self, env: str = "") -> Any:
        return {"broker_url": "memory://own"}

    def on_worker_init(self) -> None:
        self.started += 1


@pytest.mark.usefixtures("folder")
def test_modules_are_found_in_the_working_directory() -> None:
    found = find_module("shop.tasks")
    assert found.name == "shop.tasks"
    with pytest.raises(NotAPackage):
        find_module("plain.sub")
    with pytest.raises(ModuleNotFoundError):
        find_module("nowhere.sub")


def test_a_configuration_names_backends_of_its_own() -> None:
    app = Celery("t", set_as_current=False)
    app.loader.config_from_object({"override_backends": {"mine": "somewhere.mine:Backend"}})
    assert app.loader.override_backends == {"mine": "somewhere.mine:Backend"}


def test_nothing_may_be_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CELERY_CONFIG_MODULE", raising=False)
    loader = BaseLoader(app=Celery("t", set_as_current=False))
    assert loader.read_configuration() is None
    assert loader.conf == {}
