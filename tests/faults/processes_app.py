"""The app of test_child_death.py, and its worker: ``python processes_app.py``, set up by variables.

The app is a variable of this module, where a child that is not a fork of the worker finds it.
"""

import os
import signal
import time
from pathlib import Path

from taskmq import App, Config, Task, TaskContext, current_task
from taskmq.worker import Worker, WorkerHook
from taskmq.worker.signals import handle_signals

FOLDER = Path(os.environ["TEST_FOLDER"])
app = App(Config.from_env(transport=f"sqlite:///{FOLDER}/jobs.db", pool="processes"))


def note(name: str, text: str = "") -> None:
    """Leave word for the test. The file is complete as soon as it is there."""
    part = FOLDER / f".{name}.{os.getpid()}"
    part.write_text(text)
    part.rename(FOLDER / name)


@app.task(name="pid")
def pid() -> int:
    return os.getpid()


@app.task(name="sleep")
def sleep(name: str, seconds: float) -> str:
    note(f"{name}-runs", str(os.getpid()))
    time.sleep(seconds)
    return name


@app.task(name="hold")
def hold(name: str) -> str:
    """Runs until the test leaves word."""
    note(f"{name}-runs", str(os.getpid()))
    while not (FOLDER / f"{name}-may-end").exists():
        time.sleep(0.005)
    return name


@app.task(name="submit")
def submit() -> str:
    return pid.delay().id


@app.register
class Die(Task[[], None]):
    """Kills its process, every time."""

    name = "die"
    max_deliveries = 3

    def run(self) -> None:
        with (FOLDER / "deaths").open("a") as file:
            file.write(f"{current_task().reclaims}\n")
        os.kill(os.getpid(), signal.SIGKILL)

    def on_failure(self, ctx: TaskContext, error: BaseException) -> None:
        with (FOLDER / "failures").open("a") as file:
            file.write(f"{os.getpid()} {type(error).__name__} {ctx.reclaims}\n")


class Announcer(WorkerHook):
    def on_ready(self, worker: Worker) -> None:
        note("ready", str(os.getpid()))


class CountChildren(WorkerHook):
    """A hook of the app's: it is there in every child, however that was made."""

    def on_child_start(self, app: App) -> None:
        note(f"child-{os.getpid()}")


app.add_hook(CountChildren())

if __name__ == "__main__":
    worker = Worker(app, hook=Announcer())
    with handle_signals(worker):
        print(worker.run(), flush=True)
