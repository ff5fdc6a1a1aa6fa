"""The architecture: import contracts, and what each distribution may need from outside."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import files, requires
from pathlib import Path

import grimp
import pytest
from packaging.requirements import Requirement

TOP = Path(__file__).parents[2]


PLANTED = [
    ("distributions", "taskmq_celery/planted.py", "import celery"),
    ("surface", "celery/planted.py", "import taskmq.errors"),
    ("adapters", "taskmq/planted.py", "from taskmq.transports import memory"),
    ("adapters", "taskmq_celery/planted.py", "import taskmq.transports.sqlite"),
    ("engine-alone", "taskmq/planted.py", "import celery.states"),
    ("engine-alone", "taskmq/planted.py", "from kombu import Queue"),
    ("codemod-alone", "taskmq_migrate/planted.py", "from celery import Celery"),
    ("codemod-alone", "taskmq_migrate/planted.py", "import taskmq"),
    ("no-codemod", "celery/planted.py", "import taskmq_migrate"),
    ("no-pickle", "taskmq/planted.py", "import pickle"),
    ("no-pickle", "taskmq/planted.py", "from marshal import loads"),
    ("engine-layers", "taskmq/errors.py", "import taskmq.config"),
    ("engine-layers", "taskmq/config.py", "import taskmq.app"),
    ("engine-layers", "taskmq/context.py", "import taskmq.worker"),
    ("engine-layers", "taskmq/app.py", "import taskmq.pools"),
    ("engine-layers", "taskmq/worker/planted.py", "import taskmq.cli"),
    ("engine-layers", "taskmq/planted.py", "# a module without a layer"),
    ("transports", "taskmq/transports/sqlite/planted.py", "import taskmq.transports.memory"),
    ("transports", "taskmq/transports/planted.py", "# a module without a layer"),
    ("pools", "taskmq/pools/solo.py", "import taskmq.pools.threads"),
    ("codemod-layers", "taskmq_migrate/facts.py", "import taskmq_migrate.pythonfile"),
    ("codemod-layers", "taskmq_migrate/planted.py", "# a module without a layer"),
]


def lint_imports(*arguments: str, sources: Path | None = None) -> subprocess.CompletedProcess[str]:
    linter = Path(sys.executable).with_name("lint-imports")
    path = {} if sources is None else {"PYTHONPATH": str(sources)}
    return subprocess.run(
        [linter, "--no-logo", "--no-cache", *arguments],
        cwd=TOP,
        env=os.environ | path,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of all four packages, to plant a forbidden import in."""
    copy = tmp_path_factory.mktemp("sources")
    for folder in ("taskmq_core", "taskmq_celery", "migrate"):
        shutil.copytree(TOP / folder / "src", copy, dirs_exist_ok=True)
    return copy


def test_the_import_contracts_are_kept() -> None:
    run = lint_imports()
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(("contract", "file", "line"), PLANTED)
def test_a_planted_import_breaks_its_contract(
    sources: Path, contract: str, file: str, line: str
) -> None:
    module = sources / file
    before = module.read_text() if module.exists() else None
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text(f"{before or ''}\n{line}\n")
    try:
        run = lint_imports("--contract", contract, sources=sources)
    finally:
        module.unlink() if before is None else module.write_text(before)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "0 kept, 1 broken" in run.stdout


def third_party_imports(package: str, *, outside: tuple[str, ...] = ()) -> set[str]:
    """Top-level names from other distributions that a package's modules import."""
    graph = grimp.build_graph(package, include_external_packages=True, cache_dir=None)
    modules = {
        each
        for each in graph.find_descendants(package) | {package}
        if not any(each == skipped or each.startswith(f"{skipped}.") for skipped in outside)
    }
    imported = {name for each in modules for name in graph.find_modules_directly_imported_by(each)}
    roots = {name.partition(".")[0] for name in imported}
    return roots - {package} - sys.stdlib_module_names


def test_the_engine_imports_only_msgspec_outside_its_adapters_and_edges() -> None:
    adapters_and_edges = (
        "taskmq.integrations",
        "taskmq.otel",
        "taskmq.prometheus",
        "taskmq.testing.pytest_plugin",
        "taskmq.transports.amqp",
        "taskmq.transports.postgres",
        "taskmq.transports.redis",
    )
    assert third_party_imports("taskmq", outside=adapters_and_edges) <= {"msgspec"}


WITH_EXTRAS = (
    "celery.backends.database",
    "celery.backends.redis",
    "celery.contrib.django",
    "celery.contrib.pytest",
    "celery.contrib.sphinx",
    "celery.fixups.django",
    "celery.security",
)
"""Modules for those who have another package, which they import."""


def test_nothing_is_said_to_need_an_extra_that_does_not() -> None:
    without = third_party_imports("celery", outside=WITH_EXTRAS)
    assert without < third_party_imports("celery")
    for module in WITH_EXTRAS:
        others = tuple(each for each in WITH_EXTRAS if each != module)
        assert third_party_imports("celery", outside=others) > without, module


@pytest.mark.parametrize(
    ("package", "distribution"),
    [
        ("celery", "taskmq-celery"),
        ("taskmq_celery", "taskmq-celery"),
        ("taskmq_migrate", "taskmq-migrate"),
    ],
)
def test_a_package_imports_only_what_its_distribution_requires(
    package: str, distribution: str
) -> None:
    ours = {"celery", "taskmq", "taskmq_celery"}
    required = {
        requirement.name
        for requirement in map(Requirement, requires(distribution) or [])
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    }
    provided = {
        file.parts[0].removesuffix(".py") for name in required for file in files(name) or []
    }
    assert third_party_imports(package, outside=WITH_EXTRAS) - ours <= provided


@pytest.mark.parametrize("package", ["celery", "taskmq", "taskmq_celery", "taskmq_migrate"])
def test_a_module_with_a_leading_underscore_is_imported_by_its_own_package_only(
    package: str,
) -> None:
    graph = grimp.build_graph("celery", "taskmq", "taskmq_celery", "taskmq_migrate", cache_dir=None)
    private = {
        module: module.rpartition("._")[0]
        for module in graph.find_descendants(package)
        if "._" in module and ".__" not in module
    }
    strangers = {
        (importer, module)
        for module, owner in private.items()
        for importer in graph.find_modules_that_directly_import(module)
        if importer != owner and not importer.startswith(f"{owner}.")
    }
    assert strangers == set()
