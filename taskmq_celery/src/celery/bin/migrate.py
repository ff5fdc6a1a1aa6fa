"""``celery migrate``: move waiting tasks from one broker to another."""

from __future__ import annotations

from typing import Any

import click
from kombu.connection import Connection

from celery.bin.base import CeleryCommand, CLIContext, handle_preload_options, option

__all__ = ["migrate"]

GROUP = "Migration Options"


@click.command(cls=CeleryCommand)
@click.argument("source")
@click.argument("destination")
@option(*("-n", "--limit"), group=GROUP, type=int, help="No more tasks than this.")
@option(
    *("-t", "--timeout"),
    group=GROUP,
    type=float,
    default=1.0,
    help="Stop when none has come for so many seconds.",
)
@option(*("-a", "--ack-messages"), group=GROUP, is_flag=True, help="Take them out of the source.")
@option(*("-T", "--tasks"), group=GROUP, help="Only tasks of these names, with commas.")
@option(*("-Q", "--queues"), group=GROUP, help="Only these queues, with commas; old:new renames.")
@option(*("-F", "--forever"), group=GROUP, is_flag=True, help="Go on until killed.")
@click.pass_context
@handle_preload_options
def migrate(ctx: click.Context, source: str, destination: str, **options: Any) -> None:
    """Copy waiting tasks from one broker of kombu's to another.

    Keep a copy of the source until you have seen that nothing is missing.
    """
    from celery.contrib.migrate import migrate_tasks  # --help needs none of it

    def tell(state: Any, body: Any, message: Any) -> None:
        _tell(ctx.obj, state, body)

    migrate_tasks(
        Connection(source),
        Connection(destination),
        callback=tell,
        app=ctx.obj.app,
        **options,
    )


def _tell(context: CLIContext, state: Any, body: dict[str, Any]) -> None:
    context.echo(f"Migrating task {state.count}/{state.strtotal}: {body['task']}[{body['id']}]")
