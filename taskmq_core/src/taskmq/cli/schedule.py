"""Commands about schedules: ``schedule list``, ``show``, ``next``, ``add``, ``remove``, …"""

from __future__ import annotations

import argparse
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec

from taskmq import App, ConfigError
from taskmq.diagnose import in_words
from taskmq.schedule import At, Cron, Every, Rule, Schedule
from taskmq.scheduler import ScheduleInfo, Schedules

from .apps import open_app, open_store
from .exits import CommandFailed, Exit
from .output import Printer
from .values import counted, parse_instant, parse_json, shorten

__all__ = [
    "add_schedule",
    "list_schedules",
    "next_runs",
    "pause_schedules",
    "remove_schedule",
    "resume_schedules",
    "run_schedule",
    "show_schedule",
]

OPTIONS = ("jitter", "misfire", "grace", "most", "overlap")
FORMAT = "%Y-%m-%d %H:%M:%S %Z"


def list_schedules(arguments: argparse.Namespace) -> int:
    """One line for each schedule."""
    app = open_store(arguments)
    printer, now = Printer(timezone=app.config.timezone), app.clock.now()
    infos = Schedules(app).all()
    if arguments.json:
        printer.json([_document(info) for info in infos])
        return Exit.OK
    rows = [
        (
            info.name,
            "" if info.entry is None else info.entry.schedule.task,
            "" if info.entry is None else str(info.entry.schedule.rule),
            "" if info.next_run is None else _in_zone(info.next_run),
            _last(info, now),
            _state(info, printer, now),
        )
        for info in infos
    ]
    printer.table(("NAME", "TASK", "WHEN", "NEXT", "LAST", "STATE"), rows)
    if any(info.overdue for info in infos):
        printer.line("  overdue: is there a scheduler? taskmq worker and taskmq beat run one")
    return Exit.OK


def show_schedule(arguments: argparse.Namespace) -> int:
    """All that is known of one."""
    app = open_store(arguments)
    info = Schedules(app).get(arguments.name)
    printer, now = Printer(timezone=app.config.timezone), app.clock.now()
    if arguments.json:
        printer.json(_document(info))
        return Exit.OK
    printer.heading(info.name)
    printer.facts(_facts(info, printer, now))
    if info.journal is not None and info.journal.runs:
        printer.line()
        printer.heading("Last runs")
        rows = [(printer.instant(run.due), run.job_id) for run in info.journal.runs[::-1]]
        printer.table(("DUE", "JOB"), rows)
    return Exit.OK


def next_runs(arguments: argparse.Namespace) -> int:
    """The next instants of a schedule, or of a rule that is given."""
    count: int = arguments.count
    if arguments.cron is not None:
        if arguments.name is not None:
            raise ConfigError("name a schedule or pass --cron, not both")
        instants = _instants(Cron(arguments.cron, arguments.tz), count)
    elif arguments.name is None:
        raise ConfigError("which schedule? name one, or pass --cron EXPRESSION")
    else:
        instants = Schedules(open_store(arguments)).upcoming(arguments.name, count)
    printer = Printer()
    if arguments.json:
        printer.json([instant.isoformat() for instant in instants])
        return Exit.OK
    for instant in instants:
        in_utc = instant.astimezone(timezone.utc)
        more = "" if instant.utcoffset() == timedelta() else f"  ({_in_zone(in_utc)})"
        printer.line(f"{instant.strftime('%a')} {_in_zone(instant)}{more}")
    if not instants:
        printer.line("never")
    return Exit.OK


def add_schedule(arguments: argparse.Namespace) -> int:
    """Store a schedule, whose task has to be the app's."""
    app = open_app(arguments)
    made = _schedule(arguments, app)
    Schedules(app).add(made, replace=arguments.replace)
    following = Schedules(app).get(made.name).next_run
    if following is not None:
        told = f"next run {_in_zone(following)}"
    else:
        told = "due at once" if isinstance(made.rule, At) else "never due"
    Printer().line(f"schedule {made.name!r} is stored: {told}")
    return Exit.OK


def remove_schedule(arguments: argparse.Namespace) -> int:
    """Take out one that was added."""
    Schedules(open_store(arguments)).remove(arguments.name)
    Printer().line(f"schedule {arguments.name!r} is taken out")
    return Exit.OK


def pause_schedules(arguments: argparse.Namespace) -> int:
    """Enqueue nothing of these."""
    app = open_store(arguments)
    schedules, printer = Schedules(app), Printer()
    for name in arguments.names:
        if schedules.pause(name):
            printer.line(f"schedule {name!r} is paused; to go on: taskmq schedule resume {name}")
            continue
        entry = schedules.get(name).entry
        if entry is not None and entry.paused_at is not None:
            ago = in_words(app.clock.now() - entry.paused_at)
            printer.line(f"schedule {name!r} was paused by {entry.paused_by} {ago} ago")
    return Exit.OK


def resume_schedules(arguments: argparse.Namespace) -> int:
    """End pauses, and let those try again that had disabled themselves."""
    schedules, printer = Schedules(open_store(arguments)), Printer()
    for name in arguments.names:
        if not schedules.resume(name):
            raise CommandFailed(f"schedule {name!r} is not paused")
        printer.line(f"schedule {name!r} goes on")
    return Exit.OK


def run_schedule(arguments: argparse.Namespace) -> int:
    """Enqueue a run now."""
    Printer().line(Schedules(open_store(arguments)).run(arguments.name))
    return Exit.OK


# -- reading what was typed ------------------------------------------------------------------------


def _schedule(arguments: argparse.Namespace, app: App) -> Schedule:
    options = parse_json("--options", arguments.options, dict) or {}
    for name in ("queue", "priority"):
        if getattr(arguments, name) is not None:
            options[name] = getattr(arguments, name)
    given = {name: getattr(arguments, name) for name in OPTIONS}
    now = app.clock.now()
    return Schedule(
        name=arguments.name,
        task=arguments.task,
        rule=_rule(arguments, now),
        args=tuple(parse_json("--args", arguments.args, list) or ()),
        kwargs=parse_json("--kwargs", arguments.kwargs, dict) or {},
        options=options,
        start=_instant("--start", arguments.start, now),
        end=_instant("--end", arguments.end, now),
        **{name: value for name, value in given.items() if value is not None},
    )


def _rule(arguments: argparse.Namespace, now: float) -> Rule:
    if arguments.cron is not None:
        return Cron(arguments.cron, arguments.tz or "UTC")
    if arguments.tz is not None:
        raise ConfigError("--tz goes with --cron")
    if arguments.every is not None:
        return Every(arguments.every)
    instant = _instant("--at", arguments.at, now)
    if instant is None:
        raise ConfigError("when? pass --cron EXPRESSION, --every SECONDS or --at WHEN")
    return At(instant)


def _instant(option: str, text: str | None, now: float) -> datetime | None:
    when = parse_instant(option, text)
    if when is None or isinstance(when, datetime):
        return when
    return datetime.fromtimestamp(now + when, timezone.utc)


def _instants(rule: Rule, count: int) -> list[datetime]:
    found: list[datetime] = []
    instant: datetime | None = datetime.now(timezone.utc)
    while len(found) < count and instant is not None:
        instant = rule.next_after(instant)
        if instant is not None:
            found.append(instant)
    return found


# -- what is shown ---------------------------------------------------------------------------------


def _in_zone(instant: datetime) -> str:
    return instant.strftime(FORMAT)


def _last(info: ScheduleInfo, now: float) -> str:
    if info.journal is None or not info.journal.runs:
        return ""
    return f"{in_words(now - info.journal.runs[-1].due)} ago"


def _state(info: ScheduleInfo, printer: Printer, now: float) -> str:
    entry = info.entry
    if entry is None or info.broken:
        return printer.style("red", f"BROKEN: {shorten(info.broken)}")
    if entry.disabled:
        return printer.style("red", f"DISABLED: {shorten(entry.disabled)}")
    if entry.paused_at is not None:
        ago = in_words(now - entry.paused_at)
        return printer.style("yellow", f"paused by {entry.paused_by} {ago} ago")
    if info.overdue is not None:
        return printer.style("red", f"OVERDUE for {in_words(now - info.overdue.timestamp())}")
    return "" if info.next_run is not None else "over"


def _facts(info: ScheduleInfo, printer: Printer, now: float) -> dict[str, object]:
    entry, journal = info.entry, info.journal
    if entry is None:
        return {"state": _state(info, printer, now)}
    schedule = entry.schedule
    author = entry.program or "a program without a name"
    how = f"defined by {author}" if entry.origin == "code" else f"added by {entry.by}"
    return {
        "task": schedule.task,
        "when": str(schedule.rule),
        "next": "" if info.next_run is None else _in_zone(info.next_run),
        "state": _state(info, printer, now),
        "args": _json(schedule.args) if schedule.args else "",
        "kwargs": _json(schedule.kwargs) if schedule.kwargs else "",
        "options": _json(schedule.options) if schedule.options else "",
        "queue": "" if entry.template is None else entry.template.envelope.queue,
        "start": "" if schedule.start is None else _in_zone(schedule.start),
        "end": "" if schedule.end is None else _in_zone(schedule.end),
        "jitter": f"{schedule.jitter:g} s" if schedule.jitter else "",
        "misfire": schedule.misfire,
        "grace": "" if schedule.grace is None else f"{schedule.grace:g} s",
        "overlap": schedule.overlap,
        "left out": "" if not journal or not journal.skipped else counted(journal.skipped, "run"),
        "origin": f"{how}, {printer.instant(entry.at)}",
    }


def _json(value: object) -> str:
    return shorten(msgspec.json.encode(value).decode())


def _document(info: ScheduleInfo) -> dict[str, Any]:
    entry, journal = info.entry, info.journal
    document: dict[str, Any] = {"name": info.name, "broken": info.broken}
    if entry is not None:
        rule = entry.schedule.rule
        document |= msgspec.to_builtins(msgspec.structs.asdict(entry.schedule))
        document |= {
            "rule": {"type": type(rule).__name__.lower(), **msgspec.structs.asdict(rule)},
            "origin": entry.origin,
            "program": entry.program,
            "by": entry.by,
            "at": entry.at,
            "paused_by": entry.paused_by,
            "paused_at": entry.paused_at,
            "disabled": entry.disabled,
        }
    runs = () if journal is None else journal.runs
    document |= {
        "next_run": info.next_run,
        "overdue": info.overdue,
        "runs": [msgspec.structs.asdict(run) for run in runs],
        "skipped": 0 if journal is None else journal.skipped,
    }
    return document
