"""What every pool does at every end of an attempt, seen and written down.

``python -m tests.integration.pool_matrix`` runs a worker with each pool and writes
docs/explanation/pool-matrix.md; with ``--json`` it prints what it saw and the page instead.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE

from taskmq import App, Config, JobState, Result
from taskmq.records import JobFilter
from taskmq.transport import MAX_YIELDS, Release, Reservation

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/explanation/pool-matrix.md"
WORKER = HERE / "pool_matrix_worker.py"
SLOTS = 4
RUNNING_BLOCKS = JobFilter(states=(JobState.RUNNING,), task="blocks")
COLUMNS = {
    "`solo`": ("solo", "def"),
    "`threads`": ("threads", "def"),
    "`processes`": ("processes", "def"),
    "`asyncio`": ("asyncio", "async def"),
    "`asyncio`, `def`": ("asyncio", "def"),
}
TOPICS = {
    "It ends by itself": {
        "returns": "it returns",
        "result has no wire form": "what it returns has no wire form",
        "raises": "it raises, no `retry`",
        "raises, with retry": "it raises, `max_attempts=2`",
        "before_start raises": "`before_start` raises",
        "asks for a retry": "`raise ctx.retry()`, `max_attempts=2`",
        "rejects itself": "`raise RejectJob()`",
    },
    "It takes too long": {
        "timeout": "`timeout`, no `retry`; the task does not look",
        "timeout, with retry": "`timeout`, `max_attempts=2`",
        "hard_timeout, refused": "`hard_timeout`",
        "hard_timeout": '… with `unsupported_limits="warn"`',
        "hard_timeout, with retry": "… and `max_attempts=2`",
    },
    "The process that runs it is killed": {
        "killed once": "once",
        "killed too often": "as often as `max_deliveries` allows",
    },
    "It is revoked": {
        "revoked before": "before a worker took it",
        "revoked unstarted": "while it waits for a slot of its worker",
        "revoked while it runs": "while it runs; plain functions look",
        "terminated while it runs": "`terminate=True`, while it runs",
    },
    "It never starts": {
        "expired before": "`expires` is over",
        "unknown": "no worker has its task, until `park_ttl` is over",
        "async def": "its body is `async def`",
    },
}
KILLS = ("killed once", "killed too often")
BEFORE = ("revoked before", "expired before")
APART = (*KILLS, *BEFORE, "revoked unstarted", "unknown", "hard_timeout, refused", "async def")
REFUSED = "refused"
NONE = "–"  # noqa: RUF001  # a dash, as in the other pages


@dataclass
class Seen:
    """What became of one job. ``hooks`` are letters (see the legend), with a star where one ran in
    the worker's process though the job ran in another; ``told`` is what each hook was given."""

    hooks: list[str]
    told: list[str]
    events: list[str]
    end: str


Table = dict[str, dict[str, Seen]]
"""Column, then row."""


# -- looking ---------------------------------------------------------------------------------------


class Ground:
    """A store in a folder, and one worker after the other on it."""

    def __init__(self, pool: str, flavour: str, folder: Path) -> None:
        self.pool = pool
        self.flavour = flavour
        self.folder = folder
        self.command = [sys.executable, str(WORKER), pool, flavour, str(folder)]
        self.app = App(Config(transport=f"sqlite:///{folder}/jobs.db", events="none"))
        self.jobs: dict[str, Result[Any]] = {}
        self.pids: list[int] = []

    def submit(self, name: str, **options: Any) -> Result[Any]:
        # The worker's definitions decide: only what is in the envelope is repeated here.
        limits: dict[str, dict[str, Any]] = {
            "timeout": {"timeout": 0.1},
            "timeout, with retry": {"timeout": 0.1},
            "hard_timeout": {"hard_timeout": 0.1},
            "hard_timeout, with retry": {"hard_timeout": 0.1},
            "killed too often": {"max_deliveries": 1},
        }
        decorator: Any = self.app.task  # whose overloads want options one by one
        task = decorator(name=name, **limits.get(name, {}))(lambda: None)
        job: Result[Any] = task.submit(**options)
        self.jobs[name] = job
        return job

    def start(self) -> subprocess.Popen[str]:
        (self.folder / "ready").unlink(missing_ok=True)
        with (self.folder / "log").open("a") as log:
            worker = subprocess.Popen(self.command, stdout=log, stderr=log, text=True)
        self.pids.append(worker.pid)
        self.until((self.folder / "ready").exists)
        return worker

    def hooks_of(self, job: Result[Any]) -> list[tuple[str, str, int]]:
        lines = self.lines("hooks")
        return [(hook, told, pid) for id, hook, told, pid in lines if id == job.id]

    def lines(self, file: str) -> list[Any]:
        path = self.folder / file
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def until(self, true: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not true():
            if time.monotonic() > end:
                raise TimeoutError(f"{self.pool}: {(self.folder / 'log').read_text()}")
            time.sleep(0.01)

    def until_finished(self) -> None:
        for job in self.jobs.values():
            job.wait(PATIENCE)

    def stop(self, worker: subprocess.Popen[str]) -> None:
        worker.terminate()
        worker.wait(PATIENCE)

    # -- what was seen -------------------------------------------------------------------------

    def seen(self) -> dict[str, Seen]:
        found = {name: self._seen(job) for name, job in self.jobs.items()}
        hard, coroutine, _ = self.lines("refusals")[0]
        found["hard_timeout, refused"] = (
            Seen([], [], [], REFUSED) if hard else found["hard_timeout"]
        )
        found["async def"] = Seen([], [], [], REFUSED) if coroutine else found["returns"]
        if self.flavour == "def" and not coroutine:
            found["async def"] = Seen([], [], [], NONE)
        return found

    def _seen(self, job: Result[Any]) -> Seen:
        hooks = self.hooks_of(job)
        elsewhere = self.pool == "processes"
        names = [event["event"] for event in self.lines("events") if event.get("job_id") == job.id]
        # Whether one was given back before it started is a matter of load.
        events = [name.removeprefix("task.") for name in names if name != "task.released"]
        record = job.record
        assert record is not None
        reason = f": {record.dead_reason}" if record.dead_reason else ""
        return Seen(
            hooks=[
                f"{h}*" if elsewhere and h != "D" and p in self.pids else h for h, _, p in hooks
            ],
            told=[told for _, told, _ in hooks],
            events=[name for n, name in enumerate(events) if events[n - 1 : n] != [name]],
            end=f"{record.state}{reason}",
        )


def observe(pool: str, flavour: str, folder: Path) -> dict[str, Seen]:
    ground = Ground(pool, flavour, folder)
    ground.submit("expired before", expires=0.001)
    ground.submit("revoked before").revoke()
    ground.submit("unknown")
    for name in (each for topic in TOPICS.values() for each in topic):
        if name not in APART:
            ground.submit(name)
    worker = ground.start()
    for name in ("revoked while it runs", "terminated while it runs"):
        job = ground.jobs[name]
        ground.until(partial(ground.hooks_of, job))
        job.revoke(terminate=name.startswith("terminated"))
    ground.until_finished()
    ground.stop(worker)
    worker = revoke_unstarted(ground)
    for name in KILLS:
        job = ground.submit(name)
        if pool != "processes":
            worker.wait(PATIENCE)
            worker = ground.start()
        job.wait(PATIENCE)
    ground.stop(worker)
    seen = ground.seen()
    ground.app.close()
    return seen


def revoke_unstarted(ground: Ground) -> subprocess.Popen[str]:
    """Behind jobs that block every slot of a new worker. It would give that job back after 40 ms,
    had that not happened so often already."""
    job = ground.submit("revoked unstarted", priority=-1)
    wanted = Reservation(queues={"default": 1}, worker="", lease=60.0, limit=1)
    store = ground.app.transport
    for _ in range(MAX_YIELDS):
        store.settle([Release(delivery) for delivery in store.reserve(wanted)])
    ground.app.pause("default")
    worker = ground.start()
    while not block_every_slot(ground, job):
        ground.app.pause("default")
        unblock(ground)
    job.revoke()
    if ground.pool != "solo":  # whose worker is inside a job
        job.wait(PATIENCE)
    unblock(ground)
    job.wait(PATIENCE)
    return worker


def block_every_slot(ground: Ground, job: Result[Any]) -> bool:
    """Whether the worker has fetched that job with them, behind them."""
    quick = ground.app.task(name="quick", priority=9)(lambda: None)
    quick.submit_many([()] * 300)  # so that the worker fetches many at once
    blocks = ground.app.task(name="blocks")(lambda: None).submit_many([()] * SLOTS)
    ground.app.resume("default")
    ground.until(lambda: any(map(ground.hooks_of, blocks)))
    end = time.monotonic() + 2
    while job.state is JobState.QUEUED and time.monotonic() < end:
        time.sleep(0.01)
    return job.state is JobState.RUNNING


def unblock(ground: Ground) -> None:
    ground.app.revoke(task="blocks")
    ground.until(lambda: not ground.app.transport.find(RUNNING_BLOCKS))


def observe_all(folder: Path) -> Table:
    def one(item: tuple[int, tuple[str, str]]) -> dict[str, Seen]:
        place = folder / str(item[0])
        place.mkdir()
        return observe(*item[1], place)

    with ThreadPoolExecutor(len(COLUMNS)) as threads:
        return dict(zip(COLUMNS, threads.map(one, enumerate(COLUMNS.values())), strict=True))


# -- writing ---------------------------------------------------------------------------------------


def attempts(hooks: Sequence[str]) -> list[list[str]]:
    """Hooks by attempt: one begins with each ``B``."""
    found: list[list[str]] = []
    for hook in hooks:
        if hook == "B" or not found:
            found.append([])
        found[-1].append(hook)
    return found


def cell(seen: Seen) -> str:
    if seen.end in (REFUSED, NONE):
        return seen.end
    state = seen.end.partition(":")[0]
    return " ".join([*(f"`{' '.join(each)}`" for each in attempts(seen.hooks)), state])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def by_pools(seen: Table, row: str, what: Callable[[Seen], str]) -> list[tuple[str, str]]:
    """What was seen, and in which pools: one entry if it was the same everywhere."""
    groups: dict[str, list[str]] = {}
    for column in COLUMNS:
        groups.setdefault(what(seen[column][row]), []).append(column)
    return [
        ("all" if len(pools) == len(COLUMNS) else "; ".join(pools), said)
        for said, pools in groups.items()
        if said
    ]


def event_rows(seen: Table, rows: dict[str, str]) -> list[list[str]]:
    def said(one: Seen) -> str:
        if one.end in (REFUSED, NONE):
            return ""
        events = " ".join(f"`{event}`" for event in one.events) or NONE
        return f"{events} | {one.end}"

    return [
        ["" if n else title, pools, what]
        for row, title in rows.items()
        for n, (pools, what) in enumerate(by_pools(seen, row, said))
    ]


def page(seen: Table) -> str:
    parts = [(HERE / "pool_matrix_head.md").read_text()]
    for topic, rows in TOPICS.items():
        cells = [[title, *(cell(seen[c][row]) for c in COLUMNS)] for row, title in rows.items()]
        parts.append(f"\n## {topic}\n\n{table(['Hooks', *COLUMNS], cells)}")
        events = event_rows(seen, rows)
        parts.append(f"\n{table(['Events', 'pools', 'in this order', 'state: reason'], events)}")
    return "".join(parts)


def main(arguments: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        seen = observe_all(Path(folder))
    if "--json" in arguments:
        rows = {c: {row: asdict(one) for row, one in r.items()} for c, r in seen.items()}
        print(json.dumps({"seen": rows, "page": page(seen)}))
    else:
        PAGE.write_text(page(seen))
        print(f"wrote {os.path.relpath(PAGE)}")


if __name__ == "__main__":
    main(sys.argv[1:])
