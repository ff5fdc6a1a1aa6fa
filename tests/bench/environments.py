"""An environment for each peer, made once and kept in ``.cache/bench``."""

from __future__ import annotations

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).parents[2]
CACHE = TOP / ".cache" / "bench"
OURS = ("native", "shim")
GRAPHS = ("chain", "fan_out")


@dataclass(frozen=True)
class Entrant:
    """Who takes part: a module of `contestants`, the stores that it can work on, and what it needs
    (nothing: the environment that runs the benchmark has it)."""

    module: str
    stores: tuple[str, ...]
    requirements: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    """The workloads that it cannot run: nothing of it keeps results, or joins."""


ENTRANTS = {
    "native": Entrant("native", ("memory", "sqlite", "redis", "postgres", "rabbitmq")),
    "shim": Entrant("celery_app", ("sqlite", "redis", "postgres")),
    "celery": Entrant("celery_app", ("redis",), ("celery[redis]==5.7.0", "hiredis")),
    "dramatiq": Entrant("dramatiq_app", ("redis",), ("dramatiq[redis,rabbitmq]==2.2.1", "hiredis")),
    "huey": Entrant("huey_app", ("sqlite", "redis"), ("huey==3.5.4", "redis", "hiredis")),
    "rq": Entrant("rq_app", ("redis",), ("rq==3.0.0", "hiredis"), lacks=GRAPHS),
    "pgqueuer": Entrant(
        "pgqueuer_app",
        ("postgres",),
        ("pgqueuer==1.6.0", "asyncpg"),
        lacks=("round_trip", *GRAPHS),
    ),
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
