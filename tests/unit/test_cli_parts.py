"""The parts of the command line: exit codes, output, values, the argument tree."""

import argparse
import datetime
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from taskmq import ConfigError, __version__, errors
from taskmq.cli.exits import CommandFailed, Exit, exit_for, one_line
from taskmq.cli.main import main
from taskmq.cli.output import Printer, wants_color
from taskmq.cli.parser import Command, build_parser
from taskmq.cli.values import counted, parse_instant, parse_json, payload_text, shorten
from taskmq.codec import Payload

ERRORS: list[type[errors.TaskmqError]] = [
    kind
    for name in errors.__all__
    if isinstance(kind := getattr(errors, name), type)
    and issubclass(kind, errors.TaskmqError)
    and kind not in (errors.TaskmqError, errors.TaskNotBound)  # a base, and a bug of the program
]


def make(kind: type[errors.TaskmqError]) -> errors.TaskmqError:
    if kind is errors.RemoteError:
        return errors.RemoteError("builtins.OSError", "no\nroute", "Traceback…")
    if kind is errors.IdempotencyConflict:
        return errors.IdempotencyConflict("taken", key="k", job_id="J1")
    return kind("first line\n  second line")


# -- exit codes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigError, 2),
        (errors.TransportUnavailable, 3),
        (errors.TransportError, 3),
        (errors.StoreCorrupt, 4),
        (errors.SchemaMismatch, 4),
        (errors.StoreFull, 5),
        (errors.UnknownJob, 6),
        (errors.UnknownTask, 6),
        (errors.ResultTimeout, 7),
        (errors.MessageTooLarge, 8),
        (errors.EncodeError, 8),
        (errors.IdempotencyConflict, 8),
        (errors.QueueFull, 8),
        (errors.RemoteError, 1),
        (errors.JobExpired, 1),
        (errors.JobRevoked, 1),
    ],
)
def test_codes(error: type[errors.TaskmqError], code: int) -> None:
    assert exit_for(make(error)) == code


@pytest.mark.parametrize(
    "kind", [k for k in ERRORS if k not in (errors.TaskmqError, errors.TaskNotBound)]
)
def test_every_error_of_the_engine_has_a_code_and_one_line(kind: type[errors.TaskmqError]) -> None:
    error = make(kind)
    assert exit_for(error) is not Exit.BUG
    assert "\n" not in one_line(error)
    assert "unexpected" not in one_line(error)


def test_an_error_that_nobody_expected_says_so() -> None:
    assert exit_for(ValueError("x")) is Exit.BUG
    assert one_line(ValueError("x")) == (
        "unexpected ValueError: x (--traceback shows where; please report it)"
    )


def test_a_remote_error_is_told_without_its_traceback() -> None:
    assert one_line(make(errors.RemoteError)) == "builtins.OSError: no route"
    assert one_line(errors.RemoteError("worker_lost", "")) == "worker_lost"
    assert exit_for(CommandFailed("no", Exit.TIMEOUT)) is Exit.TIMEOUT


# -- output --------------------------------------------------------------------------------------


def printed(color: bool = False) -> tuple[Printer, io.StringIO]:
    stream = io.StringIO()
    return Printer(stream, color=color), stream


def test_a_table_is_aligned_with_numbers_to_the_right() -> None:
    printer, stream = printed()
    printer.table(("QUEUE", "READY", "NOTE"), [("email", 5, "x"), ("a", 1200, "")])
    assert stream.getvalue().splitlines() == [
        "  QUEUE  READY  NOTE",
        "  email      5  x",
        "  a       1200",
    ]


def test_a_table_without_rows() -> None:
    printer, stream = printed()
    printer.table(("QUEUE",), [])
    assert stream.getvalue() == "  none\n"


def test_facts_leave_out_what_is_empty() -> None:
    printer, stream = printed()
    printer.facts({"state": "QUEUED", "key": None, "worker": "", "attempt": 0})
    assert stream.getvalue().splitlines() == ["  state    QUEUED", "  attempt  0"]
    printer.facts({})


def test_color_is_only_style() -> None:
    printer, stream = printed(color=True)
    printer.heading("Queues")
    assert stream.getvalue() == "\x1b[1mQueues\x1b[0m\n"
    assert printed()[0].style("red", "x") == "x"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "wanted"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_color_is_for_terminals_that_want_it(
    stream: io.StringIO, environ: dict[str, str], wanted: bool
) -> None:
    assert wants_color(stream, environ) is wanted


def test_instants_are_shown_in_the_time_zone_of_the_app() -> None:
    assert Printer(io.StringIO()).instant(0.0) == "1970-01-01 00:00:00 UTC"
    east = Printer(io.StringIO(), timezone="Asia/Shanghai")
    assert east.instant(0.0) == "1970-01-01 08:00:00 CST"


def test_json_output_takes_what_json_lacks() -> None:
    printer, stream = printed()
    printer.json({"a": object, "b": [b"\xff"]})
    assert '"a": "<class \'object\'>"' in stream.getvalue()


# -- values --------------------------------------------------------------------------------------


def test_json_arguments() -> None:
    assert parse_json("--args", '[1, "a"]', list) == [1, "a"]
    assert parse_json("--kwargs", '{"a": 1}', dict) == {"a": 1}
    assert parse_json("--args", None, list) is None


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("[1,", list, r"--x is no JSON .*got '\[1,'"),
        ('{"a": 1}', list, r"--x must look like \[1, \"a\"\], got"),
        ("[1]", dict, r"--x must look like \{\"name\": 1\}, got"),
        ("null", list, "--x must look like"),
        ("", dict, "--x is no JSON"),
    ],
)
def test_json_of_the_wrong_kind_is_refused_with_an_example(
    text: str, kind: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_json("--x", text, kind)


def test_instants_are_seconds_or_iso() -> None:
    assert parse_instant("--eta", None) is None
    assert parse_instant("--eta", "60") == 60.0
    moment = datetime.datetime(2030, 1, 31, 9, tzinfo=datetime.timezone.utc)
    assert parse_instant("--eta", "2030-01-31T09:00:00Z") == moment
    assert parse_instant("--eta", "2030-01-31T10:00:00+01:00") == moment
    with pytest.raises(ConfigError, match="--eta wants seconds or an instant such as"):
        parse_instant("--eta", "tomorrow")
    with pytest.raises(ConfigError, match="has no time zone; add Z or an offset"):
        parse_instant("--eta", "2030-01-31T09:00:00")


def test_payloads_and_long_texts() -> None:
    assert payload_text(Payload("json", b'{"a":1}')) == '{"a":1}'
    assert payload_text(Payload("yaml", b"12345")) == "5 bytes of yaml"
    assert shorten("a\n b") == "a b"
    assert shorten("x" * 200) == "x" * 99 + "…"
    assert [counted(n, "job") for n in (0, 1, 2000)] == ["0 jobs", "1 job", "2,000 jobs"]


# -- the argument tree ---------------------------------------------------------------------------


def subparsers(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> list[tuple[str, ...]]:
    paths = [path]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                paths += subparsers(child, (*path, name))
    return paths


@pytest.mark.parametrize("path", subparsers(build_parser()), ids=" ".join)
def test_help_everywhere_with_examples(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*path, "--help"])
    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert "--app" in out
    assert f"taskmq {' '.join(path)}".rstrip() in out
    if path not in ((), ("dlq",), ("payloads",), ("schedule",), ("spool",), ("workflow",)):
        assert f"Examples:\n  taskmq {' '.join(path)}" in out


def commands(parser: argparse.ArgumentParser) -> Iterator[Command]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from commands(child)
    if parser.get_default("command") is not None:
        yield parser.get_default("command")


def test_every_command_is_there() -> None:
    """They are imported only when they are called."""
    found = list(commands(build_parser()))
    assert len(found) > 30
    assert all(command.function().__name__ == command.name for command in found)


def test_groups_that_a_command_line_does_not_name_are_empty() -> None:
    everything = {command.module for command in commands(build_parser())}
    none = {command.module for command in commands(build_parser(["worker", "--once"]))}
    assert everything - none == {"dead", "payloads", "schedule", "spool", "workflow"}
    named = {command.module for command in commands(build_parser(["--app", "a:b", "dlq", "list"]))}
    assert named - none == {"dead"}
    assert build_parser([]).format_help() == build_parser().format_help()


def test_a_worker_imports_no_other_command() -> None:
    program = "import sys; from taskmq.cli.main import main; main(['worker', '--once'])"
    program += "; print([name for name in sys.modules if name.startswith('taskmq.cli.')])"
    environment = {**os.environ, "TASKMQ_TRANSPORT": "memory://"}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    imported = ran.stdout.splitlines()[-1]
    assert "taskmq.cli.run" in imported
    for other in ("admin", "call", "dead", "schedule'", "status", "workflow'"):
        assert f"taskmq.cli.{other}" not in imported


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"taskmq {__version__} (Python ")


@pytest.mark.parametrize(
    "argv",
    [
        ["--app", "a:b", "--transport", "c", "status", "--traceback"],
        ["status", "--app", "a:b", "--transport", "c", "--traceback"],
        ["--app", "a:b", "--traceback", "status", "--transport", "c"],
        ["--app", "wrong:one", "--traceback", "status", "--app", "a:b", "--transport", "c"],
    ],
)
def test_common_options_stand_before_or_behind_the_command(argv: list[str]) -> None:
    arguments = build_parser().parse_args(argv)
    assert (arguments.app, arguments.transport, arguments.traceback) == ("a:b", "c", True)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "the following arguments are required: COMMAND (see taskmq --help)"),
        (["statsu"], "no 'statsu'; did you mean 'status'? (one of: worker,"),
        (["dlq", "lists"], "no 'lists'; did you mean 'list'? (one of: list, show, replay, purge)"),
        (["worker", "--pol", "x", "--nothing"], "unrecognized arguments: --pol x --nothing"),
        (["worker", "-c", "many"], "argument -c/--concurrency: invalid int value: 'many'"),
        (["worker", "-Q", "a,,b"], "wants names such as email,default, got 'a,,b'"),
        (["worker", "--log-level", "loud"], "no 'loud' (one of: debug, info,"),
        (["status", "--watch", "soon"], "wants a number of seconds, got 'soon'"),
        (["call"], "the following arguments are required: TASK (see taskmq call --help)"),
        (["purge"], "the following arguments are required: -q/--queue"),
        (["dlq", "list", "--limit", "0"], "wants a number from 1, got '0'"),
    ],
)
def test_an_error_of_usage_is_one_line(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("taskmq: error: ")
    assert message in err


def test_options_of_the_processes_pool() -> None:
    given = ["--max-memory-per-child=300M", "--autoscale=2,8", "--max-jobs-per-child=100"]
    arguments = build_parser().parse_args(["worker", *given, "--start-method", "spawn"])
    assert arguments.max_memory_per_child == 300 * 1024 * 1024
    assert (arguments.autoscale, arguments.max_jobs_per_child) == ((2, 8), 100)
    assert arguments.start_method == "spawn"


@pytest.mark.parametrize(
    ("option", "text", "wants"),
    [
        ("--max-memory-per-child", "much", "a size such as 300M or 2G"),
        ("--max-memory-per-child", "0", "a size such as 300M or 2G"),
        ("--autoscale", "8", "two numbers such as 2,8"),
    ],
)
def test_wrong_options_of_the_processes_pool(
    option: str, text: str, wants: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["worker", option, text])
    assert wants in capsys.readouterr().err
