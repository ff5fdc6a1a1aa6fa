"""``celery worker``."""

from __future__ import annotations

import os
from typing import Any

import click

from celery import concurrency
from celery.bin.base import (
    COMMA_SEPARATED_LIST,
    LOG_LEVEL,
    CeleryDaemonCommand,
    handle_preload_options,
    option,
)
from celery.bin.daemons import C_FAKEFORK as C_FAKEFORK
from celery.bin.daemons import apply_extra_settings, become, detached, writable
from celery.bin.daemons import detach as detach
from celery.bin.daemons import logger as logger
from celery.bin.types import AUTOSCALE, CONCURRENCY, Choice, ParamType
from celery.bin.types import Autoscale as Autoscale
from celery.exceptions import CeleryCommandException, SecurityError
from celery.platforms import EX_FAILURE, IS_WINDOWS
from celery.utils.nodenames import default_nodename, host_format, node_format

__all__ = ["worker"]


class WorkersPool(Choice):
    """A pool's name, or ``custom`` for the class that ``CELERY_CUSTOM_WORKER_POOL`` names."""

    name = "pool"

    def __init__(self) -> None:
        super().__init__(concurrency.get_available_pool_names())

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, type):
            return value
        chosen = super().convert(value, param, ctx)
        if chosen == "custom":
            path = os.environ.get("CELERY_CUSTOM_WORKER_POOL")
            if not path:
                self.fail("'custom' needs the variable CELERY_CUSTOM_WORKER_POOL", param, ctx)
            return path
        return chosen


class Hostname(click.types.StringParamType):
    """A worker's name with its placeholders expanded."""

    name = "hostname"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return host_format(default_nodename(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class CeleryBeat(ParamType):
    """Whether there is a beat in the worker: not on Windows."""

    name = "beat"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        if value and IS_WINDOWS:
            self.fail(
                "-B does not work on Windows: run `celery beat` beside the worker", param, ctx
            )
        return bool(value)


CELERY_BEAT = CeleryBeat()
HOSTNAME = Hostname()
WORKERS_POOL = WorkersPool()


def _concurrency_value(ctx: click.Context, param: click.Parameter | None, value: Any) -> Any:
    """The number of slots that a command line asks for, or ``auto``; the setting, where it asks
    for none or 0. Raises ``BadParameter``."""
    text = str(value or "").strip()
    wanted = CONCURRENCY.convert(text, param, ctx) if text else 0
    return wanted or ctx.obj.app.conf.worker_concurrency


WORKER, POOL, QUEUES = "Worker Options", "Pool Options", "Queue Options"
FEATURES, BEAT = "Features", "Embedded Beat Options"
UNUSED = "Accepted; has no meaning in this version."


@click.command(cls=CeleryDaemonCommand, context_settings={"allow_extra_args": True}, name="worker")
@option(
    *("-n", "--hostname"),
    group=WORKER,
    type=HOSTNAME,
    help="Name of the worker, such as w1@%h: %h is the host, %n the name, %d the domain.",
)
@option("-D", "--detach", group=WORKER, is_flag=True, help="Go on in the background.")
@option("-S", "--statedb", group=WORKER, type=click.Path(), help="Keep what is revoked there.")
@option(
    *("-l", "--loglevel"),
    group=WORKER,
    type=LOG_LEVEL,
    default="WARNING",
    help="Least urgent logs.",
)
@option(
    *("-O", "--optimization"), group=WORKER, type=click.Choice(("default", "fair")), help=UNUSED
)
@option(
    "--prefetch-multiplier",
    group=WORKER,
    type=int,
    metavar="<prefetch multiplier>",
    help="Hold at most this many tasks per slot. Otherwise the worker adapts.",
)
@option("--disable-prefetch", group=WORKER, is_flag=True, help="Hold one task per slot.")
@option(
    *("-c", "--concurrency"),
    group=POOL,
    callback=_concurrency_value,
    metavar="<concurrency>",
    help="How many tasks run at once: one for each CPU; 'auto' heeds a container's quota.",
)
@option("-P", "--pool", group=POOL, type=WORKERS_POOL, help="How tasks run at once.")
@option(
    *("-E", "--task-events", "--events"),
    group=POOL,
    is_flag=True,
    default=None,
    help="Tell monitors what becomes of tasks.",
)
@option("--time-limit", group=POOL, type=float, help="Seconds after which a task is ended.")
@option(
    "--soft-time-limit", group=POOL, type=float, help="Seconds after which a task is interrupted."
)
@option("--max-tasks-per-child", group=POOL, type=int, help="Replace a child after so many tasks.")
@option("--pool-start-method", group=POOL, type=click.Choice(("fork", "spawn")), help=UNUSED)
@option(
    "--max-memory-per-child",
    group=POOL,
    type=int,
    help="Replace a child that has more KiB of memory.",
)
@option(
    *("--purge", "--discard"), group=QUEUES, is_flag=True, help="First delete all waiting tasks."
)
@option("-Q", "--queues", group=QUEUES, type=COMMA_SEPARATED_LIST, help="Only these queues.")
@option("-X", "--exclude-queues", group=QUEUES, type=COMMA_SEPARATED_LIST, help="Not these.")
@option("-I", "--include", group=QUEUES, type=COMMA_SEPARATED_LIST, help="Import these modules.")
@option("--without-gossip", group=FEATURES, is_flag=True, help="Hear of no other worker.")
@option(
    "--without-mingle",
    group=FEATURES,
    is_flag=True,
    help="Do not ask the other workers at the start what is revoked.",
)
@option("--without-heartbeat", group=FEATURES, is_flag=True, help="Do not say that it lives.")
@option("--heartbeat-interval", group=FEATURES, type=int, help="Say so every so many seconds: 2.")
@option("--autoscale", group=FEATURES, type=AUTOSCALE, help="Most and least children, by the load.")
@option(
    "-B",
    "--beat",
    group=BEAT,
    type=CELERY_BEAT,
    is_flag=True,
    help="Run `celery beat` in this process, too.",
)
@option("-s", "--schedule-filename", "--schedule", group=BEAT, help="As for `celery beat -s`.")
@option("--scheduler", group=BEAT, help="As for `celery beat -S`.")
@click.pass_context
@handle_preload_options
def worker(
    ctx: click.Context,
    /,
    hostname: str | None = None,
    loglevel: int | str | None = None,
    logfile: str | None = None,
    pidfile: str | None = None,
    **kwargs: Any,
) -> None:
    """Start worker instance.

    \b
    $ celery --app=proj worker -l INFO
    $ celery -A proj worker -l INFO -Q hipri,lopri
    $ celery -A proj worker --concurrency=4
    $ celery -A proj worker -P threads -n w1@%h
    """
    app, obj = ctx.obj.app, ctx.obj
    apply_extra_settings(app, ctx)
    name = hostname or host_format(default_nodename(None))
    if kwargs.pop("detach"):
        files = [path and node_format(path, name) for path in (logfile, pidfile)]
        ctx.exit(detached(kwargs.get("executable"), *files))
    become(kwargs)
    if logfile:
        logfile = writable(node_format(logfile, name))
    if kwargs.pop("disable_prefetch"):
        kwargs["prefetch_multiplier"] = 1
    try:
        made = app.Worker(
            hostname=name,
            pool_cls=kwargs.pop("pool"),
            loglevel=loglevel,
            logfile=logfile,
            pidfile=pidfile,
            no_color=obj.no_color,
            quiet=obj.quiet,
            **kwargs,
        )
        made.start()
    except SecurityError as error:
        raise CeleryCommandException(" ".join(str(error).split()), EX_FAILURE) from None
    ctx.exit(made.exitcode)
