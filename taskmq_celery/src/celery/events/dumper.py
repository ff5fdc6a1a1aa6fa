"""Printing events as they come: ``celery events --dump``."""

from __future__ import annotations

import datetime
import sys
from typing import Any

from kombu.utils.functional import LRUCache

from celery.app import app_or_default
from celery.utils.time import humanize_seconds

__all__ = ("Dumper", "evdump")

MOST_NAMES = 4095
TASK_NAMES: Any = LRUCache(limit=MOST_NAMES)
"""Names and arguments of tasks, by id: only the first event of a task has them."""

HUMAN_TYPES = {
    "worker-offline": "shutdown",
    "worker-online": "started",
    "worker-heartbeat": "heartbeat",
}

NO_CONNECTION = "-> Cannot connect to {}: {}.\nTrying again {}\n"


def humanize_type(type: str) -> str:
    """An event's type in words."""
    known = HUMAN_TYPES.get(type.lower())
    return known or type.lower().replace("-", " ")


class Dumper:
    """Prints one line for each event."""

    def __init__(self, out: Any = sys.stdout) -> None:
        self.out = out

    def say(self, msg: str) -> None:
        """Print a line, at once."""
        print(msg, file=self.out, flush=True)

    def on_event(self, ev: dict[str, Any]) -> None:
        """Print an event."""
        at = datetime.datetime.fromtimestamp(ev.pop("timestamp"), datetime.timezone.utc)
        type, hostname = ev.pop("type").lower(), ev.pop("hostname")
        if type.startswith("task-"):
            uuid = ev.pop("uuid")
            if type in ("task-received", "task-sent"):
                called = f"args={ev.pop('args')} kwargs={ev.pop('kwargs')}"
                TASK_NAMES[uuid] = f"{ev.pop('name')}({uuid}) {called}"
            self.format_task_event(hostname, at, type, TASK_NAMES.get(uuid, uuid), ev)
            return
        self.say(f"{hostname} [{at}] {humanize_type(type)}: {_listed(ev)}")

    def format_task_event(
        self, hostname: str, timestamp: Any, type: str, task: str, event: dict[str, Any]
    ) -> None:
        """Print an event of a task."""
        rest = f": {_listed(event)}" if event else ""
        self.say(f"{hostname} [{timestamp}] {humanize_type(type)} {task}{rest}")


def _listed(fields: dict[str, Any]) -> str:
    return ", ".join(f"{name}={fields[name]}" for name in sorted(fields))


def evdump(app: Any = None, out: Any = sys.stdout) -> None:
    """Print events until it is interrupted. A broker that goes away is waited for."""
    app = app_or_default(app)
    dumper = Dumper(out=out)
    dumper.say("-> evdump: starting capture...")
    connection = app.connection_for_read().clone()

    def failed(error: Exception, interval: float) -> None:
        again = humanize_seconds(interval, "in", " ")
        dumper.say(NO_CONNECTION.format(connection.as_uri(), error, again))

    while True:
        try:
            connection.ensure_connection(failed)
            receiver = app.events.Receiver(connection, handlers={"*": dumper.on_event})
            receiver.capture()
        except (KeyboardInterrupt, SystemExit):
            connection.close()
            return
        except connection.connection_errors + connection.channel_errors:
            dumper.say("-> Connection lost, attempting reconnect")
