"""``celery purge``: delete what waits."""

from __future__ import annotations

from typing import Any

import click

from celery.bin.base import COMMA_SEPARATED_LIST, CeleryCommand, handle_preload_options, option
from celery.utils.imports import symbol_by_name
from celery.utils.text import pluralize

__all__ = ["purge"]

GROUP = "Purging Options"


@click.command(cls=CeleryCommand, context_settings={"allow_extra_args": True})
@option(*("-f", "--force"), group=GROUP, is_flag=True, help="Do not ask first.")
@option(
    *("-Q", "--queues"),
    group=GROUP,
    type=COMMA_SEPARATED_LIST,
    help="Only these queues, with commas.",
)
@option(
    *("-X", "--exclude-queues"),
    group=GROUP,
    type=COMMA_SEPARATED_LIST,
    help="Not these queues, with commas.",
)
@click.pass_context
@handle_preload_options
def purge(
    ctx: click.Context,
    force: bool,
    queues: list[str] | None,
    exclude_queues: list[str] | None,
    **_: Any,
) -> None:
    """Delete all that waits in the queues. It cannot be undone."""
    app = ctx.obj.app
    names = set(queues or app.amqp.queues) - set(exclude_queues or ())
    if not names:
        return
    count = len(names)
    where = pluralize(count, "queue")
    if not force:
        listed = ", ".join(sorted(names))
        warning = ctx.obj.style("WARNING", fg="red")
        click.confirm(
            f"{warning}: This will remove all tasks from {where}: {listed}.\n"
            "         There is no undo for this operation!\n\n"
            "(to skip this prompt use the -f option)\n"
            "Are you sure you want to delete all tasks?",
            abort=True,
        )
    # Loaded when it is needed: `celery --help` needs no engine.
    gone = symbol_by_name("taskmq_celery.engine:purge")(app, sorted(names))
    if gone:
        ctx.obj.echo(f"Purged {gone} {pluralize(gone, 'message')} from {count} known task {where}.")
    else:
        ctx.obj.echo(f"No messages purged from {count} {where}.")
