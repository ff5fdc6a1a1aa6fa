"""mypy and pyright agree on what the public API allows, line by line."""

import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
CASES = Path(__file__).parent / "cases"
EXPECTED = re.compile(r"# E: (?P<mypy>[\w, -]+) \| (?P<pyright>[\w, ]+)$")
MYPY_LINE = re.compile(r".*?:(?P<line>\d+): error: .*\[(?P<code>[\w-]+)\]$")
PYTHONS = ["3.10", "3.13"]

Errors = dict[int, set[str]]


def expected(case: Path, checker: str) -> Errors:
    """The errors that a file announces, by line."""
    return {
        number: {code.strip() for code in match[checker].split(",")}
        for number, line in enumerate(case.read_text().splitlines(), 1)
        if (match := EXPECTED.search(line))
    }


def mypy(case: Path, python: str) -> Errors:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="]
    command += ["--python-version", python, "--disable-error-code=unused-coroutine", str(case)]
    command += ["--cache-dir", str(TOP / ".mypy_cache" / "typing")]
    run = subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=110)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found: Errors = {}
    for line in run.stdout.splitlines():
        if match := MYPY_LINE.fullmatch(line):
            found.setdefault(int(match["line"]), set()).add(match["code"])
    return found


def pyright(case: Path, python: str) -> Errors:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonversion", python]
    command += ["--pythonpath", sys.executable, str(case)]
    run = subprocess.run(command, cwd=CASES, capture_output=True, text=True, timeout=110)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found: Errors = {}
    for each in json.loads(run.stdout)["generalDiagnostics"]:
        if each["severity"] == "error":
            line = each["range"]["start"]["line"] + 1
            found.setdefault(line, set()).add(each.get("rule", each["message"]))
    return found


@pytest.mark.timeout(120)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("case", sorted(CASES.glob("*.py")), ids=lambda case: case.stem)
def test_mypy(case: Path, python: str) -> None:
    assert mypy(case, python) == expected(case, "mypy")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("case", sorted(CASES.glob("*.py")), ids=lambda case: case.stem)
def test_pyright(case: Path, python: str) -> None:
    assert pyright(case, python) == expected(case, "pyright")


def test_the_engine_says_that_it_is_typed() -> None:
    assert files("taskmq").joinpath("py.typed").is_file()
