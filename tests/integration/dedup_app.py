"""An app whose jobs have dedup keys; for workers in processes of their own."""

import os
import time
from pathlib import Path

from taskmq import App, Config, current_task

FOLDER = Path(os.environ.get("DEDUP_FOLDER", "."))

app = App(
    Config(
        transport=f"sqlite:///{FOLDER}/jobs.db",
        lease=float(os.environ.get("DEDUP_LEASE", "1.0")),
        heartbeat_interval=0.3,
    )
)


@app.task(name="pay", dedup="pay:{order}")
def pay(order: int) -> str:
    note("pay")
    return "paid"


@app.task(name="slow", dedup="slow:{order}")
def slow(order: int, seconds: float) -> str:
    note("begin")
    time.sleep(seconds)
    note("end")
    return "done"


@app.task(name="deadly", dedup="deadly:{order}", max_deliveries=2)
def deadly(order: int, times: int) -> str:
    """Ends its process the first few times, as the out-of-memory killer would."""
    note("begin")
    if (FOLDER / "log").read_text().count("begin") <= times:
        os.kill(os.getpid(), 9)
    return "done"


def note(what: str) -> None:
    with (FOLDER / "log").open("a") as log:
        log.write(f"{what} {current_task().id}\n")
