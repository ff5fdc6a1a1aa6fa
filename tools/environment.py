"""Makes the virtual environment that holds the workspace, and keeps it up to date.

Run by the Makefile before every target, with whatever Python the machine has. Only the standard
library is used, and the syntax is old enough (3.6) for an old interpreter to look for a newer one,
or else to say in one line that it is too old.

    python3 tools/environment.py
    python3 tools/environment.py --python 3.12 --venv .venvs/3.12

Nothing happens when the environment is already right: its interpreter answers, it has not been
moved, and none of the files that say what belongs into it has changed.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSIONS = ("3.13", "3.12", "3.11", "3.10")
TOP = Path(__file__).resolve().parent.parent
REQUIREMENTS = TOP / "requirements-dev.txt"
CONTENTS = (
    REQUIREMENTS,
    TOP / "taskmq_core" / "pyproject.toml",
    TOP / "taskmq_celery" / "pyproject.toml",
    TOP / "taskmq_celery" / "provider" / "pyproject.toml",
    TOP / "taskmq_celery" / "provider" / "version.py",
    TOP / "migrate" / "pyproject.toml",
)
# The base interpreter is asked for, so that an activated environment is never built upon.
PROBE = """
import importlib.util, sys
print("%d.%d" % sys.version_info[:2])
print(getattr(sys, "_base_executable", None) or sys.executable)
print(all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")))
"""


class Unusable(Exception):
    """The environment cannot be made; the message is the one line that the user reads."""


class Interpreter:
    """A Python on this machine: version ("3.11"), path, whether it can make environments."""

    def __init__(self, version: str, path: str, complete: bool) -> None:
        self.version = version
        self.path = path
        self.complete = complete

    def __str__(self) -> str:
        return f"Python {self.version} ({self.path})"


def probe(path: str) -> "Interpreter | None":
    """Ask a program what Python it is; None if it does not answer (a pyenv shim, a broken link)."""
    try:
        answer = subprocess.check_output([path, "-c", PROBE], stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return None
    version, base, complete = answer.decode().splitlines()
    return Interpreter(version, base, complete == "True")


def interpreters() -> "list[Interpreter]":
    """The Pythons of this machine that taskmq supports, the one running this first."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    has_pyenv = os.access(str(pyenv), os.R_OK | os.X_OK)
    places = [sys.executable]
    for version in VERSIONS:
        name = "python" + version
        places += [shutil.which(name) or ""]
        if has_pyenv:
            places += [str(path) for path in sorted(pyenv.glob(version + ".*/bin/" + name))]
    found = [probe(place) for place in places if place]
    return [each for each in found if each is not None and each.version in VERSIONS]


def choose(wanted: "str | None") -> Interpreter:
    """The interpreter to build on, made complete if Debian split it and we may mend that."""
    fitting = [each for each in interpreters() if wanted in (None, each.version)]
    if not fitting:
        raise Unusable(
            "no Python {} found (python3 is {}.{}): install one, then run make again".format(
                wanted or "3.10 to 3.13", *sys.version_info[:2]
            )
        )
    for each in fitting:
        if each.complete:
            return each
    return completed(fitting[0])


def completed(interpreter: Interpreter) -> Interpreter:
    """Debian ships ``venv`` in a package of its own: install it as root, or name it."""
    package = "python" + interpreter.version + "-venv"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise Unusable(f"{interpreter} cannot make virtual environments: install {package}")
    say(f"installing {package}")
    apt = ["apt-get", "-q", "-y"]
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "--no-install-recommends", package]):
        command = apt + arguments
        null = subprocess.DEVNULL
        if subprocess.call(command, stdout=null, stderr=null, env=quiet):
            raise Unusable("apt-get {} failed".format(" ".join(arguments)))
    return interpreter


class Environment:
    """A virtual environment and the stamp that says what was put into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        self.stamp = folder / "taskmq-stamp"
        self.log = folder / "install.log"

    def answers(self) -> bool:
        return self.python.exists() and probe(str(self.python)) is not None

    def is_current(self) -> bool:
        return self.stamp.exists() and self.stamp.read_text() == self.wanted() and self.answers()

    def wanted(self) -> str:
        digest = hashlib.sha256()
        for path in CONTENTS:
            digest.update(path.read_bytes())
        return f"{self.folder}\n{digest.hexdigest()}\n"

    def is_usable(self) -> bool:
        """Whether installing into what is there is enough: scripts name the folder they live in."""
        moved = self.stamp.exists() and self.stamp.read_text().splitlines()[0] != str(self.folder)
        return self.answers() and not moved

    def build(self, wanted: "str | None") -> None:
        if not self.is_usable():
            interpreter = choose(wanted)
            say(f"making {short(self.folder)} with {interpreter}")
            command = [interpreter.path, "-m", "venv", "--clear", str(self.folder)]
            if subprocess.call(command):
                raise Unusable(f"{interpreter} could not make {self.folder}")
        say(f"installing the workspace into {short(self.folder)}")
        # Editable installs of this kind came with pip 21.3; the first 3.10 releases have 21.2.
        self.install("pip>=22.3")
        self.install("--requirement", str(REQUIREMENTS))
        self.stamp.write_text(self.wanted())

    def install(self, *what: str) -> None:
        command = [str(self.python), "-m", "pip", "install", "--disable-pip-version-check", *what]
        with self.log.open("wb") as log:
            status = subprocess.call(command, cwd=str(TOP), stdout=log, stderr=subprocess.STDOUT)
        if status:
            lines = [each.strip() for each in self.log.read_text(errors="replace").splitlines()]
            errors = [each for each in lines if each.startswith("ERROR:")] or ["no reason given"]
            raise Unusable(f"pip failed: {errors[-1]} (see {short(self.log)})")


def short(path: Path) -> str:
    return str(path.relative_to(TOP)) if TOP in path.parents else str(path)


def say(text: str) -> None:
    print("environment: " + text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Make or refresh the virtual environment.")
    parser.add_argument("--venv", type=Path, default=TOP / ".venv", help="folder (.venv)")
    parser.add_argument("--python", choices=VERSIONS, help="version (the first that is found)")
    arguments = parser.parse_args()
    environment = Environment(arguments.venv.absolute())
    try:
        if not environment.is_current():
            environment.build(arguments.python)
    except Unusable as reason:
        print(f"environment: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
