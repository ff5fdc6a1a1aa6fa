"""``celery upgrade``: new names for old settings."""

from __future__ import annotations

import io
import shutil
import tokenize
from pathlib import Path

import click

from celery.bin.base import CeleryCommand, CLIContext, handle_preload_options, option
from celery.exceptions import CeleryCommandException
from celery.platforms import EX_FAILURE
from taskmq_celery.settings import NEW_NAMES

__all__ = ["settings", "upgrade"]

GROUP = "Upgrading Options"


@click.group()
@click.pass_context
@handle_preload_options
def upgrade(ctx: click.Context) -> None:
    """Bring a program up to date."""


@upgrade.command(cls=CeleryCommand)
@click.argument("filename", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@option("--django", group=GROUP, is_flag=True, help="Names for Django's settings: CELERY_….")
@option("--compat", group=GROUP, is_flag=True, help="The same.")
@option("--no-backup", group=GROUP, is_flag=True, help="Do not keep the file as it was.")
@click.pass_context
@handle_preload_options
def settings(
    ctx: click.Context, filename: Path, django: bool, compat: bool, no_backup: bool
) -> None:
    """Give the settings in a file of Python the names that they have since Celery 4."""
    context: CLIContext = ctx.obj
    before = filename.read_bytes()
    context.secho(f"processing {filename}...", fg="green", err=True)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(before).readline)
        after = _renamed(before.decode(encoding), prefixed=django or compat).encode(encoding)
    except (SyntaxError, tokenize.TokenError, UnicodeDecodeError) as error:
        raise CeleryCommandException(f"cannot read {filename}: {error}", EX_FAILURE) from None
    if after == before:
        context.secho("Does not seem to require any changes :-)", fg="green")
        return
    if not no_backup:
        backup = filename.with_name(f"{filename.name}.orig")
        context.secho(f"writing backup to {backup}...", fg="green", err=True)
        shutil.copy(filename, backup)
    filename.write_bytes(after)
    context.secho("Changes to your setting have been made!", fg="green")


def _renamed(source: str, *, prefixed: bool) -> str:
    """The source with new names (``CELERY_…`` if ``prefixed``); texts and comments stay."""
    lines = source.splitlines(keepends=True)
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(source, newline="").readline))):
        if token.type != tokenize.NAME or token.string not in NEW_NAMES:
            continue
        new = NEW_NAMES[token.string]
        (row, start), (_, end) = token.start, token.end
        line = lines[row - 1]
        name = f"CELERY_{new.upper()}" if prefixed else new
        lines[row - 1] = f"{line[:start]}{name}{line[end:]}"
    return "".join(lines)
