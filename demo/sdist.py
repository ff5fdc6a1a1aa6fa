"""Celery's own examples, out of its released sdist: fetched with pip, checked, unpacked."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

VERSION = "5.7.0"
SDIST = f"celery-{VERSION}.tar.gz"
SHA256 = "6a5dfcf6662287204f009a02002b9e66c83d4105e47ebabdc7079108772fc6f0"
"""As the package index publishes it."""

EXAMPLES = {
    "tutorial": ("tasks.py",),
    "next-steps": ("proj/__init__.py", "proj/celery.py", "proj/tasks.py"),
    "app": ("myapp.py",),
}


class Unavailable(Exception):
    """The sdist could not be fetched, or is not the one that was released."""


@dataclass(frozen=True)
class Example:
    """One file of an example: where it was unpacked, and the hash that it has in the sdist."""

    example: str
    name: str
    path: Path
    sha256: str

    def is_unmodified(self) -> bool:
        return _sha256(self.path.read_bytes()) == self.sha256


def fetch(cache: Path) -> Path:
    """The sdist, from ``cache`` or through pip. Raises `Unavailable`."""
    sdist = cache / SDIST
    if not sdist.exists():
        cache.mkdir(parents=True, exist_ok=True)
        # pip looks into the sdist for its metadata and builds nothing more; dependencies stay out.
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--no-binary", "celery"]
        command += ["--dest", str(cache), f"celery=={VERSION}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not sdist.exists():
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise Unavailable(f"pip could not download celery=={VERSION}: {last}")
    found = _sha256(sdist.read_bytes())
    if found != SHA256:
        raise Unavailable(f"{sdist} is not the released one: its sha256 is {found}; delete it")
    return sdist


def unpack(sdist: Path, folder: Path) -> list[Example]:
    """Write the examples below ``folder``, byte for byte."""
    files = []
    with tarfile.open(sdist) as archive:
        for example, names in EXAMPLES.items():
            for name in names:
                member = archive.extractfile(f"celery-{VERSION}/examples/{example}/{name}")
                if member is None:
                    raise Unavailable(f"{sdist} has no examples/{example}/{name}")
                data = member.read()
                path = folder / example / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                files.append(Example(example, name, path, _sha256(data)))
    return files


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
