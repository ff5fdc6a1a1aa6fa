"""``celery beat``."""

from __future__ import annotations

from functools import partial
from typing import Any

import click
from kombu.utils.imports import symbol_by_name

from celery.bin.base import LOG_LEVEL, CeleryDaemonCommand, handle_preload_options, option
from celery.bin.daemons import apply_extra_settings, become, detached, writable
from celery.exceptions import CeleryCommandException
from celery.platforms import EX_FAILURE
from celery.utils.imports import load_extension_class_names
from celery.utils.nodenames import host_format

__all__ = ["beat"]

BEAT = "Beat Options"


@click.command(cls=CeleryDaemonCommand, context_settings={"allow_extra_args": True}, name="beat")
@option("--detach", group=BEAT, is_flag=True, help="Go on in the background.")
@option(*("-s", "--schedule"), group=BEAT, help="The file that the schedule is kept in.")
@option(
    *("-S", "--scheduler"),
    group=BEAT,
    help="The scheduler: its class, such as django_celery_beat.schedulers:DatabaseScheduler.",
)
@option("--max-interval", group=BEAT, type=int, help="Look at the schedule so often, in seconds.")
@option(
    "--enable-remote-control/--no-enable-remote-control",
    "remote_control",
    group=BEAT,
    default=None,
    help="Answer `inspect().ping()`, for probes.",
)
@option(*("-n", "--hostname"), group=BEAT, help="The name to answer by: celerybeat@%h.")
@option(
    *("-l", "--loglevel"), group=BEAT, type=LOG_LEVEL, default="WARNING", help="Least urgent logs."
)
@click.pass_context
@handle_preload_options
def beat(
    ctx: click.Context,
    /,
    detach: bool = False,
    logfile: str | None = None,
    pidfile: str | None = None,
    hostname: str | None = None,
    **kwargs: Any,
) -> Any:
    """Start the beat periodic task scheduler.

    \b
    $ celery -A proj beat -l INFO
    $ celery -A proj beat -S django_celery_beat.schedulers:DatabaseScheduler
    """
    app, obj = ctx.obj.app, ctx.obj
    apply_extra_settings(app, ctx)
    daemon = {name: kwargs.pop(name, None) for name in ("uid", "gid", "umask", "executable")}
    if detach:
        ctx.exit(detached(daemon["executable"], logfile, pidfile))
    become(daemon)
    if logfile:
        logfile = writable(host_format(logfile))
    _look_up(kwargs.get("scheduler") or app.conf.beat_scheduler)
    make = partial(app.Beat, logfile=logfile, pidfile=pidfile, no_color=obj.no_color)
    return make(quiet=obj.quiet, hostname=hostname and host_format(hostname), **kwargs).run()


def _look_up(scheduler: Any) -> None:
    """Raises `CeleryCommandException` for a scheduler that cannot be imported."""
    aliases = dict(load_extension_class_names("celery.beat_schedulers"))
    try:
        symbol_by_name(scheduler, aliases=aliases)
    except (AttributeError, ImportError) as error:
        reason = " ".join(str(error).split())
        raise CeleryCommandException(
            f"there is no scheduler {scheduler!r}: {reason}", EX_FAILURE
        ) from None
