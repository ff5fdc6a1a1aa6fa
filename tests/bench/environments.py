"""An environment for each peer, made once and kept in ``.cache/bench``."""

from __future__ import annotations

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).parents[2]
CACHE = TOP / ".cache" / "bench"
OURS = ("native", "shim", "limit", "wake")
GRAPHS = ("chain", "fan_out")
RUNNING = ("drain", "latency", "urgent", "round_trip", *GRAPHS, "idle")
"""The workloads that need a worker."""


@dataclass(frozen=True)
class Entrant:
    """Who takes part: a module of `contestants`, the stores that it can work on, and what it needs
    (nothing: the environment that runs the benchmark has it)."""

    module: str
    stores: tuple[str, ...]
    requirements: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    """The workloads that it cannot run: nothing of it keeps results, joins, or knows priorities."""


TASKIQ = ("taskiq==0.13.0", "taskiq-redis==1.2.4", "hiredis")
ENTRANTS = {
    "native": Entrant("native", ("memory", "sqlite", "redis", "postgres", "rabbitmq")),
    "shim": Entrant("celery_app", ("sqlite", "redis", "postgres"), lacks=("urgent",)),
    "limit": Entrant("limit", ("sqlite", "redis", "postgres"), lacks=("bulk", *RUNNING)),
    "wake": Entrant(
        "wake",
        ("redis",),
        lacks=("enqueue", "bulk", *(name for name in RUNNING if name != "latency")),
    ),
    "celery": Entrant(
        "celery_app", ("redis",), ("celery[redis]==5.7.0", "hiredis"), lacks=("urgent",)
    ),
    "dramatiq": Entrant(
        "dramatiq_app",
        ("redis", "rabbitmq"),
        ("dramatiq[redis,rabbitmq]==2.2.1", "hiredis"),
        lacks=("urgent",),
    ),
    "huey": Entrant(
        "huey_app", ("sqlite", "redis"), ("huey==3.5.4", "redis", "hiredis"), lacks=("urgent",)
    ),
    "rq": Entrant("rq_app", ("redis",), ("rq==3.0.0", "hiredis"), lacks=("urgent", *GRAPHS)),
    "taskiq": Entrant("taskiq_app", ("redis",), TASKIQ, lacks=("urgent", *GRAPHS)),
    "taskiq-uvloop": Entrant(
        "taskiq_app", ("redis",), (*TASKIQ, "uvloop"), lacks=("urgent", *GRAPHS)
    ),
    "saq": Entrant(
        "saq_app",
        ("redis", "postgres"),
        ("saq[redis,postgres,hiredis]==0.26.4", "psycopg[binary]"),
        lacks=("urgent", *GRAPHS),
    ),
    "pgqueuer": Entrant(
        "pgqueuer_app",
        ("postgres",),
        ("pgqueuer==1.6.0", "asyncpg"),
        lacks=("urgent", "round_trip", *GRAPHS),
    ),
    "procrastinate": Entrant(
        "procrastinate_app",
        ("postgres",),
        ("procrastinate==3.10.0", "psycopg[binary]"),
        lacks=("urgent", "round_trip", *GRAPHS),
    ),
    "taskito": Entrant("taskito_app", ("sqlite",), ("taskito==0.22.0",), lacks=("urgent", *GRAPHS)),
}
PEERS = tuple(name for name in ENTRANTS if name not in OURS)


def python_of(name: str) -> Path:
    """The interpreter that runs an entrant; its environment is made if it is missing."""
    entrant = ENTRANTS[name]
    if not entrant.requirements:
        return Path(sys.executable)
    folder = CACHE / name
    python, done = folder / "bin" / "python", folder / "requirements.txt"
    wanted = "\n".join(entrant.requirements)
    if not done.exists() or done.read_text() != wanted:
        print(f"making an environment for {name}", file=sys.stderr)
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", *entrant.requirements], check=True
        )
        done.write_text(wanted)
    return python
