"""``taskmq call``: submit one job, and wait for it if asked to; or run it here and now."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import msgspec

from taskmq import App, Call, ConfigError, Result, Task
from taskmq.diagnose import diagnose
from taskmq.envelope import Envelope
from taskmq.errors import ResultTimeout, UnknownTask
from taskmq.executor import Executor
from taskmq.transport import Ack, DeadLetter, Defer, Delivery, RetryLater, Settlement

from .apps import open_app
from .exits import CommandFailed, Exit
from .offloaded import shown_result
from .output import Printer
from .situation import situation_of
from .values import parse_instant, parse_json, payload_text

__all__ = ["call"]


def call(arguments: argparse.Namespace) -> int:
    """See the module's text."""
    app = open_app(arguments)
    request = _request(app, arguments)
    if arguments.local:
        return _run_here(app, app.seal(request, app.clock.now()).envelope)
    result = request.submit()
    if not result.created:
        sys.stderr.write(f"taskmq: {result.id} has that key already; nothing new was stored\n")
    if arguments.wait or arguments.timeout is not None:
        sys.stderr.write(f"taskmq: job {result.id}\n")
        return _wait_for(app, result, arguments.timeout)
    Printer().line(result.id)
    return Exit.OK


def _request(app: App, arguments: argparse.Namespace) -> Call[Any]:
    task = _find(app, arguments.task)
    args = parse_json("--args", arguments.args, list) or []
    kwargs = parse_json("--kwargs", arguments.kwargs, dict) or {}
    try:
        request = task.call(*args, **kwargs)
    except TypeError as error:
        raise ConfigError(f"the arguments do not fit: {error}") from None
    return request.options(
        queue=arguments.queue,
        eta=parse_instant("--eta", arguments.eta),
        expires=parse_instant("--expires", arguments.expires),
        priority=arguments.priority,
        key=arguments.key,
    )


def _find(app: App, name: str) -> Task[..., Any]:
    try:
        return app.tasks[name]
    except UnknownTask as error:
        names = app.tasks.names()
        known = ", ".join(names[:8]) or "none"
        raise UnknownTask(f"{error} (the app has: {known}{', …' * (len(names) > 8)})") from None


def _wait_for(app: App, result: Result[Any], timeout: float | None) -> int:
    try:
        value = result.get(timeout)
    except ResultTimeout as error:
        record = result.record
        why = f": {diagnose(record, situation_of(app, record))[0].text}" if record else ""
        raise CommandFailed(f"{error}{why}", Exit.TIMEOUT) from error
    record = result.record
    kept = record.result if record else None
    Printer().line(payload_text(shown_result(app, kept)) if kept else repr(value))
    return Exit.OK


def _run_here(app: App, envelope: Envelope) -> int:
    """Through the executor, as a worker would, with nothing stored."""
    delivery = Delivery(
        job_id=envelope.id,
        queue=envelope.queue,
        priority=envelope.priority,
        envelope=msgspec.json.encode(envelope),
        token=0,
        attempt=1,
        deliveries=1,
        reclaims=0,
        yields=0,
        lease_until=app.clock.now() + app.config.lease,
    )
    settlement = Executor(app, worker="taskmq call --local").execute(delivery).settlement
    if isinstance(settlement, Ack):
        kept = settlement.result
        Printer().line(payload_text(shown_result(app, kept)) if kept else "null")
        return Exit.OK
    raise CommandFailed(_ended(settlement))


def _ended(settlement: Settlement) -> str:
    """What a worker would have told the store; the traceback is for whoever debugs the task."""
    if isinstance(settlement, (DeadLetter, RetryLater)):
        sys.stderr.write(settlement.failure.traceback)
    if isinstance(settlement, RetryLater):
        return f"attempt 1 failed; a worker would try again in {settlement.delay:.1f} s"
    if isinstance(settlement, DeadLetter):
        return f"it failed; a worker would make it a dead letter ({settlement.reason})"
    if isinstance(settlement, Defer) and settlement.park:
        return f"a worker would park it: {settlement.park}"
    if isinstance(settlement, Defer):
        return f"it gave itself back for {settlement.delay:.1f} s"
    return f"it ended without a value ({type(settlement).__name__.lower()})"
