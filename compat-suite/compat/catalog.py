"""What suites.toml says: the environments, and every suite."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from .places import CATALOG
from .problems import Problem

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

CELERY = "celery"
DEFAULT_SECONDS = 60


@dataclass(frozen=True)
class Suite:
    """One test suite of somebody else."""

    name: str
    about: str
    package: str
    """The distribution whose sdist, or checkout, holds the tests."""
    tests: tuple[str, ...]
    version: str | None = None
    """Pinned; Celery's own suites have the version of the environment they are run in."""
    keep: tuple[str, ...] = ()
    """What is taken out of the sdist. The package stays there: the installed one is tested."""
    own: str | None = None
    """A folder of ours, beside suites.toml, whose files are put next to the tests."""
    arguments: tuple[str, ...] = ()
    keyword: str = ""
    """As pytest's -k: what of the tests belongs to the suite."""
    launcher: tuple[str, ...] = ()
    """A program of the environment that starts pytest."""
    overlay: tuple[str, ...] = ()
    """Packages that only this suite sees, before all others."""
    paths: tuple[str, ...] = ()
    """Folders of what was taken that modules are imported from."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the environment; ``{redis}`` in one is the URL of a private Redis."""
    pairs: tuple[str, ...] = ()
    """``broker+backend``, the first by default."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What a reader should know of the comparison, by pair; empty for a suite without pairs."""
    seconds: int = DEFAULT_SECONDS
    """A test that takes longer hangs."""
    processes: int = 1
    """The pytest processes that `all` gives it: several where its tests share nothing."""
    beside_celery: bool = False
    """On the shim its tests use the environment with the real Celery, too."""
    checkout: bool = False
    """Its tests are in no sdist: the path of a checkout has to be given."""

    @property
    def parallel(self) -> bool:
        return self.processes > 1


@dataclass(frozen=True)
class Part:
    """What CI runs of a suite."""

    suite: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Catalog:
    celery: tuple[str, ...]
    """Versions of the real Celery; the first is the one that is compared with."""
    extras: tuple[str, ...]
    packages: tuple[str, ...]
    suites: Mapping[str, Suite]
    ci: tuple[Part, ...] = ()

    def suite(self, name: str) -> Suite:
        """Raises `Problem` for a name that is none."""
        if name not in self.suites:
            near = difflib.get_close_matches(name, self.suites, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise Problem(f"no suite is called {name}{hint}: {', '.join(self.suites)}")
        return self.suites[name]


def read_catalog(path: Path = CATALOG) -> Catalog:
    """Raises `Problem` where the file is not what it should be."""
    try:
        content = tomllib.loads(path.read_text())
        environment = content["environment"]
        return Catalog(
            celery=tuple(environment["celery"]),
            extras=tuple(environment["extras"]),
            packages=tuple(environment["packages"]),
            suites={name: read_suite(name, said) for name, said in content["suite"].items()},
            ci=tuple(Part(each["suite"], tuple(each["tests"])) for each in content["ci"]),
        )
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise Problem(f"{path.name}: {error}") from None


def read_suite(name: str, said: Mapping[str, Any]) -> Suite:
    known = {each.name for each in fields(Suite)}
    for key in said:
        if key not in known:
            raise ValueError(f"suite {name} has a key {key} that is not known")
    return Suite(name=name, **{key: frozen(value) for key, value in said.items()})


def frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
