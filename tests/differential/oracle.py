"""An environment with the real Celery, made once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

VERSION = "5.7.0"
TOP = Path(__file__).parents[2]
FOLDER = TOP / ".cache" / "differential" / f"celery-{VERSION}"
CONSTRAINTS = TOP / "compat-suite" / "constraints" / f"{VERSION}.txt"
"""The versions of what it needs, as compat-suite has them."""


def python() -> Path:
    """The interpreter of that environment. Raises `SystemExit` if it cannot be made."""
    found = FOLDER / "bin" / "python"
    stamp = FOLDER / "made-of"
    wanted = CONSTRAINTS.read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"making an environment with Celery {VERSION} in {FOLDER} …", file=sys.stderr)
        base = getattr(sys, "_base_executable", sys.executable)
        call(base, "-m", "venv", "--clear", str(FOLDER))
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        call(str(found), *install, "--constraint", str(CONSTRAINTS), f"celery[redis]=={VERSION}")
        stamp.write_text(wanted)
    return found


def call(*command: str) -> None:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if subprocess.call(command, env=variables):
        raise SystemExit(f"no environment with Celery {VERSION}: `{' '.join(command)}` failed")
