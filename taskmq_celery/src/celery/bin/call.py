"""``celery call``: send one task by name."""

from __future__ import annotations

import datetime
from typing import Any

import click

from celery.bin.base import (
    ISO8601,
    ISO8601_OR_FLOAT,
    JSON_ARRAY,
    JSON_OBJECT,
    CeleryCommand,
    handle_preload_options,
    option,
)

__all__ = ["call"]

CALLING, ROUTING = "Calling Options", "Routing Options"


@click.command(cls=CeleryCommand)
@click.argument("name")
@option("-a", "--args", group=CALLING, type=JSON_ARRAY, default="[]", help="Its arguments.")
@option("-k", "--kwargs", group=CALLING, type=JSON_OBJECT, default="{}", help="By keyword.")
@option("--eta", group=CALLING, type=ISO8601, help="Not before this instant.")
@option("--countdown", group=CALLING, type=float, help="Not before so many seconds from now.")
@option("--expires", group=CALLING, type=ISO8601_OR_FLOAT, help="Not after: instant or seconds.")
@option("--serializer", group=CALLING, default="json", help="How the arguments are encoded.")
@option("--queue", group=ROUTING, help="The queue.")
@option("--exchange", group=ROUTING, help="The exchange.")
@option("--routing-key", group=ROUTING, help="The routing key.")
@click.pass_context
@handle_preload_options
def call(
    ctx: click.Context,
    /,
    name: str,
    args: list[Any],
    kwargs: dict[str, Any],
    eta: datetime.datetime | None,
    **options: Any,
) -> None:
    """Call a task by name. Prints the id of the call."""
    given = {option: value for option, value in options.items() if value is not None}
    sent = ctx.obj.app.send_task(name, args=args, kwargs=kwargs, eta=eta, **given)
    ctx.obj.echo(sent.id)
