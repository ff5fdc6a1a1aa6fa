"""Gets released sdists through pip, and takes tests out of them or out of a checkout."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

from .places import SDISTS, short
from .problems import Problem


def normal(name: str) -> str:
    """A distribution's name as the files of releases spell it."""
    return name.lower().replace("-", "_").replace(".", "_")


def sdist(package: str, version: str) -> Path:
    """The sdist of a release, downloaded unless it is there. Raises `Problem`."""
    SDISTS.mkdir(parents=True, exist_ok=True)
    with (SDISTS / "lock").open("w") as handle:
        # Runs that begin at once want the same one.
        fcntl.flock(handle, fcntl.LOCK_EX)
        return downloaded(package, version) or download(package, version)


def download(package: str, version: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-binary", package, "--dest", str(SDISTS), f"{package}=={version}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = downloaded(package, version)
    if done.returncode or found is None:
        raise Problem(f"pip could not download {package} {version}: {last_error(done.stderr)}")
    return found


def downloaded(package: str, version: str) -> Path | None:
    for path in sorted(SDISTS.glob(f"*-{version}.tar.gz")):
        if normal(path.name[: -len(f"-{version}.tar.gz")]) == normal(package):
            return path
    return None


def last_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["no reason given"])[-1]


def unpack(archive: Path, keep: Iterable[str], folder: Path) -> None:
    """Take the kept files and folders out of an sdist. Raises `Problem` when one is not in it."""
    missing = set(keep)
    with tarfile.open(archive) as content:
        for member in content:
            inside = member.name.partition("/")[2]
            for wanted in keep:
                if inside == wanted or inside.startswith(f"{wanted}/"):
                    missing.discard(wanted)
                    member.name = inside
                    content.extract(member, folder, filter="data")
    if missing:
        raise Problem(f"{short(archive)} has no {', '.join(sorted(missing))}")


def copy_checkout(checkout: Path, keep: Iterable[str], folder: Path) -> None:
    """Take the same from a local checkout. Raises `Problem` when something is not in it."""
    for wanted in keep:
        source = checkout / wanted
        if source.is_dir():
            shutil.copytree(source, folder / wanted, dirs_exist_ok=True)
        elif source.exists():
            (folder / wanted).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / wanted)
        else:
            raise Problem(f"{checkout} has no {wanted}")
