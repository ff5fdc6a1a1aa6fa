"""Commands that run a worker: ``worker``, ``dev``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from taskmq import App, Config, __version__, logs
from taskmq.urls import without_passwords
from taskmq.worker import Worker

from .apps import open_app, program_of
from .beat import SchedulerBeside
from .caretaker import Caretaker
from .output import wants_color
from .systemd import ServiceManager

__all__ = ["dev", "worker"]

SETTINGS = (
    "concurrency",
    "pool",
    "lease",
    "shutdown_timeout",
    "log_format",
    "start_method",
    "max_jobs_per_child",
    "max_memory_per_child",
    "autoscale",
)


def worker(arguments: argparse.Namespace) -> int:
    """Run a worker until it is told to stop, or with ``--until-idle`` until nothing is left."""
    return _run(open_app(arguments), arguments, arguments.queues)


def dev(arguments: argparse.Namespace) -> int:
    """A worker with what one wants while developing: every queue, and all that happens."""
    app = open_app(arguments)
    tasks = ", ".join(app.tasks.names()) or "no tasks"
    url = without_passwords(app.config.transport)
    _note(f"taskmq {__version__}, development: one worker on {url} for {tasks}")
    _note("Ctrl-C stops it; start it again after a change of code")
    return _run(app, arguments, arguments.queues)


def _run(app: App, arguments: argparse.Namespace, queues: Sequence[str] | None) -> int:
    log_format = arguments.log_format or app.config.log_format
    color = log_format == "pretty" and wants_color(sys.stderr)
    logs.configure(arguments.log_level, format=log_format, stream=sys.stderr, color=color)
    app.add_sink(logs.LogSink())
    if arguments.events is not None:
        app.write_events(app.config.replace(events=arguments.events).events)
    config = app.config.replace(**_settings(app, arguments), plugins=tuple(app.plugins.loaded))
    caretaker = Caretaker(
        ServiceManager.from_env(),
        grace=config.shutdown_timeout,
        stuck_after=arguments.stuck_after,
    )
    made = Worker(app, queues=queues, name=arguments.name, config=config, hook=caretaker)
    if arguments.health_socket is not None:
        from .probe import HealthServer  # with a server of Python's, for those who want one

        caretaker.probe = HealthServer(arguments.health_socket, caretaker.health)
    for warning in _warnings(app, made.queues):
        _note(f"warning: {warning}")
    with app, caretaker.beside(made), _scheduler(app, arguments, caretaker):
        return caretaker.leave(made.run_until_idle() if arguments.until_idle else made.run())


@contextmanager
def _scheduler(app: App, arguments: argparse.Namespace, caretaker: Caretaker) -> Iterator[None]:
    """While inside, a scheduler runs beside the worker, unless that is not wanted."""
    if arguments.no_scheduler or arguments.until_idle:
        yield
        return
    beside = SchedulerBeside(app, program_of(arguments))
    app.add_hook(beside)
    caretaker.on_stopping = beside.stop
    try:
        yield
    finally:
        beside.end()


def _settings(app: App, arguments: argparse.Namespace) -> dict[str, Any]:
    given = {name: getattr(arguments, name) for name in SETTINGS}
    settings = {name: value for name, value in given.items() if value is not None}
    lease = settings.get("lease", app.config.lease)
    if 0 < lease < app.config.heartbeat_interval:
        settings["heartbeat_interval"] = lease / 3  # it has to be heard within its lease
    return settings


def _task_queues(app: App) -> dict[str, str]:
    """The queues that tasks name, each with one of these tasks."""
    return {task.policy.queue: task.name for task in app.tasks if task.policy.queue}


def _warnings(app: App, served: Sequence[str]) -> list[str]:
    warnings = []
    if not len(app.tasks):
        warnings.append("the app has no tasks: every job will be parked")
    for queue, task in sorted(_task_queues(app).items()):
        if queue not in served:
            more = ",".join([*served, queue])
            warnings.append(f"{task} has queue {queue!r}, which nobody serves here (-Q {more})")
    if not app.transport.capabilities.shared:
        url = without_passwords(app.config.transport)
        warnings.append(f"{url} is of this process alone: jobs of other processes do not arrive")
    return warnings + _unread_variables(app.config)


def _unread_variables(config: Config) -> list[str]:
    """Variables that say something else than the app, whose own Config did not read them."""
    environment = Config.from_env()
    return [
        f"{variable} has no effect: the app sets its Config itself ({name}="
        f"{getattr(config, name)!r}); Config.from_env(...) would read it"
        for variable, name in Config.environment_variables().items()
        if name != "plugins"  # the command line loads them
        and variable in os.environ
        and getattr(environment, name) != getattr(config, name)
    ]


def _note(text: str) -> None:
    """To people, not to whatever reads the output."""
    sys.stderr.write(f"taskmq: {text}\n")
