"""The reference pages list exactly what the code has."""

import dataclasses
import re
from pathlib import Path

import pytest

import taskmq
from taskmq import Config, errors
from taskmq.call import Options
from taskmq.cli.exits import Exit, exit_for
from taskmq.cli.parser import build_parser
from taskmq.diagnose import PARKED
from taskmq.envelope import Envelope
from taskmq.errors import IdempotencyConflict, RemoteError, TaskmqError
from taskmq.policy import TaskPolicy

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def table(page: str, header: str) -> list[list[str]]:
    """The rows of the table whose header begins like this."""
    lines = (REFERENCE / page).read_text().splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"| {header} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells = re.split(r"(?<!\\)\|", line)[1:-1]
        rows.append([cell.strip().strip("`") for cell in cells])
    return rows


def test_every_setting_with_its_default_and_variable() -> None:
    rows = {row[0]: (row[1], row[2]) for row in table("config.md", "field")}
    fields = {field.name: getattr(Config(), field.name) for field in dataclasses.fields(Config)}
    assert list(rows) == list(fields)
    adaptive = ("prefetch", "start_method")
    words = {True: "yes", False: "no", None: "none"}
    variables = {name: variable for variable, name in Config.environment_variables().items()}
    for name, (default, variable) in rows.items():
        value = fields[name]
        expected = "none" if value in ({}, ()) else words.get(value, value)
        if name in adaptive:
            expected = "adaptive"
        shown = f"{expected:g}" if isinstance(expected, float) else str(expected)
        assert (default, variable) == (shown, variables.get(name, ""))


def test_every_option_of_tasks_and_calls() -> None:
    text = (REFERENCE / "config.md").read_text().partition("## Per task, per call")[2]
    named = set(re.findall(r"`(\w+)`", text.partition("\n\n|")[2]))
    options = {field.name for field in dataclasses.fields(Options)}
    policy = {field.name for field in dataclasses.fields(TaskPolicy)}
    assert options | policy | {"name", "bind"} == named


def test_every_exit_code() -> None:
    rows = [(int(row[0]), row[1]) for row in table("cli.md", "code")]
    assert rows == [(code.value, code.name) for code in Exit]


def test_every_command() -> None:
    rows = " ".join(row[0] for row in table("cli.md", "command"))
    (subparsers,) = [a for a in build_parser()._actions if isinstance(a.choices, dict)]
    assert subparsers.choices is not None
    for name in subparsers.choices:
        assert re.search(rf"\b{name}\b", rows), f"cli.md does not list {name}"


def test_every_option_of_a_worker() -> None:
    rows = " ".join(row[0] for row in table("cli.md", "option"))
    text = (REFERENCE / "cli.md").read_text()
    (subparsers,) = [a for a in build_parser()._actions if isinstance(a.choices, dict)]
    assert isinstance(subparsers.choices, dict)
    for command, parser in subparsers.choices.items():
        for action in parser._actions:
            for option in action.option_strings:
                if option.startswith("--") and option != "--help":
                    assert option in text, f"cli.md does not list {option} of {command}"
    assert "--app" in rows


def test_every_error_with_its_exit_code() -> None:
    rows = {row[0]: row[2] for row in table("errors.md", "error")}
    kinds = [getattr(errors, name) for name in errors.__all__]
    ordinary = [kind for kind in kinds if issubclass(kind, TaskmqError)]
    assert set(rows) == {kind.__name__ for kind in ordinary}
    for kind in ordinary:
        if rows[kind.__name__]:
            assert exit_for(_made(kind)) == int(rows[kind.__name__])
    text = (REFERENCE / "errors.md").read_text()
    for kind in set(kinds) - set(ordinary):
        assert f"`{kind.__name__}`" in text


def _made(kind: type[TaskmqError]) -> TaskmqError:
    if kind is RemoteError:
        return RemoteError("x", "")
    if kind is IdempotencyConflict:
        return IdempotencyConflict("x", key="k", job_id="j")
    return kind("x")


def test_every_field_of_the_envelope() -> None:
    rows = {row[0]: row[1] for row in table("envelope.md", "field")}
    assert list(rows) == list(Envelope.__struct_fields__)
    required = [name for name, default in rows.items() if default == "required"]
    assert required == ["v", "id", "task", "queue"]


def test_every_public_name() -> None:
    text = (REFERENCE / "api.md").read_text()
    missing = [name for name in taskmq.__all__ if not re.search(rf"`[^`]*\b{name}\b", text)]
    assert missing == []


def test_the_exports_are_sorted_and_there() -> None:
    assert taskmq.__all__ == sorted(taskmq.__all__)
    for name in taskmq.__all__:
        assert hasattr(taskmq, name)


@pytest.mark.parametrize("reason", PARKED)
def test_every_reason_for_parking_is_among_the_dead_letters_reasons(reason: str) -> None:
    assert f"`{reason}`" in (REFERENCE.parent / "howto" / "dead-letters.md").read_text()
