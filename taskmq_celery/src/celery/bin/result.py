"""``celery result``: wait for a task and print what it returned."""

from __future__ import annotations

from typing import Any

import click

from celery.bin.base import CeleryCommand, CeleryOption, handle_preload_options

__all__ = ["result"]

GROUP = "Result Options"


@click.command(cls=CeleryCommand)
@click.argument("task_id")
@click.option("-t", "--task", cls=CeleryOption, help_group=GROUP, help="Name of the task.")
@click.option(
    "--traceback", cls=CeleryOption, is_flag=True, help_group=GROUP, help="Print its traceback."
)
@click.pass_context
@handle_preload_options
def result(ctx: click.Context, task_id: str, task: str | None, traceback: bool) -> None:
    """Print the return value for a given task id."""
    app = ctx.obj.app
    kind: Any = app.tasks[task].AsyncResult if task else app.AsyncResult
    found = kind(task_id)
    ctx.obj.echo(str(found.traceback if traceback else found.get()))
