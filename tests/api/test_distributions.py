"""What the four wheels hold: nobody who installs the engine gets a `celery` package."""

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from functools import cache
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

import celery
import taskmq

TOP = Path(__file__).parents[2]
FOLDERS = {
    "taskmq-py": TOP / "taskmq_core",
    "taskmq-celery": TOP / "taskmq_celery",
    "celery": TOP / "taskmq_celery" / "provider",
    "taskmq-migrate": TOP / "migrate",
}


@dataclass(frozen=True)
class Wheel:
    """A built distribution: the files it installs, and its metadata."""

    files: list[str]
    metadata: Message
    entry_points: str

    def packages(self) -> set[str]:
        roots = {each.partition("/")[0] for each in self.files}
        return {each for each in roots if not each.endswith(".dist-info")}

    def requirements(self, extra: str = "") -> list[Requirement]:
        """What is required without any extra, or what one extra adds."""
        every = map(Requirement, self.metadata.get_all("Requires-Dist", []))
        if not extra:
            return [each for each in every if each.marker is None]
        return [each for each in every if each.marker and each.marker.evaluate({"extra": extra})]


def build(folder: Path, into: Path, **environment: str) -> Wheel:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(into)]
    run = subprocess.run(
        [*command, str(folder)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    (path,) = into.glob("*.whl")
    with ZipFile(path) as archive:
        names = archive.namelist()
        texts = {
            name.rpartition("/")[2]: archive.read(name).decode()
            for name in names
            if name.endswith(("dist-info/METADATA", "dist-info/entry_points.txt"))
        }
    return Wheel(names, Parser().parsestr(texts["METADATA"]), texts.get("entry_points.txt", ""))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Wheel]:
    """Gives the wheel of a distribution, built on first use."""

    @cache
    def built(name: str) -> Wheel:
        return build(FOLDERS[name], tmp_path_factory.mktemp(name))

    return built


@pytest.mark.parametrize(
    ("name", "packages"),
    [
        ("taskmq-py", {"taskmq"}),
        ("taskmq-celery", {"celery", "taskmq_celery"}),
        ("celery", set()),
        ("taskmq-migrate", {"taskmq_migrate"}),
    ],
)
def test_a_wheel_holds_exactly_its_own_packages(
    wheel: Callable[[str], Wheel], name: str, packages: set[str]
) -> None:
    assert wheel(name).packages() == packages
    assert wheel(name).metadata["Requires-Python"] == ">=3.10"
    assert any(each.endswith(".dist-info/licenses/LICENSE") for each in wheel(name).files)


def test_typed_packages_say_so(wheel: Callable[[str], Wheel]) -> None:
    assert "taskmq/py.typed" in wheel("taskmq-py").files
    assert "taskmq_celery/py.typed" in wheel("taskmq-celery").files


def test_data_files_of_the_transports_are_in_the_wheel(wheel: Callable[[str], Wheel]) -> None:
    source = FOLDERS["taskmq-py"] / "src"
    data = {
        str(path.relative_to(source))
        for pattern in ("*.sql", "*.lua")
        for path in source.rglob(pattern)
    }
    assert data <= set(wheel("taskmq-py").files)


def test_installing_the_engine_brings_no_celery(wheel: Callable[[str], Wheel]) -> None:
    engine = wheel("taskmq-py")
    assert [each.name for each in engine.requirements()] == ["msgspec"]
    assert "taskmq = taskmq.cli.main:main" in engine.entry_points
    assert "celery" not in engine.entry_points


def test_the_shim_requires_the_engine_and_never_the_distribution_celery(
    wheel: Callable[[str], Wheel],
) -> None:
    names = [each.name for each in wheel("taskmq-celery").requirements()]
    assert "taskmq-py" in names
    assert "celery" not in names
    assert "celery = celery.__main__:main" in wheel("taskmq-celery").entry_points


def test_the_provider_stands_in_for_celery_with_metadata_alone(
    wheel: Callable[[str], Wheel],
) -> None:
    provider = wheel("celery")
    assert [each.name for each in provider.requirements()] == ["taskmq-celery"]
    assert "celery = celery.__main__:main" in provider.entry_points


def test_the_provider_forwards_every_extra(wheel: Callable[[str], Wheel]) -> None:
    provider, shim = wheel("celery"), wheel("taskmq-celery")
    extras = provider.metadata.get_all("Provides-Extra", [])
    assert sorted(extras) == sorted(shim.metadata.get_all("Provides-Extra", []))
    assert {"gevent", "msgpack", "redis", "sqlalchemy", "yaml"} <= set(extras)
    for extra in extras:
        (forwarded,) = provider.requirements(extra)
        assert (forwarded.name, forwarded.extras) == ("taskmq-celery", {extra})


def test_the_provider_can_be_built_as_a_later_celery(tmp_path: Path) -> None:
    later = build(FOLDERS["celery"], tmp_path, TASKMQ_CELERY_VERSION="5.7.0+taskmq")
    assert later.metadata["Version"] == "5.7.0+taskmq"


def test_all_versions_agree(wheel: Callable[[str], Wheel]) -> None:
    ours = {wheel(name).metadata["Version"] for name in FOLDERS if name != "celery"}
    assert ours == {taskmq.__version__}
    provided = wheel("celery").metadata["Version"]
    assert provided == celery.__version__ == importlib.metadata.version("celery")
