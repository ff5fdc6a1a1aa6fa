"""``celery list``: what the broker knows."""

from __future__ import annotations

import click

from celery.bin.base import CeleryCommand, asking_workers, handle_preload_options
from celery.exceptions import CeleryCommandException
from celery.platforms import EX_UNAVAILABLE

__all__ = ["bindings", "list_"]

ROW = "{:<28} {:<28} {}"


@click.group(name="list")
@click.pass_context
@handle_preload_options
def list_(ctx: click.Context) -> None:
    """Tell what the broker knows (RabbitMQ: by its management plugin)."""


@list_.command(cls=CeleryCommand)
@click.pass_context
def bindings(ctx: click.Context) -> None:
    """Tell which queues are bound to which exchanges."""
    app = ctx.obj.app
    with asking_workers("list bindings"), app.connection_for_read() as connection:
        app.amqp.TaskConsumer(connection)  # declares the queues
        manager = connection.manager
        if not hasattr(manager, "get_bindings"):
            scheme = connection.transport_cls
            raise CeleryCommandException(
                f"a broker of {scheme}:// keeps no list of its bindings", EX_UNAVAILABLE
            )
        found = manager.get_bindings()
    ctx.obj.echo(ROW.format("Queue", "Exchange", "Routing Key"))
    ctx.obj.echo(ROW.format(*("-" * 16,) * 3))
    for each in found:
        key = each["routing_key"] or ""
        ctx.obj.echo(ROW.format(each["destination"], each["source"], key))
