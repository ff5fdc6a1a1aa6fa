"""Two kinds of virtual environments: with the shim, and with the real Celery. The rest is the same.

Everything else that is installed has the versions in constraints/, a file for each Celery, written
from the environment with it by ``python -m compat env --pin``.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .catalog import CELERY, Catalog, Suite
from .fetch import last_error
from .places import CONSTRAINTS, ENVIRONMENTS, TOP, short
from .problems import Problem

SHIM = "shim"
SIDES = (SHIM, CELERY)
# Installed from the checkout, as `celery` for other packages' requirements.
WORKSPACE = ("taskmq_core[redis,postgres,amqp]", "taskmq_celery")
PROVIDER = "taskmq_celery/provider"
OURS = ("celery", "taskmq")


@dataclass(frozen=True)
class Environment:
    """One virtual environment: what `celery` is in it, and the version it answers to."""

    side: str
    version: str

    @property
    def folder(self) -> Path:
        return ENVIRONMENTS / f"{self.side}-{self.version}"

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def constraints(self) -> Path:
        return CONSTRAINTS / f"{self.version}.txt"

    @property
    def stamp(self) -> Path:
        return self.folder / "compat-stamp"

    @property
    def log(self) -> Path:
        return self.folder.with_suffix(self.folder.suffix + ".log")

    def overlay(self, suite: Suite) -> Path | None:
        """Where the packages are that one suite has for itself."""
        if not suite.overlay:
            return None
        return self.folder / "overlays" / digest(*suite.overlay)[:12]

    def __str__(self) -> str:
        return f"{self.side} {self.version}"


def digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def requirements(environment: Environment, catalog: Catalog) -> list[str]:
    """The arguments of ``pip install``."""
    extras = f"[{','.join(catalog.extras)}]"
    if environment.side == CELERY:
        return [f"celery{extras}=={environment.version}", *catalog.packages]
    workspace = [word for each in WORKSPACE for word in ("--editable", f"{TOP}/{each}")]
    return [*workspace, f"celery{extras} @ file://{TOP / PROVIDER}", *catalog.packages]


def contents(environment: Environment, catalog: Catalog) -> str:
    """Changes when the environment has to be made again."""
    parts = [sys.version, *requirements(environment, catalog)]
    if environment.constraints.exists():
        parts.append(environment.constraints.read_text())
    if environment.side == SHIM:
        folders = [TOP / each.partition("[")[0] for each in (*WORKSPACE, PROVIDER)]
        parts += [(folder / "pyproject.toml").read_text() for folder in folders]
    return digest(*parts)


def ensure(environment: Environment, catalog: Catalog, *, pinned: bool = True) -> bool:
    """Make the environment unless it is right; whether it was made. Raises `Problem`.

    Not pinned, it is always made, of what is newest.
    """
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    with locked(environment):
        wanted = contents(environment, catalog)
        if pinned and environment.stamp.exists() and environment.stamp.read_text() == wanted:
            return False
        base = getattr(sys, "_base_executable", sys.executable)
        call(environment, [base, "-m", "venv", "--clear", str(environment.folder)])
        arguments = requirements(environment, catalog)
        if pinned and environment.constraints.exists():
            arguments = ["--constraint", str(environment.constraints), *arguments]
        pip_install(environment, arguments)
        environment.stamp.write_text(wanted)
        return True


def ensure_overlay(environment: Environment, suite: Suite) -> Path | None:
    """Install what only this suite sees. Raises `Problem`."""
    folder = environment.overlay(suite)
    if folder is not None and not folder.exists():
        with locked(environment):
            temporary = folder.with_name(f"{folder.name}-{os.getpid()}")
            pip_install(environment, ["--no-deps", "--target", str(temporary), *suite.overlay])
            if folder.exists():
                return folder
            temporary.rename(folder)
    return folder


@contextlib.contextmanager
def locked(environment: Environment) -> Iterator[None]:
    """One process at a time makes an environment."""
    with environment.log.with_suffix(".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def pip_install(environment: Environment, arguments: Sequence[str]) -> None:
    command = [str(environment.python), "-m", "pip", "install", "--disable-pip-version-check"]
    # Most of what comes along is never imported: Python compiles the rest when it is.
    call(environment, [*command, "--no-compile", *arguments])


def call(environment: Environment, command: Sequence[str]) -> None:
    variables = os.environ | {"TASKMQ_CELERY_VERSION": f"{environment.version}+taskmq"}
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "PIP_CONSTRAINT"):
        variables.pop(name, None)
    with environment.log.open("wb") as log:
        status = subprocess.call(command, stdout=log, stderr=subprocess.STDOUT, env=variables)
    if status:
        reason = last_error(environment.log.read_text(errors="replace"))
        raise Problem(f"the environment {environment}: {reason} (see {short(environment.log)})")


def pin(environment: Environment, catalog: Catalog) -> int:
    """Write the constraints from what is installed; how many packages that are."""
    command = [str(environment.python), "-m", "pip", "freeze", "--disable-pip-version-check"]
    frozen = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line for line in frozen.splitlines() if "==" in line and not line.startswith(OURS)]
    head = f"# What the environments hold, by `python -m compat env --pin` ({environment}).\n"
    CONSTRAINTS.mkdir(exist_ok=True)
    environment.constraints.write_text(head + "".join(f"{line}\n" for line in lines))
    environment.stamp.write_text(contents(environment, catalog))
    return len(lines)
