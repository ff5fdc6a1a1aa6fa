"""The options of ``taskmq schedule``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, get_args

from taskmq.schedule import Misfire, Overlap

__all__ = ["add_schedule_commands"]


def add_schedule_commands(
    actions: Any,
    add: Callable[..., argparse.ArgumentParser],
    seconds: Callable[[str], float],
    count: Callable[[str], int],
) -> None:
    """``add`` makes a command, the others read numbers that were typed."""
    listing = add(
        actions, "list", "schedule.list_schedules", "list schedules", "taskmq schedule list"
    )
    show = add(
        actions,
        "show",
        "schedule.show_schedule",
        "show one schedule, and its last runs",
        "taskmq schedule show nightly",
    )
    show.add_argument("name", metavar="NAME")
    upcoming = add(
        actions,
        "next",
        "schedule.next_runs",
        "show the next instants of a schedule, or of a cron expression",
        "taskmq schedule next nightly -n 5",
        "taskmq schedule next --cron '30 2 * * *' --tz Europe/Paris",
    )
    upcoming.add_argument("name", metavar="NAME", nargs="?")
    upcoming.add_argument("-n", "--count", type=count, default=10, metavar="N", help="how many")
    upcoming.add_argument("--cron", metavar="EXPRESSION", help="instead of a schedule")
    upcoming.add_argument("--tz", default="UTC", metavar="ZONE", help="of --cron (UTC)")
    for parser in (listing, show, upcoming):
        parser.add_argument("--json", action="store_true", help="print JSON, for scripts")
    _adding(actions, add, seconds, count)
    remove = add(
        actions,
        "remove",
        "schedule.remove_schedule",
        "take out a schedule that was added",
        "taskmq schedule remove nightly",
    )
    remove.add_argument("name", metavar="NAME")
    names: Sequence[tuple[str, str, str]] = (
        ("pause", "schedule.pause_schedules", "enqueue nothing of these"),
        ("resume", "schedule.resume_schedules", "end pauses; let those go on that were disabled"),
    )
    for name, command, text in names:
        parser = add(actions, name, command, text, f"taskmq schedule {name} nightly")
        parser.add_argument("names", metavar="NAME", nargs="+")
    run = add(
        actions,
        "run",
        "schedule.run_schedule",
        "enqueue a run now, and print the job's id",
        "taskmq schedule run nightly",
    )
    run.add_argument("name", metavar="NAME")


def _adding(
    actions: Any,
    add: Callable[..., argparse.ArgumentParser],
    seconds: Callable[[str], float],
    count: Callable[[str], int],
) -> None:
    adding = add(
        actions,
        "add",
        "schedule.add_schedule",
        "store a schedule that no program defines",
        "taskmq schedule add nightly shop.report --cron '0 2 * * *' --tz Europe/Paris",
        "taskmq schedule add tidy shop.clean_up --every 300 --overlap skip",
        "taskmq schedule add once shop.close --at 2030-01-31T09:00:00Z",
    )
    adding.add_argument("name", metavar="NAME")
    adding.add_argument("task", metavar="TASK", help="the task's name, e.g. tasks.add")
    when = adding.add_mutually_exclusive_group(required=True)
    when.add_argument("--cron", metavar="EXPRESSION", help="e.g. '30 2 * * mon-fri'")
    when.add_argument("--every", type=seconds, metavar="SECONDS", help="by elapsed time")
    when.add_argument("--at", metavar="WHEN", help="once: seconds from now or an ISO instant")
    adding.add_argument("--tz", metavar="ZONE", help="of --cron (UTC)")
    adding.add_argument("--args", metavar="JSON", help="positional arguments, a JSON list")
    adding.add_argument("--kwargs", metavar="JSON", help="keyword arguments, a JSON object")
    adding.add_argument("-q", "--queue", help="instead of the task's own queue")
    adding.add_argument("--priority", type=int, metavar="N", help="-9 to 9, higher is sooner")
    adding.add_argument("--options", metavar="JSON", help="what else submit takes")
    adding.add_argument("--start", metavar="WHEN", help="not due before")
    adding.add_argument("--end", metavar="WHEN", help="not due after")
    adding.add_argument(
        "--jitter", type=seconds, metavar="SECONDS", help="spread runs over so many seconds"
    )
    adding.add_argument(
        "--misfire",
        choices=get_args(Misfire),
        metavar="POLICY",
        help="what came too late: run_once (default), skip, run_all",
    )
    adding.add_argument(
        "--grace", type=seconds, metavar="SECONDS", help="later than this is too late"
    )
    adding.add_argument("--most", type=count, metavar="N", help="of run_all (100)")
    adding.add_argument(
        "--overlap",
        choices=get_args(Overlap),
        metavar="POLICY",
        help="while an earlier run has not ended: allow (default), skip, queue_one",
    )
    adding.add_argument(
        "--replace", action="store_true", help="instead of the one that has the name"
    )
