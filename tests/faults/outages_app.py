"""The app of the worker processes that live through outages: ``outages_app:app``. Store, pool and
queue are those of the environment.

The file ``runs`` in the working directory tells what ran: pool, name, instant on the monotonic
clock, one line each.
"""

import asyncio
import os
import time
from pathlib import Path

from taskmq import App

HERE = Path.cwd()

app = App()
POOL = app.config.pool


def note(name: str) -> None:
    line = f"{POOL} {name} {time.monotonic()}\n".encode()
    descriptor = os.open(HERE / "runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, line)  # one write, appended whole, whoever else writes
    os.close(descriptor)


def may_go(name: str) -> bool:
    return (HERE / f"{name}.go").exists()


if POOL == "asyncio":

    @app.task(name=f"{POOL}.run", queue=POOL)
    async def run(name: str) -> str:
        note(name)
        return name

    @app.task(name=f"{POOL}.hold", queue=f"{POOL}-long")
    async def hold(name: str) -> str:
        note(f"{name}-started")
        while not may_go(name):  # noqa: ASYNC110  # a file tells it, from another process
            await asyncio.sleep(0.02)
        return name

else:

    @app.task(name=f"{POOL}.run", queue=POOL)
    def run_plain(name: str) -> str:
        note(name)
        return name

    @app.task(name=f"{POOL}.hold", queue=f"{POOL}-long")
    def hold_plain(name: str) -> str:
        note(f"{name}-started")
        while not may_go(name):
            time.sleep(0.02)
        return name
