"""``celery status``, ``celery inspect`` and ``celery control``: ask workers, and tell them.

A command is one of the worker's (`celery.worker.control`), a program's own included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import click
from kombu.utils.json import dumps

from celery.bin.base import (
    COMMA_SEPARATED_LIST,
    CeleryCommand,
    CLIContext,
    asking_workers,
    handle_preload_options,
    option,
)
from celery.exceptions import CeleryCommandException
from celery.platforms import EX_UNAVAILABLE
from celery.utils.text import indent, pluralize

__all__ = ["control", "inspect", "status"]

REMOTE = "Remote Control Options"
NO_REPLY = "No nodes replied within time constraint"
SILENT = ("hello",)
"""Questions that workers ask one another."""

F = TypeVar("F", bound=Callable[..., Any])


def remote_options(function: F) -> F:
    """What the three commands share."""
    for decorate in (
        option("-j", "--json", "as_json", group=REMOTE, is_flag=True, help="Answer in JSON."),
        option(
            *("-d", "--destination"),
            group=REMOTE,
            type=COMMA_SEPARATED_LIST,
            help="Names of the workers that are meant, with commas; all, if left out.",
        ),
        option(
            *("-t", "--timeout"), group=REMOTE, type=float, help="Seconds to wait for an answer."
        ),
    ):
        function = decorate(function)
    return function


def remote_command(kind: str) -> Callable[[F], F]:
    """The arguments of ``inspect`` and ``control``, and ``--list`` for commands of a kind."""

    def show(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value:
            _list(ctx, kind)

    def decorate(function: F) -> F:
        listing = click.option(
            "--list",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=show,
            help=f"Show the {kind} commands that there are.",
        )
        rest = click.argument("args", nargs=-1, type=click.UNPROCESSED)
        return remote_options(listing(click.argument("command")(rest(function))))

    return decorate


def _list(ctx: click.Context, kind: str) -> None:
    formatter = click.HelpFormatter()
    rows = [
        (" ".join(filter(None, (name, meta.signature))), meta.help or "")
        for name, meta in _commands(kind)
    ]
    with formatter.section(f"{kind.capitalize()} Commands"):
        formatter.write_dl(rows)
    ctx.obj.echo(formatter.getvalue().rstrip())
    ctx.exit()


def _commands(kind: str) -> Iterator[tuple[str, Any]]:
    from celery.worker.control import Panel  # --help needs no worker

    for name, meta in sorted(Panel.meta.items()):
        if meta.type == kind and meta.visible and name not in SILENT:
            yield name, meta


def _known(kind: str, command: str) -> Any:
    """What is known of a command. Raises ``UsageError`` if it is none of this kind."""
    known = dict(_commands(kind))
    if command not in known:
        names = ", ".join(known)
        raise click.UsageError(
            f"Command {command} not recognized. Available {kind} commands: {names}"
        )
    return known[command]


def _arguments(meta: Any, command: str, given: Sequence[str]) -> dict[str, Any]:
    """The words behind a command by the names of its arguments.

    Raises ``UsageError`` if there are too many, or one is not of its type. Too few are left to the
    worker, which knows the defaults.
    """
    values = list(given)
    named: dict[str, Any] = {}
    for name, kind in meta.args or ():
        if not values:
            break
        word = values.pop(0)
        try:
            named[name] = word if kind is None else kind(word)
        except (TypeError, ValueError) as error:
            raise click.UsageError(f"Command {command!r}: {name}: {error}") from None
    if values and meta.variadic:
        named[meta.variadic], values = values, []
    if values:
        raise click.UsageError(f"Command {command!r} takes arguments: {meta.signature or 'none'}")
    return named


def _say_reply(context: CLIContext, reply: dict[str, Any], *, body: bool = True) -> None:
    """One worker's answer."""
    for node, answer in reply.items():
        state, text = context.pretty(answer)
        context.say_chat("->", f"{node}: {state}", indent(text, 4) if body else "", show_body=body)


def _online(context: CLIContext, count: int) -> None:
    context.echo(f"\n{count} {pluralize(count, 'node')} online.")


def _unless_silent(replies: Any) -> Any:
    if not replies:
        raise CeleryCommandException(NO_REPLY, EX_UNAVAILABLE)
    return replies


def _asked(
    context: CLIContext,
    kind: str,
    command: str,
    given: Sequence[str],
    ask: Callable[..., Any],
    timeout: float | None,
    destination: list[str] | None,
    as_json: bool,
) -> Any:
    """What workers answer to a command of this kind; each is said as it comes, if not in JSON."""
    meta = _known(kind, command)
    arguments = _arguments(meta, command, given)
    with asking_workers(f"{kind} {command}"):
        replies = ask(
            arguments,
            timeout=meta.default_timeout if timeout is None else timeout,
            destination=destination,
            callback=None if as_json else lambda reply: _say_reply(context, reply),
        )
    return _unless_silent(replies)


@click.command(cls=CeleryCommand)
@remote_options
@click.pass_context
@handle_preload_options
def status(
    ctx: click.Context, timeout: float | None, destination: list[str] | None, as_json: bool
) -> None:
    """Show which workers are online."""
    context: CLIContext = ctx.obj
    with asking_workers("status"):
        replies = context.app.control.inspect(
            timeout=1.0 if timeout is None else timeout,
            destination=destination,
            callback=None if as_json else lambda reply: _say_reply(context, reply, body=False),
        ).ping()
    _unless_silent(replies)
    if as_json:
        context.echo(dumps(replies))
    _online(context, len(replies))


@click.command(cls=CeleryCommand, context_settings={"ignore_unknown_options": True})
@remote_command("inspect")
@click.pass_context
@handle_preload_options
def inspect(
    ctx: click.Context,
    command: str,
    args: tuple[str, ...],
    timeout: float | None,
    destination: list[str] | None,
    as_json: bool,
) -> None:
    """Ask workers: ``celery inspect active``.

    The broker must be able to broadcast: RabbitMQ and Redis are.
    """
    context: CLIContext = ctx.obj

    def ask(arguments: dict[str, Any], **how: Any) -> Any:
        return context.app.control.inspect(**how)._request(command, **arguments)

    replies = _asked(context, "inspect", command, args, ask, timeout, destination, as_json)
    if as_json:
        context.echo(dumps(replies))
    elif not context.quiet:
        _online(context, len(replies))


@click.command(cls=CeleryCommand, context_settings={"ignore_unknown_options": True})
@remote_command("control")
@click.pass_context
@handle_preload_options
def control(
    ctx: click.Context,
    command: str,
    args: tuple[str, ...],
    timeout: float | None,
    destination: list[str] | None,
    as_json: bool,
) -> None:
    """Tell workers what to do: ``celery control rate_limit proj.add 10/m``.

    The broker must be able to broadcast: RabbitMQ and Redis are.
    """
    context: CLIContext = ctx.obj

    def ask(arguments: dict[str, Any], **how: Any) -> Any:
        return context.app.control.broadcast(command, arguments=arguments, reply=True, **how)

    replies = _asked(context, "control", command, args, ask, timeout, destination, as_json)
    if as_json:
        context.echo(dumps(replies))
