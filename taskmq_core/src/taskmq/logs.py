"""Log lines of a worker: as JSON for machines, or to read at a terminal.

Every JSON line has the fields ``ts``, ``level``, ``event``, ``job_id``, ``task``, ``attempt``,
``worker``, ``queue`` and ``msg`` (null where there is nothing to say), then whatever the record
carries besides: the fields of ``ctx.log.info("…", to=to)``, and ``exc`` with a traceback.

Nothing here is used unless `configure` is called, which the command line does. A program with a
logging set-up of its own may use the formatters in it.
"""

from __future__ import annotations

import datetime
import json
import logging
from collections.abc import Sequence
from typing import IO, Any, Literal

import msgspec

from .events import (
    Event,
    JobDeferred,
    JobDelegated,
    JobDropped,
    JobFailed,
    JobStarted,
    JobSubmitted,
    JobSucceeded,
)

__all__ = ["LEVELS", "JsonFormatter", "LogSink", "PrettyFormatter", "configure"]

LEVELS = ("debug", "info", "warning", "error", "critical")
STOPPED = ("malformed", "revoked", "lease_lost")
ABOUT_THE_JOB = ("job_id", "task", "attempt", "worker", "queue")
COLORS = {"DEBUG": "2", "INFO": "32", "WARNING": "33", "ERROR": "31", "CRITICAL": "31;1"}

logger = logging.getLogger("taskmq.jobs")


def configure(
    level: str = "info",
    *,
    format: Literal["json", "pretty"] = "pretty",
    stream: IO[str],
    color: bool = False,
) -> None:
    """Write log records to ``stream``.

    A program that gave the root logger a handler already decides itself where records go: then
    only the level of the engine's own loggers is set.
    """
    wanted = level.upper()
    root = logging.getLogger()
    if not root.handlers:
        handler = logging.StreamHandler(stream)
        handler.setFormatter(JsonFormatter() if format == "json" else PrettyFormatter(color=color))
        root.addHandler(handler)
        root.setLevel(wanted)
    logging.getLogger("taskmq").setLevel(wanted)


class JsonFormatter(logging.Formatter):
    """One JSON object a line; see the module's text for its fields."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = dict(record.__dict__.get("taskmq") or {})
        line: dict[str, Any] = {
            "ts": timestamp(record.created),
            "level": record.levelname.lower(),
            "event": fields.pop("event", record.name),
        }
        line |= {name: fields.pop(name, None) for name in ABOUT_THE_JOB}
        line["msg"] = record.getMessage()
        for name, value in fields.items():
            line[f"{name}_" if name in line else name] = value
        if record.exc_info:
            line["exc"] = self.formatException(record.exc_info)
        return _as_json(line)


class PrettyFormatter(logging.Formatter):
    """``12:03:44.120 INFO  shop.pay  succeeded in 0.012 s  job_id=01HF7…``"""

    def __init__(self, *, color: bool = False) -> None:
        super().__init__()
        self._color = color

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = dict(record.__dict__.get("taskmq") or {})
        trace = str(fields.pop("exc", ""))
        for name in ("event", "worker", "queue"):
            fields.pop(name, None)
        if fields.get("attempt") == 1:
            del fields["attempt"]
        who = fields.pop("task", None) or record.name.removeprefix("taskmq.")
        at = datetime.datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        details = "".join(f"  {name}={value}" for name, value in fields.items())
        level = self._paint(f"{record.levelname:<7}", COLORS.get(record.levelname, "0"))
        text = f"{at} {level} {self._paint(who, '1')}  {record.getMessage()}"
        text += self._paint(details, "2")
        if record.exc_info:
            trace = self.formatException(record.exc_info)
        return f"{text}\n{trace.rstrip()}" if trace else text

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._color and text else text


class LogSink:
    """An event sink that writes what happens to jobs into the log ``taskmq.jobs``.

    A success is an INFO, an attempt that will be repeated and a parked job a WARNING, a dead
    letter an ERROR with the traceback.
    """

    def handle(self, events: Sequence[Event]) -> None:
        for event in events:
            level, message = describe_event(event)
            if level and logger.isEnabledFor(level):
                fields = msgspec.structs.asdict(event)
                about = {name: fields[name] for name in ABOUT_THE_JOB if name in fields}
                about["event"] = type(event).__struct_config__.tag
                if level == logging.ERROR:
                    about["exc"] = fields["traceback"]
                logger.log(level, "%s", message, extra={"taskmq": about})


def describe_event(event: Event) -> tuple[int, str]:
    """Level and words for one event; level 0 for those that the worker's own log tells of."""
    if isinstance(event, JobSucceeded):
        return logging.INFO, f"succeeded in {event.runtime:.3f} s"
    if isinstance(event, JobFailed):
        error = f"{event.error_type}: {event.error}" if event.error else event.error_type
        if event.will_retry:
            return logging.WARNING, f"failed, will run again: {error}"
        return logging.ERROR, f"failed for good: {error}"
    if isinstance(event, JobDeferred):
        if event.parked:
            return logging.WARNING, f"parked, this worker cannot run it: {event.reason}"
        return logging.INFO, "given back for later"
    if isinstance(event, JobDelegated):
        return logging.INFO, f"waits for job {event.to}, whose result is to be its own"
    if isinstance(event, JobDropped) and event.reason in STOPPED:
        return logging.WARNING, f"dropped: {event.reason}"
    if isinstance(event, (JobStarted, JobSubmitted)):
        return logging.DEBUG, str(type(event).__struct_config__.tag).partition(".")[2]
    return 0, ""


def timestamp(at: float) -> str:
    """Epoch seconds as ISO 8601 in UTC, to the millisecond."""
    moment = datetime.datetime.fromtimestamp(at, datetime.timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _as_json(line: dict[str, Any]) -> str:
    try:
        return msgspec.json.encode(line, enc_hook=repr).decode()
    except (TypeError, ValueError, RecursionError):
        return json.dumps(line, default=repr, skipkeys=True)  # takes halves of surrogate pairs
