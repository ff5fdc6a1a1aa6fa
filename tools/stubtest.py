"""How far the `celery` package is what celery-types says that Celery is: mypy's stubtest, counted.

    python -m tools.stubtest --python ../stubs/bin/python

The other Python has the workspace (or the real Celery), redis, sqlalchemy, cryptography and Django
(a module that cannot be imported is a line), and besides mypy, celery-types, types-docutils,
sphinx and pytest. Each line of stubtest is one difference between the stubs
and the package; the real Celery 5.7.0 has 72. Exit status 1 if there are more than ``--most``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

COMMAND = ("-m", "mypy.stubtest", "celery", "--concise", "--ignore-missing-stub")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--python", default=sys.executable, help="where the stubs are installed")
    parser.add_argument("--most", type=int, default=72, help="lines allowed (default: 72)")
    parser.add_argument("--lines", action="store_true", help="print every line")
    given = parser.parse_args(argv)
    lines = differences(str(Path(given.python).absolute()))
    if given.lines:
        print("\n".join(lines))
    for module, count in Counter(map(module_of, lines)).most_common(20):
        print(f"{count:5} {module}")
    print(f"{len(lines)} lines; the real Celery 5.7.0 has 72")
    return 1 if len(lines) > given.most else 0


def differences(python: str) -> list[str]:
    """What stubtest says. Raises ``SystemExit`` if it cannot compare at all."""
    asked = [python, "-c", "import importlib.metadata as m; m.version('celery-types')"]
    if subprocess.run(asked, capture_output=True, check=False).returncode:
        raise SystemExit(f"{python} has no celery-types: install it there, or say --python")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [python, *COMMAND], cwd=folder, capture_output=True, text=True, check=False
        )
    lines = done.stdout.splitlines()
    if done.stderr.strip() or any(line.startswith("error: not checking") for line in lines):
        raise SystemExit(f"stubtest: {done.stdout}{done.stderr}".rstrip())
    return lines


def module_of(line: str) -> str:
    """The module that a line is about: what comes before the first name in capitals, or the
    last part of the path."""
    path = line.split(" ", 1)[0].split(".")
    for number, part in enumerate(path):
        if part[:1].isupper():
            return ".".join(path[:number])
    return ".".join(path[:-1]) or path[0]


if __name__ == "__main__":
    raise SystemExit(main())
