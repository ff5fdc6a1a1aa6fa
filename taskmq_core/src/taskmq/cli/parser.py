"""The argument tree: every command, its options, and examples of it."""

from __future__ import annotations

import argparse
import importlib
import platform
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NoReturn

from taskmq import __version__
from taskmq.checks import nearest
from taskmq.logs import LEVELS
from taskmq.worker.pulse import STUCK_AFTER

from .exits import Exit
from .workflow_options import add_workflow_commands

__all__ = ["build_parser"]

CODES = """Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 store unavailable, 4 store
damaged, 5 store full, 6 no such job, task, schedule or workflow, 7 not finished in time, 8 job
refused."""


class Parser(argparse.ArgumentParser):
    """An error of usage is one line as well, and an option is written out."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        self.exit(Exit.USAGE, f"taskmq: error: {message} (see {self.prog} --help)\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = action.choices
        if choices is not None and value not in choices:
            known = [str(choice) for choice in choices]
            text = f"no {value!r}{nearest(str(value), known)} (one of: {', '.join(known)})"
            raise argparse.ArgumentError(action, text)


class Version(argparse.Action):
    """Says what runs here. SQLite is loaded only for that."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        sqlite = importlib.import_module("sqlite3").sqlite_version
        versions = f"Python {platform.python_version()}, SQLite {sqlite}"
        print(f"taskmq {__version__} ({versions})")
        parser.exit()


class Command:
    """The function of a command, by its module here and its name. It is imported when it is called:
    a worker keeps what it has imported as long as it lives, and needs none of the others."""

    def __init__(self, path: str) -> None:
        self.module, _, self.name = path.partition(".")

    def function(self) -> Callable[[argparse.Namespace], int]:
        module = importlib.import_module(f"{__package__}.{self.module}")
        found: Callable[[argparse.Namespace], int] = getattr(module, self.name)
        return found

    def __call__(self, arguments: argparse.Namespace) -> int:
        return self.function()(arguments)


def build_parser(words: Collection[str] | None = None) -> argparse.ArgumentParser:
    """The whole tree; each command sets ``command``, a function of the parsed arguments.

    With the words of a command line, groups of commands that it does not name have nothing below
    them: a worker starts some milliseconds sooner."""
    common = _common()
    parser = Parser(
        prog="taskmq",
        description="Run and look after the jobs of a taskmq app.",
        epilog="Start here: taskmq dev --app tasks:app\n\n" + CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[_common(top=True)],
    )
    parser.add_argument(
        "--version", action=Version, nargs=0, help="show program's version number and exit"
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)

    def add(to: Any, name: str, command: str, text: str, *examples: str) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = to.add_parser(
            name,
            help=text,
            description=text,
            epilog="Examples:\n" + "\n".join(f"  {example}" for example in examples),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            parents=[common],
        )
        made.set_defaults(command=Command(command))
        return made

    _worker_arguments(
        add(
            commands,
            "worker",
            "run.worker",
            "run a worker",
            "taskmq worker --app tasks:app",
            "taskmq worker -Q email,default -c 8",
            "taskmq worker --until-idle --events stdout",
        ),
        log_level="info",
    )
    _worker_arguments(
        add(
            commands, "dev", "run.dev", "run a worker for development", "taskmq dev --app tasks:app"
        ),
        log_level="debug",
    )
    _beat_arguments(
        add(
            commands,
            "beat",
            "beat.beat",
            "run a scheduler alone, without a worker",
            "taskmq beat --app tasks:app",
            "taskmq beat --transport postgresql://app@db/jobs",
        )
    )
    _health_arguments(
        add(
            commands,
            "health",
            "probe.health",
            "ask a worker whether it lives, or takes jobs",
            "taskmq health --socket /run/taskmq.sock",
            "taskmq health --socket /run/taskmq.sock --ready",
        )
    )
    _status_arguments(
        add(
            commands,
            "status",
            "status.status",
            "show workers, queues and parked jobs",
            "taskmq status",
            "taskmq status --transport sqlite:///jobs.db --json",
            "taskmq status --by-priority --watch 2",
        )
    )
    _call_arguments(
        add(
            commands,
            "call",
            "call.call",
            "submit one job",
            """taskmq call tasks.add --args '[2, 3]' --wait""",
            """taskmq call tasks.send --kwargs '{"to": "a@b.com"}' --eta 60 --key order-42""",
            """taskmq call tasks.add --args '[2, 3]' --local""",
        )
    )
    inspect = add(
        commands,
        "inspect",
        "admin.inspect",
        "show one job, and why it is not running",
        "taskmq inspect 01HF7YAT00P1RHENHKJCXP1W2M",
    )
    inspect.add_argument("job", metavar="JOB", help="the job's id")
    _json_argument(inspect)
    _control_arguments(commands, add)
    for name, (text, arguments) in GROUPS.items():
        group = commands.add_parser(name, help=text, description=text, parents=[common])
        if words is None or name in words:
            arguments(
                group.add_subparsers(metavar="ACTION", required=True, parser_class=Parser), add
            )
    purge = add(
        commands,
        "purge",
        "admin.purge",
        "delete the jobs that wait in a queue",
        "taskmq purge --queue email",
    )
    purge.add_argument("-q", "--queue", required=True, help="the queue")
    _yes_argument(purge)
    migrating = add(
        commands,
        "migrate-schema",
        "migrate_schema.migrate_schema",
        "make the tables of a store in a database, or bring them up to date",
        "taskmq migrate-schema --transport postgresql://app@db/jobs",
        "taskmq migrate-schema --check",
    )
    migrating.add_argument(
        "--check", action="store_true", help="only say what is to be done; exit code 1 if anything"
    )
    return parser


def _common(*, top: bool = False) -> Parser:
    """Options that may stand before or behind the command. Behind it they have no default, which
    would undo what stood before."""
    default: dict[str, Any] = {} if top else {"default": argparse.SUPPRESS}
    parser = Parser(add_help=False)
    group = parser.add_argument_group("which app")
    group.add_argument(
        "-A",
        "--app",
        metavar="MODULE:ATTR",
        help="the app, e.g. tasks:app (or TASKMQ_APP)",
        **default,
    )
    group.add_argument(
        "--transport",
        metavar="URL",
        help="a store without an app, e.g. sqlite:///jobs.db",
        **default,
    )
    group.add_argument(
        "--plugins",
        type=_names,
        metavar="MODULES",
        help="plugins to load first, e.g. mycompany.queues (or TASKMQ_PLUGINS)",
        **default,
    )
    group.add_argument(
        "--traceback", action="store_true", help="show where an error comes from", **default
    )
    return parser


def _worker_arguments(parser: argparse.ArgumentParser, *, log_level: str) -> None:
    parser.add_argument(
        "-Q", "--queues", type=_names, metavar="NAMES", help="queues to serve, e.g. email,default"
    )
    parser.add_argument("-c", "--concurrency", type=int, metavar="N", help="jobs at once")
    parser.add_argument(
        "-P", "--pool", metavar="POOL", help="solo, threads, processes, asyncio or plugin:NAME"
    )
    _children_arguments(parser)
    parser.add_argument("-n", "--name", help="the worker's name, for people")
    parser.add_argument(
        "--until-idle", "--once", action="store_true", help="end when nothing is left to do now"
    )
    parser.add_argument(
        "--no-scheduler", action="store_true", help="enqueue nothing that schedules say"
    )
    parser.add_argument(
        "--events",
        metavar="WHERE",
        help="write events as JSON lines to stdout or stderr, or tell plugin:NAME; or none",
    )
    parser.add_argument("--log-level", choices=LEVELS, default=log_level, metavar="LEVEL")
    parser.add_argument("--log-format", choices=("json", "pretty"), metavar="FORMAT")
    parser.add_argument(
        "--shutdown-timeout", type=float, metavar="SECONDS", help="what runs has so long to end"
    )
    parser.add_argument(
        "--health-socket", type=Path, metavar="PATH", help="answer probes there: taskmq health"
    )
    parser.add_argument(
        "--stuck-after",
        type=_seconds,
        default=STUCK_AFTER,
        metavar="SECONDS",
        help="not live if a step of the worker's loop takes longer",
    )
    parser.add_argument(
        "--lease", type=float, metavar="SECONDS", help="a silent worker keeps its jobs for so long"
    )


def _beat_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--once", action="store_true", help="enqueue what is due now, and end")
    parser.add_argument("--log-level", choices=LEVELS, default="info", metavar="LEVEL")
    parser.add_argument("--log-format", choices=("json", "pretty"), metavar="FORMAT")


def _children_arguments(parser: argparse.ArgumentParser) -> None:
    """Of the processes pool."""
    parser.add_argument(
        "--start-method",
        choices=("fork", "forkserver", "spawn"),
        help="how child processes are made (default: fork where it is safe)",
    )
    parser.add_argument(
        "--max-jobs-per-child", type=_count, metavar="N", help="replace a child after N jobs"
    )
    parser.add_argument(
        "--max-memory-per-child",
        type=_size,
        metavar="SIZE",
        help="replace a child that has more memory, e.g. 300M or 2G",
    )
    parser.add_argument(
        "--autoscale",
        type=_range,
        metavar="MIN,MAX",
        help="least and most child processes, by the load",
    )


def _health_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--socket", type=Path, required=True, metavar="PATH", help="its --health-socket"
    )
    parser.add_argument("--ready", action="store_true", help="whether it takes jobs")
    parser.add_argument("--timeout", type=_seconds, default=1.0, metavar="SECONDS")


def _status_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--by-priority", action="store_true", help="count ready jobs by priority")
    parser.add_argument(
        "--watch", type=_seconds, metavar="SECONDS", help="again and again, until Ctrl-C"
    )
    _json_argument(parser)


def _call_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK", help="the task's name, e.g. tasks.add")
    parser.add_argument("--args", metavar="JSON", help="positional arguments, a JSON list")
    parser.add_argument("--kwargs", metavar="JSON", help="keyword arguments, a JSON object")
    parser.add_argument("-q", "--queue", help="instead of the task's own queue")
    parser.add_argument("--eta", metavar="WHEN", help="not before: seconds or an ISO instant")
    parser.add_argument("--expires", metavar="WHEN", help="not after: seconds or an ISO instant")
    parser.add_argument("--priority", type=int, metavar="N", help="-9 to 9, higher is sooner")
    parser.add_argument("--key", help="idempotency key: at most one job for it")
    parser.add_argument("--wait", action="store_true", help="wait for the result and print it")
    parser.add_argument(
        "--timeout", type=_seconds, metavar="SECONDS", help="wait, but no longer than this"
    )
    parser.add_argument(
        "--local", action="store_true", help="run it in this process; store nothing"
    )


def _control_arguments(commands: Any, add: Callable[..., argparse.ArgumentParser]) -> None:
    pause = add(
        commands,
        "pause",
        "control.pause",
        "let no worker take jobs from a queue",
        "taskmq pause email --reason 'the provider is down'",
    )
    pause.add_argument("queue", metavar="QUEUE")
    pause.add_argument("--reason", default="", help="why, for people")
    resume = add(commands, "resume", "control.resume", "end a pause", "taskmq resume email")
    resume.add_argument("queue", metavar="QUEUE")
    revoke = add(
        commands,
        "revoke",
        "control.revoke",
        "take jobs out, and ask those that run to stop",
        "taskmq revoke 01HF7YAT00P1RHENHKJCXP1W2M",
        "taskmq revoke --task shop.send --queue email",
    )
    revoke.add_argument("jobs", metavar="ID", nargs="*")
    _selection(revoke)
    _further_selection(revoke)
    revoke.add_argument("--terminate", action="store_true", help="end by force what runs")
    _yes_argument(revoke)
    revoked = add(
        commands,
        "revoked",
        "control.revoked",
        "list what was revoked, by whom and when",
        "taskmq revoked --task shop.send",
    )
    _selection(revoked)
    _further_selection(revoked)
    revoked.add_argument("--limit", type=_count, default=50, metavar="N")
    _json_argument(revoked)


def _payloads_arguments(actions: Any, add: Callable[..., argparse.ArgumentParser]) -> None:
    collect = add(
        actions,
        "gc",
        "payloads.collect",
        "delete payloads of jobs that the store does not know any more",
        "taskmq payloads gc --app tasks:app --dry-run",
        "taskmq payloads gc --app tasks:app --yes",
    )
    collect.add_argument(
        "--older-than",
        type=_seconds,
        default=3600.0,
        metavar="SECONDS",
        help="leave alone what was written since: it may not have been submitted yet (3600)",
    )
    collect.add_argument(
        "--limit", type=_count, default=10_000, metavar="N", help="at most so many"
    )
    collect.add_argument("--dry-run", action="store_true", help="delete nothing, only count")
    _json_argument(collect)
    _yes_argument(collect)


def _spool_arguments(actions: Any, add: Callable[..., argparse.ArgumentParser]) -> None:
    listing = add(
        actions,
        "list",
        "spool.list_spooled",
        "count what waits, and list what the store refused",
        "taskmq spool list --app tasks:app",
    )
    _json_argument(listing)
    flush = add(
        actions,
        "flush",
        "spool.flush_spool",
        "store everything that waits, now; exit code 1 if something is left",
        "taskmq spool flush --app tasks:app",
        "taskmq spool flush --app tasks:app --refused",
    )
    flush.add_argument("--refused", action="store_true", help="try what was refused once more")
    _json_argument(flush)
    discard = add(
        actions,
        "discard",
        "spool.discard_spooled",
        "delete jobs that were refused, or are not wanted any more",
        "taskmq spool discard --app tasks:app 01J8ZQ5V7K3N2M4P6R8T0W1X2Y",
    )
    discard.add_argument("ids", nargs="+", metavar="ID", help="ids of the jobs")
    _yes_argument(discard)


def _schedule_arguments(actions: Any, add: Callable[..., argparse.ArgumentParser]) -> None:
    from .schedule_options import add_schedule_commands  # with the rules of schedules

    add_schedule_commands(actions, add, seconds=_seconds, count=_count)


def _workflow_arguments(actions: Any, add: Callable[..., argparse.ArgumentParser]) -> None:
    add_workflow_commands(actions, add, seconds=_seconds, count=_count)


def _dlq_arguments(actions: Any, add: Callable[..., argparse.ArgumentParser]) -> None:
    listing = add(
        actions, "list", "dead.list_letters", "list dead letters", "taskmq dlq list --queue email"
    )
    _selection(listing)
    listing.add_argument("--limit", type=_count, default=50, metavar="N")
    _json_argument(listing)
    show = add(
        actions,
        "show",
        "dead.show",
        "show one dead letter with its traceback",
        "taskmq dlq show 01HF7YAT00P1RHENHKJCXP1W2M",
    )
    show.add_argument("job", metavar="ID")
    _json_argument(show)
    replay = add(
        actions,
        "replay",
        "dead.replay",
        "queue dead letters again, changed if need be",
        "taskmq dlq replay 01HF7YAT00P1RHENHKJCXP1W2M",
        """taskmq dlq replay 01HF7YAT00P1RHENHKJCXP1W2M --args '["right@b.com"]'""",
        "taskmq dlq replay --all --queue email",
    )
    replay.add_argument("jobs", metavar="ID", nargs="*")
    replay.add_argument("--all", action="store_true", help="every dead letter (of --queue, --task)")
    replay.add_argument("-q", "--queue", help="with an ID: move it there; with --all: only of this")
    replay.add_argument("--task", help="with --all: only of this task")
    replay.add_argument("--args", metavar="JSON", help="new positional arguments")
    replay.add_argument("--kwargs", metavar="JSON", help="new keyword arguments")
    purge = add(
        actions,
        "purge",
        "dead.purge_letters",
        "delete dead letters for good",
        "taskmq dlq purge --queue email",
    )
    _selection(purge)
    purge.add_argument("--all", action="store_true", help="every dead letter")
    _yes_argument(purge)


def _selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", "--queue", help="only of this queue")
    parser.add_argument("--task", help="only of this task")


def _further_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key", help="only with this idempotency key")
    parser.add_argument("--workflow", metavar="ID", help="only of this workflow")


def _json_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")


def _yes_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"wants names such as email,default, got {text!r}")
    return names


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise argparse.ArgumentTypeError(f"wants a number of seconds, got {text!r}")
    return seconds


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)(i?B)?", text, re.IGNORECASE)
    if not match or not int(match[1]):
        raise argparse.ArgumentTypeError(f"wants a size such as 300M or 2G, got {text!r}")
    unit = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}[match[2].upper()]
    return int(match[1]) * unit


def _range(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)[,-](\d+)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"wants two numbers such as 2,8, got {text!r}")
    return int(match[1]), int(match[2])


def _count(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"wants a number from 1, got {text!r}")
    return int(text)


GROUPS: dict[str, tuple[str, Callable[[Any, Callable[..., argparse.ArgumentParser]], None]]] = {
    "dlq": ("list, show, replay and purge dead letters", _dlq_arguments),
    "schedule": ("list, add, pause, resume and run schedules", _schedule_arguments),
    "workflow": ("submit, list, show, draw, cancel and retry workflows", _workflow_arguments),
    "payloads": ("look after the payload store", _payloads_arguments),
    "spool": ("look after jobs that wait on this host for their store", _spool_arguments),
}
"""Of commands, each with what it is for and what adds those below it."""
