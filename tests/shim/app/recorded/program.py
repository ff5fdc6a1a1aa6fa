"""A Celery program that calls every kind of task and prints what came of it, as JSON.

It runs on Celery itself and on the shim. ``celery-5.7.0.json`` is what it prints there:

    python program.py > celery-5.7.0.json        # in an environment with Celery 5.7.0
"""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any

import celery
from celery import Celery, Task, chain, signals
from celery.exceptions import Ignore

app = Celery("d", broker="memory://", backend="cache+memory://")
app.conf.worker_hijack_root_logger = False
app.conf.worker_redirect_stdouts = False
log: list[Any] = []
results: list[Any] = []


class Told(Task):
    """Notes every hook."""

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        log.append(["before_start", self.name, args, kwargs])

    def on_success(self, retval: Any, task_id: str, args: Any, kwargs: Any) -> None:
        log.append(["on_success", self.name, retval, args])

    def on_failure(self, exc: Any, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        log.append(["on_failure", self.name, repr(exc), args])

    def on_retry(self, exc: Any, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        log.append(["on_retry", self.name, repr(exc), args])

    def after_return(
        self, status: str, retval: Any, task_id: str, args: Any, kwargs: Any, einfo: Any
    ) -> None:
        log.append(["after_return", self.name, status, repr(retval), args])


def note(name: str) -> Callable[..., None]:
    def receiver(sender: Any = None, **told: Any) -> None:
        value = repr(told.get("result", told.get("retval")))
        error, reason = repr(told.get("exception")), str(told.get("reason"))
        log.append([name, sender.name, told.get("state"), value, error, reason])

    return receiver


for each in ("task_prerun", "task_postrun", "task_success", "task_failure", "task_retry"):
    getattr(signals, each).connect(note(each), weak=False)


@app.task(base=Told)
def add(x: int, y: int = 1) -> int:
    return x + y


@app.task(base=Told, bind=True, max_retries=2)
def flaky(self: Any, times: int) -> Any:
    if self.request.retries < times:
        raise self.retry(countdown=0.01, exc=OSError("busy"))
    return self.request.retries


@app.task(base=Told, autoretry_for=(OSError,), retry_kwargs={"max_retries": 1, "countdown": 0.01})
def stubborn() -> None:
    raise OSError("still busy")


@app.task(base=Told)
def boom(*args: Any) -> None:
    raise KeyError("k", 3)


@app.task(base=Told)
def ignored() -> None:
    raise Ignore("not now")


@app.task(base=Told, throws=(ValueError,))
def thrown() -> None:
    raise ValueError("expected")


@app.task(base=Told, bind=True)
def show(self: Any, *args: Any, **kwargs: Any) -> Any:
    r = self.request
    info = [r.delivery_info["routing_key"], r.delivery_info["priority"]]
    given = [r.headers, r.expires is not None, r.eta is not None, r.args, r.kwargs, r.timelimit]
    return [r.retries, *info, *given, r.ignore_result, r.root_id == r.id, r.parent_id is None]


def look(label: str, result: Any) -> Any:
    """Wait for a result and note all that it says."""
    try:
        got = ["returned", result.get(timeout=5)]
    except Exception as error:
        got = ["raised", type(error).__module__, type(error).__name__, str(error)]
    flags = [result.ready(), result.successful(), result.failed(), bool(result.traceback)]
    results.append([label, got, result.state, repr(result.result), *flags, bool(result.date_done)])
    return result


def run() -> None:
    look("positional", add.delay(1, 2))
    look("keyword", add.apply_async((1,), {"y": 5}))
    look("retried", flaky.delay(2))
    look("retried too often", flaky.delay(9))
    look("retried by itself", stubborn.delay())
    look("failed", boom.delay())
    look("failed as expected", thrown.delay())
    look("options", show.apply_async((1,), {"a": 2}, headers={"h": 1}, priority=4, expires=60))
    look("later", show.apply_async(countdown=0.05, time_limit=30))
    good = look("chain", chain(add.s(1, 1), add.s(3), show.s()).apply_async())
    results.append([good.parent.get(timeout=5), good.parent.parent.get(timeout=5)])
    bad = look("broken chain", chain(add.s(1, 1), boom.s(), add.s(3)).apply_async())
    results.append([bad.parent.state, bad.parent.parent.state])
    look("wrong arguments", app.send_task("d.add", (1, 2, 3)))
    linked = add.s(100).set(task_id="linked")
    look("link", add.apply_async((1, 1), link=linked))
    look("linked", app.AsyncResult("linked"))
    ended = look("ended", add.delay(0, 0))
    ended.forget()
    results.append([app.AsyncResult(ended.id).state, app.AsyncResult("unknown").state])


def run_on_celery() -> None:
    testing = import_module("celery.contrib.testing.worker")
    with testing.start_worker(app, perform_ping_check=False, pool="solo"):
        run()


def run_on_the_engine() -> None:
    from taskmq.worker import Worker
    from taskmq_celery.engine import engine_for

    worker = Worker(engine_for(app, pool="solo"), queues=["celery"])
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        run()
    finally:
        worker.stop()
        thread.join()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    if "taskmq" in celery.__version__:
        run_on_the_engine()
    else:
        run_on_celery()
    print(json.dumps({"results": results, "log": log}, default=repr))
