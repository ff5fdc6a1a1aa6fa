"""Makes the pages of docs/explanation that list runs around changes of the clock.

    python -m tests.integration.schedule_pages             # schedules-dst.md
    python -m tests.integration.schedule_pages --celery    # and schedules-celery.md

A real Celery is asked for the second. It is installed beside the environment, once, into .cache:
in the environment itself, ``celery`` is the shim's.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

from tests.property.schedule_oracle import ZONES, Change, around, changes, expression, kinds_of

from taskmq.schedule import Cron

TOP = Path(__file__).parents[2]
PAGES = TOP / "docs/explanation"
HERE = Path(__file__).parent
ORACLE = HERE.parent / "property/schedule_celery.py"
CELERY = "5.7.0"
UTC = timezone.utc
YEAR = 2026
NEAR = timedelta(hours=2)
STEADY = ("UTC", "Asia/Shanghai")
NONE = "none"
Case = tuple[Change, str, str]
"""A change, a kind of expression, and one of that kind."""


class NoCelery(Exception):
    """It cannot be installed here."""


def cases() -> list[Case]:
    """What the pages show."""
    return [
        (change, kind, text)
        for zone in ZONES
        for change in changes(zone, YEAR, YEAR)
        for kind, text in kinds_of(change)
        if kind != "midnight"
    ]


def engine_runs(zone: str, text: str, begin: datetime, end: datetime) -> list[datetime]:
    """Of the engine, in UTC."""
    cron, found = Cron(text, zone), []
    instant = cron.next_after(begin - timedelta(microseconds=1))
    while instant is not None and instant < end:
        found.append(instant.astimezone(UTC))
        instant = cron.next_after(instant)
    return found


def runs_near(change: Change, text: str) -> list[datetime]:
    """The engine's, within two hours of a change."""
    return engine_runs(change.zone, text, change.at - NEAR, change.at + NEAR)


def walked_near(change: Change, text: str) -> list[datetime]:
    """The same from a walk through every minute."""
    found = around(change).runs(expression(text))
    return [at for at in found if change.at - NEAR <= at < change.at + NEAR]


# -- a real Celery ---------------------------------------------------------------------------------


def celery_folder() -> Path:
    """Where it is; installed if need be. Raises `NoCelery`."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = TOP / ".cache" / f"celery-{CELERY}-python{version}"
    folder.parent.mkdir(exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade"]
            command = [*pip, "--target", str(folder), f"celery=={CELERY}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            if done.returncode:
                raise NoCelery(done.stderr.strip().splitlines()[-1:])
            (folder / "complete").touch()
    return folder


def celery_runs(wanted: Sequence[tuple[str, str, datetime, datetime]]) -> list[list[datetime]]:
    """Of Celery's beat, in UTC, to the second. Raises `NoCelery`."""
    asked = [[zone, text, a.timestamp(), b.timestamp()] for zone, text, a, b in wanted]
    run = subprocess.run(
        [sys.executable, str(ORACLE)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(celery_folder())},
        timeout=300,
    )
    if run.returncode:
        raise RuntimeError(run.stderr)
    return [
        [datetime.fromtimestamp(round(at), UTC) for at in each] for each in json.loads(run.stdout)
    ]


def celery_near(wanted: Sequence[Case]) -> list[list[datetime]]:
    """Within two hours of each change. Beat is there for half a day before."""
    day = timedelta(hours=14)
    asked = [(c.zone, text, c.at - day, c.at + NEAR) for c, _, text in wanted]
    return [
        [at for at in found if change.at - NEAR <= at < change.at + NEAR]
        for (change, *_), found in zip(wanted, celery_runs(asked), strict=True)
    ]


# -- the pages -------------------------------------------------------------------------------------


def title(change: Change) -> str:
    first, last = change.walls
    day, zone = first.strftime("%Y-%m-%d"), change.zone
    span = f"{first:%H:%M} to {last:%H:%M}"
    if change.is_gap:
        return f"{zone}, {day}: {span} is left out"
    return f"{zone}, {day}: {span} comes twice"


def shown(instants: Sequence[datetime], zone: str) -> str:
    known = ZoneInfo(zone)
    texts = [f"{at.astimezone(known):%H:%M%z}" for at in instants]
    return " ".join(f"{text[:-2]}:{text[-2:]}" for text in texts) or NONE


def dst_page() -> str:
    """Every kind of expression at every change of a year."""
    parts = [(HERE / "schedule_dst_head.md").read_text()]
    last: Change | None = None
    for change, kind, text in cases():
        if change is not last:
            parts.append(f"\n## {title(change)}\n\n| kind | expression | runs |\n|---|---|---|\n")
            last = change
        parts.append(f"| {kind} | `{text}` | {shown(runs_near(change, text), change.zone)} |\n")
    begin = datetime(YEAR, 3, 29, tzinfo=UTC)
    for zone in STEADY:
        parts.append(f"\n## {zone}: clocks do not change\n\n| expression | runs |\n|---|---|\n")
        for text in ("30 2 * * *", "0 */2 * * *", "*/20 2 * * *"):
            runs = engine_runs(zone, text, begin, begin + timedelta(hours=6))
            parts.append(f"| `{text}` | {shown(runs, zone)} |\n")
    return "".join(parts)


def celery_page() -> str:
    """Where the two differ. Raises `NoCelery`."""
    parts = [(HERE / "schedule_celery_head.md").read_text()]
    wanted = cases()
    for is_gap, heading in ((True, "Where time is left out"), (False, "Where time comes twice")):
        parts.append(f"\n## {heading}\n\n| zone | expression | only taskmq | only Celery |\n")
        parts.append("|---|---|---|---|\n")
        for (change, _, text), theirs in zip(wanted, celery_near(wanted), strict=True):
            ours = runs_near(change, text)
            if change.is_gap is not is_gap or ours == theirs:
                continue
            only_ours = [at for at in ours if at not in theirs]
            only_theirs = [at for at in theirs if at not in ours]
            cells = (
                change.zone,
                f"`{text}`",
                *(shown(x, change.zone) for x in (only_ours, only_theirs)),
            )
            parts.append(f"| {' | '.join(cells)} |\n")
    return "".join(parts)


def main(arguments: Sequence[str]) -> None:
    pages = {"schedules-dst.md": dst_page}
    if "--celery" in arguments:
        pages["schedules-celery.md"] = celery_page
    for name, page in pages.items():
        (PAGES / name).write_text(page())
        print(f"wrote docs/explanation/{name}")


if __name__ == "__main__":
    main(sys.argv[1:])
