"""``celery events``: look at what workers tell."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click
from click import UsageError
from kombu.exceptions import OperationalError

from celery.bin.base import (
    LOG_LEVEL,
    CeleryDaemonCommand,
    handle_preload_options,
    handle_remote_command_error,
    option,
)
from celery.bin.daemons import become, detached, writable
from celery.utils.imports import symbol_by_name
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
        _heard(_run_evdump, app)
        return
    if not camera:
        raise UsageError("say --dump or --camera: there is no screen in this version.", ctx)
    if detach:
        ctx.exit(detached(daemon.get("executable"), logfile, pidfile))
    become(daemon)
    where = writable(host_format(logfile)) if logfile else None
    _heard(
        _run_evcam,
        camera,
        app=app,
        freq=frequency,
        maxrate=maxrate,
        loglevel=loglevel,
        logfile=where,
        pidfile=pidfile,
    )


def _heard(run: Callable[..., None], *args: Any, **options: Any) -> None:
    try:
        run(*args, **options)
    except OperationalError as error:
        handle_remote_command_error("events", error)


def _run_evdump(app: Any) -> None:
    # Loaded when it is needed: `celery --help` needs no engine.
    evdump = symbol_by_name("celery.events.dumper:evdump")
    evdump(app=app, out=sys.stdout)


def _run_evcam(camera: str, **options: Any) -> None:
    evcam = symbol_by_name("celery.events.snapshot:evcam")
    evcam(camera, **options)
