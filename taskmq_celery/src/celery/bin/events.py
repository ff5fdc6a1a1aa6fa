"""``celery events``: look at what workers tell."""

from __future__ import annotations

from typing import Any

import click
from click import UsageError

from celery.bin.base import LOG_LEVEL, CeleryDaemonCommand, handle_preload_options, option
from celery.bin.daemons import become, detached, writable
from celery.events.dumper import evdump
from celery.events.snapshot import evcam
from celery.utils.nodenames import host_format

__all__ = ["events"]

DUMPER, SNAPSHOT = "Dumper", "Snapshot"


@click.command(cls=CeleryDaemonCommand, name="events")
@option(*("-d", "--dump"), group=DUMPER, is_flag=True, help="Print events as they come.")
@option(*("-c", "--camera"), group=SNAPSHOT, help="Take pictures with this subclass of Polaroid.")
@option("--detach", group=SNAPSHOT, is_flag=True, help="Go on in the background.")
@option(
    *("-F", "--frequency", "--freq"),
    group=SNAPSHOT,
    type=float,
    default=1.0,
    help="A picture every so many seconds.",
)
@option(*("-r", "--maxrate"), group=SNAPSHOT, help="No more pictures than this: 10/m.")
@option(
    *("-l", "--loglevel"), group=SNAPSHOT, type=LOG_LEVEL, default="INFO", help="Least urgent logs."
)
@click.pass_context
@handle_preload_options
def events(
    ctx: click.Context,
    /,
    dump: bool,
    camera: str | None,
    detach: bool,
    frequency: float,
    maxrate: str | None,
    loglevel: int | str,
    logfile: str | None = None,
    pidfile: str | None = None,
    **daemon: Any,
) -> None:
    """Watch what workers tell: print it, or take pictures.

    \b
    $ celery -A proj events --dump
    $ celery -A proj events -c proj.cameras.Counter -F 10
    """
    app = ctx.obj.app
    if dump:
        evdump(app=app)
        return
    if not camera:
        raise UsageError("say --dump or --camera: there is no screen in this version.", ctx)
    if detach:
        ctx.exit(detached(daemon.get("executable"), logfile, pidfile))
    become(daemon)
    evcam(
        camera,
        app=app,
        freq=frequency,
        maxrate=maxrate,
        loglevel=loglevel,
        logfile=writable(host_format(logfile)) if logfile else None,
        pidfile=pidfile,
    )
