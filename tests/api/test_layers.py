"""The architecture: import contracts, and what each distribution may need from outside."""

import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import grimp
import pytest

TOP = Path(__file__).parents[2]


def test_the_import_contracts_are_kept() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run(
        [linter, "--no-logo", "--no-cache"], cwd=TOP, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stdout + run.stderr


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


def test_the_engine_requires_only_msgspec() -> None:
    required = [each for each in requires("taskmq-py") or [] if "extra ==" not in each]
    assert [each.partition(">")[0] for each in required] == ["msgspec"]


@pytest.mark.parametrize("package", ["celery", "taskmq_celery", "taskmq_migrate"])
def test_a_package_imports_only_what_its_distribution_requires(package: str) -> None:
    ours = {"celery", "taskmq", "taskmq_celery"}
    distribution = "taskmq-migrate" if package == "taskmq_migrate" else "taskmq-celery"
    required = [each for each in requires(distribution) or [] if "extra ==" not in each]
    names = {each.split(">")[0].split("=")[0].replace("-", "_") for each in required}
    names = {{"python_dateutil": "dateutil"}.get(name, name) for name in names}
    assert third_party_imports(package) - ours <= names
