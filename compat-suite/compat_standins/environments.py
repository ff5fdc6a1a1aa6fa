"""Environments with a Celery, for the images of workers.

The image "dev" is the environment that the suite runs in; "the latest Celery released" is one that
is given; any other version is made with pip when an image first asks for it, and kept.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .errors import NoSuchImageError

# What the suite's tasks import.
REQUIREMENTS = ("pydantic", "psutil")
# Celery 4 imports what Python 3.11 no longer has; its dependencies have metadata that pip 24.1
# refuses, and it needs pkg_resources.
OLD_PYTHONS = ("3.10", "3.9", "3.8")
OLD_INSTALLER = ("pip<24.1", "setuptools<60")
PIP_INSTALL = ("-m", "pip", "install", "--quiet")
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"


class Environments:
    """Which folder holds the programs ``python`` and ``celery`` of a version."""

    def __init__(self, released: Path | None, cache: Path) -> None:
        self.own = Path(sys.executable).parent
        self._released = released or (None if _is_shim() else self.own)
        self._cache = cache

    def released(self, version: str) -> Path:
        """Celery as it was released; the latest version if none is named."""
        if version:
            return self._made(version)
        if self._released is None:
            raise NoSuchImageError("of the latest Celery", "--released-celery says where it is")
        return self._released

    def _made(self, version: str) -> Path:
        folder = self._cache / f"celery-{version}"
        folder.mkdir(parents=True, exist_ok=True)
        # Processes of pytest-xdist ask for it at the same time.
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "made").exists():
                self._make(version, folder / "environment")
                (folder / "made").touch()
        return folder / "environment" / "bin"

    def _make(self, version: str, folder: Path) -> None:
        is_old = version.startswith("4.")
        python = _old_python() if is_old else Path(sys.executable)
        if python is None:
            raise NoSuchImageError(
                f"Celery {version}", f"it needs one of Python {', '.join(OLD_PYTHONS)}"
            )
        _run([python, "-m", "venv", "--clear", folder])
        if is_old:
            _run([folder / "bin" / "python", *PIP_INSTALL, *OLD_INSTALLER])
        _run([folder / "bin" / "python", *PIP_INSTALL, f"celery[redis]=={version}", *REQUIREMENTS])


def _is_shim() -> bool:
    """Whether `celery` in this environment is ours."""
    return importlib.util.find_spec("taskmq_celery") is not None


def _old_python() -> Path | None:
    for version in OLD_PYTHONS:
        found = [*PYENV.glob(f"{version}.*/bin/python"), shutil.which(f"python{version}")]
        for each in found:
            if each is not None:
                return Path(each)
    return None


def _run(command: Sequence[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        raise NoSuchImageError("of a worker", f"{Path(command[0]).name}: {said[-1]}")
