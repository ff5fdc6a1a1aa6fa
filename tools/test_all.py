"""Runs the tests on every supported Python of this machine, each in an environment of its own.

    .venv/bin/python tools/test_all.py [arguments for pytest]

The environments stay in .venvs/, so a second run starts at once. The last lines are a table, and
the exit status is 0 only if every interpreter passed.
"""

import subprocess
import sys
from pathlib import Path

from environment import TOP, VERSIONS, interpreters


def run(version: str, arguments: list[str]) -> str:
    """Test with one interpreter; the outcome in a word."""
    folder = TOP / ".venvs" / version
    print(f"== Python {version}", flush=True)
    make = [sys.executable, "tools/environment.py", "--python", version, "--venv", str(folder)]
    if subprocess.call(make, cwd=TOP):
        return "no environment"
    cache = f"cache_dir={Path('.venvs') / f'cache-{version}'}"
    pytest = [str(folder / "bin" / "pytest"), "-n", "auto", "-o", cache, *arguments]
    return "failed" if subprocess.call(pytest, cwd=TOP) else "passed"


def main() -> int:
    found = {each.version for each in interpreters()}
    outcomes = {version: run(version, sys.argv[1:]) for version in VERSIONS if version in found}
    print("\nPython  outcome")
    for version in VERSIONS:
        print(f"{version:<6}  {outcomes.get(version, 'not on this machine')}")
    return int(any(outcome != "passed" for outcome in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
