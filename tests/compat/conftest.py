"""Takes seeded suites through the runner, in this environment in place of those with Celery."""

from __future__ import annotations

import dataclasses
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from compat import commands, expectations, work
from compat.catalog import Catalog, Suite
from compat.environments import SHIM, Environment
from compat.results import PASSED, Result, Run, write_json
from rich.console import Console

# Starting pytest is most of what these tests do: without plugins it is half of that.
BARE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
CATALOG = Catalog(celery=("1.0",), extras=(), packages=(), suites={})


def limit(test: str) -> float:
    """What hangs, hangs; everything else may take its time on a busy machine."""
    return 1.0 if test.endswith("hangs") else 100.0


class Here(Environment):
    """The environment that the tests run in."""

    @property
    def python(self) -> Path:
        return Path(sys.executable)


class Bench:
    """One seeded suite and where its results go."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.sources = folder / "sources"
        self.sources.mkdir()
        patch.setattr(work, "RUNS", folder / "runs")
        patch.setattr(work, "ensure", lambda environment, catalog: False)
        patch.setattr(work, "limits", lambda request, baseline: limit)
        patch.setattr(expectations, "EXPECTATIONS", folder / "expectations")
        self.suite = Suite(
            name="seeded",
            about="misbehaves",
            package="seeded",
            keep=("test_seeded.py",),
            tests=("test_seeded.py",),
            variables=BARE,
            checkout=True,
        )

    def seed(self, source: str) -> None:
        (self.sources / "test_seeded.py").write_text(source)

    def request(self, **changes: object) -> work.Request:
        request = work.Request(
            suite=self.suite,
            environment=Here(SHIM, "1.0"),
            checkout=self.sources,
        )
        return dataclasses.replace(request, **changes)  # type: ignore[arg-type]

    def passes_on_celery(self, tests: Sequence[str]) -> None:
        """As if the real Celery had passed these tests."""
        results = {f"test_seeded.py::{test}": Result(PASSED) for test in tests}
        run = Run("seeded", "celery", "1.0", "", results=results)
        folder = work.folder_of("seeded", "", Environment("celery", "1.0"))
        folder.mkdir(parents=True, exist_ok=True)
        write_json(run, folder / "result.json")

    def expect(self, **reasons: str) -> None:
        """By test, in the class `not-yet`."""
        entries = [
            expectations.Expectation(expectations.NOT_YET, reason, (f"test_seeded.py::{test}",))
            for test, reason in reasons.items()
        ]
        expectations.write("seeded", entries)

    def run(self, request: work.Request | None = None) -> tuple[int, str]:
        """Exit status, and what the terminal shows."""
        said = io.StringIO()
        tool = commands.Tool.__new__(commands.Tool)
        tool.catalog = CATALOG
        tool.console = Console(file=said, width=200, soft_wrap=True)
        status = commands.carry_out(tool, request or self.request())
        return status, said.getvalue()

    def found(self) -> Run:
        run = work.last_run("seeded", "", Here(SHIM, "1.0"))
        assert run is not None
        return run


@pytest.fixture(scope="module")
def module_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """For one run that many tests look at."""
    with pytest.MonkeyPatch.context() as patch:
        yield Bench(tmp_path_factory.mktemp("bench"), patch)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)
