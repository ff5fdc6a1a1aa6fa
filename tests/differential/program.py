"""The tasks that canvases are made of. They run on the real Celery and on the shim alike.

Every canvas of a batch has tasks of its own, named ``<slot>.<task>``, so that what ran can be told
apart. Each task writes what it got to a file, a line of JSON for each run.
"""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from celery import Celery
from celery.exceptions import Ignore, Reject

SLOTS = 100
"""Canvases that can be run at a time."""

TURN = "turn"
"""A task that does nothing: when it has ended, so has what was sent before."""

BROKER, BACKEND, LOG = "DIFFERENTIAL_BROKER", "DIFFERENTIAL_BACKEND", "DIFFERENTIAL_LOG"

Run = dict[str, Any]


class Trouble(Exception):
    """An exception of the program's own, with two arguments."""


def make_app(broker: str, backend: str, log: Path, slots: int = SLOTS) -> Any:
    """A Celery app with the tasks of all slots."""
    app = Celery("differential", broker=broker, backend=backend, set_as_current=False)
    app.conf.update(
        task_acks_late=True,  # so that Celery's queues are empty when nothing runs any more
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        task_allow_error_cb_on_chord_header=False,
        result_extended=False,
    )
    app.task(name=TURN, acks_late=False)(nothing)
    for slot in range(slots):
        add_tasks(app, slot, log)
    return app


def nothing() -> None:
    """What `TURN` does."""


def add_tasks(app: Any, slot: int, log: Path) -> None:
    def ran(task: Any, *args: Any, **kwargs: Any) -> None:
        request = task.request
        stamps = {name: request.stamps[name] for name in sorted(request.stamps or ())}
        line: Run = {"slot": slot, "id": request.id, "task": task.name.partition(".")[2]}
        line |= {"args": args, "kwargs": kwargs, "stamps": stamps, "retries": request.retries}
        with log.open("a") as file:
            file.write(json.dumps(line, default=repr) + "\n")

    def named(name: str) -> Callable[[Callable[..., Any]], Any]:
        made: Callable[[Callable[..., Any]], Any] = app.task(
            name=f"{slot}.{name}", bind=True, default_retry_delay=0
        )
        return made

    @named("keep")
    def keep(self: Any, *args: Any, **kwargs: Any) -> Any:
        """What it got: results tell where they come from."""
        ran(self, *args, **kwargs)
        return [*args, kwargs] if kwargs else list(args)

    @named("tag")
    def tag(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Its own argument."""
        ran(self, *args, **kwargs)
        return args[-1]

    @named("nothing")
    def nothing(self: Any, *args: Any, **kwargs: Any) -> None:
        ran(self, *args, **kwargs)

    @named("fail")
    def fail(self: Any, *args: Any, **kwargs: Any) -> Any:
        ran(self, *args, **kwargs)
        raise ValueError("deliberate", args[-1])

    @named("trouble")
    def trouble(self: Any, *args: Any, **kwargs: Any) -> Any:
        ran(self, *args, **kwargs)
        raise Trouble("deep", args[-1])

    @named("flaky")
    def flaky(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Succeeds the second time."""
        ran(self, *args, **kwargs)
        if self.request.retries < 1:
            raise self.retry(countdown=0)
        return list(args)

    @app.task(
        name=f"{slot}.again",
        bind=True,
        autoretry_for=(ValueError,),
        default_retry_delay=0,
        max_retries=1,
    )
    def again(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Succeeds when it is retried by itself."""
        ran(self, *args, **kwargs)
        if self.request.retries < 1:
            raise ValueError("again", args[-1])
        return list(args)

    @named("stubborn")
    def stubborn(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Tries it three times, and fails."""
        ran(self, *args, **kwargs)
        raise self.retry(exc=KeyError("stubborn", args[-1]), countdown=0, max_retries=2)

    @named("become")
    def become(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Replaces itself by the canvas that its last argument describes."""
        from .canvases import built

        ran(self, *args[:-1], "…", **kwargs)
        raise self.replace(built(app, slot, args[-1]))

    @named("skip")
    def skip(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Has no result: it stays as it is, and so does all that is behind it."""
        ran(self, *args, **kwargs)
        raise Ignore

    @named("refuse")
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Fails, as its message is rejected."""
        ran(self, *args, **kwargs)
        raise Reject(repr(("deliberate", args[-1])), requeue=False)

    @named("join")
    def join(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Has another task join the header that it is in, if it is in one."""
        ran(self, *args, **kwargs)
        if self.request.chord:
            self.add_to_chord(app.tasks[f"{slot}.keep"].s([args[-1]]))
        return args[-1]

    @named("note")
    def note(self: Any, *args: Any, **kwargs: Any) -> None:
        """What callbacks are."""
        ran(self, *args, **kwargs)

    @app.task(name=f"{slot}.told")
    def told(request: Any, exc: BaseException, traceback: Any, *args: Any) -> None:
        """An error callback that runs where the task failed."""
        line: Run = {"slot": slot, "id": None, "task": "told", "retries": 0, "stamps": {}}
        line |= {"args": [request.id, repr(exc), *args], "kwargs": {}}
        with log.open("a") as file:
            file.write(json.dumps(line, default=repr) + "\n")


if BROKER in os.environ:  # imported by a worker, or by `serve`
    app = make_app(os.environ[BROKER], os.environ[BACKEND], Path(os.environ[LOG]))
