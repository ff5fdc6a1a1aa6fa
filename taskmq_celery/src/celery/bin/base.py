"""What every sub-command of ``celery`` shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from inspect import Parameter, signature
from pprint import pformat as pformat
from typing import Any, NoReturn, TypeVar

import click
from click import Context, ParamType
from kombu.exceptions import OperationalError
from kombu.utils.json import dumps
from kombu.utils.objects import cached_property

from celery._state import get_current_app
from celery.exceptions import CeleryCommandException
from celery.platforms import EX_UNAVAILABLE
from celery.signals import user_preload_options
from celery.utils.log import mlevel as mlevel
from celery.utils.text import indent
from celery.utils.time import maybe_iso8601 as maybe_iso8601

from .types import (
    COMMA_SEPARATED_LIST,
    ISO8601,
    ISO8601_OR_FLOAT,
    JSON_ARRAY,
    JSON_OBJECT,
    LOG_LEVEL,
    CommaSeparatedList,
    ISO8601DateTime,
    ISO8601DateTimeOrFloat,
    JsonArray,
    JsonObject,
    LogLevel,
)

__all__ = [
    "COMMA_SEPARATED_LIST",
    "ISO8601",
    "ISO8601_OR_FLOAT",
    "JSON_ARRAY",
    "JSON_OBJECT",
    "LOG_LEVEL",
    "CLIContext",
    "CeleryCommand",
    "CeleryDaemonCommand",
    "CeleryOption",
    "CommaSeparatedList",
    "DaemonOption",
    "ISO8601DateTime",
    "ISO8601DateTimeOrFloat",
    "JsonArray",
    "JsonObject",
    "LogLevel",
    "ParamType",
    "asking_workers",
    "handle_preload_options",
    "handle_remote_command_error",
    "handles_preload_options",
    "option",
    "with_preload_options",
]

F = TypeVar("F", bound=Callable[..., Any])


class CLIContext:
    """``ctx.obj``: the app, and how to print."""

    def __init__(self, app: Any, no_color: bool, workdir: str | None, quiet: bool = False) -> None:
        self.app = app or get_current_app()
        self.no_color = no_color
        self.quiet = quiet
        self.workdir = workdir

    @cached_property
    def OK(self) -> str:  # noqa: N802  # Celery's name
        return self.style("OK", fg="green", bold=True)

    @cached_property
    def ERROR(self) -> str:  # noqa: N802  # Celery's name
        return self.style("ERROR", fg="red", bold=True)

    def style(self, message: str | None = None, **kwargs: Any) -> str:
        return (message or "") if self.no_color else click.style(message or "", **kwargs)

    def secho(self, message: str | None = None, **kwargs: Any) -> None:
        if self.no_color:
            kwargs["color"] = False
        click.secho(message, **kwargs)

    def echo(self, message: str | None = None, **kwargs: Any) -> None:
        if self.no_color:
            kwargs["color"] = False
        click.echo(message, **kwargs)

    def error(self, message: str | None = None, **kwargs: Any) -> None:
        """Print to standard error, in red."""
        kwargs["err"] = True
        self.secho(message, fg="red", **kwargs)

    def pretty(self, n: Any) -> tuple[str, str]:
        """A worker's answer: whether it is one or an error, and as text."""
        if isinstance(n, (list, tuple)):
            return self.OK, self.pretty_list(n)
        if isinstance(n, dict):
            if "ok" in n or "error" in n:
                return self.pretty_dict_ok_error(n)
            return self.OK, dumps(n, indent=4)
        return self.OK, n if isinstance(n, str) else repr(n)

    def pretty_list(self, n: Any) -> str:
        """One line for each."""
        return "\n".join(f"* {each}" for each in n) or "- empty -"

    def pretty_dict_ok_error(self, n: dict[str, Any]) -> tuple[str, str]:
        """``{"ok": …}`` or ``{"error": …}``."""
        if "ok" in n:
            return self.OK, indent(self.pretty(n["ok"])[1], 4)
        return self.ERROR, indent(self.pretty(n["error"])[1], 4)

    def say_chat(self, direction: str, title: str, body: str = "", show_body: bool = False) -> None:
        """A line of talk with a worker, and what it said. With ``--quiet`` the questions (``<-``)
        are left out, and the arrows."""
        if direction == "<-" and self.quiet:
            return
        arrow = "" if self.quiet else f"{self.style(direction, fg='white', bold=True)} "
        self.echo(f"{arrow} {title}")
        if body and show_body:
            self.echo(body)


def handle_remote_command_error(command_name: str, exc: Exception) -> NoReturn:
    """Raise for people what went wrong when workers were asked: one line, and exit code 69."""
    if isinstance(exc, click.ClickException):
        raise exc
    reason = " ".join(str(exc).split())
    if isinstance(exc, OperationalError):
        told = f"Could not connect to the message broker. Reason: {reason}"
    else:
        told = f"Unable to run the `{command_name}` command. Reason: {reason}"
    raise CeleryCommandException(told, EX_UNAVAILABLE) from exc


@contextmanager
def asking_workers(command_name: str) -> Iterator[None]:
    """What goes wrong inside is told by `handle_remote_command_error`."""
    try:
        yield
    except Exception as error:
        handle_remote_command_error(command_name, error)


def handle_preload_options(f: Callable[..., Any]) -> Callable[..., Any]:
    """Lets a command take the options that an app adds to every one (``user_options``).

    They are sent with the signal ``user_preload_options``; the command is given those that it has
    parameters for. ``f`` is called with the context first.
    """
    if handles_preload_options(f):
        return f

    def caller(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        return f(ctx, *args, **_preloaded(f, ctx.obj.app, kwargs))

    return _marked(caller, f)


def with_preload_options(callback: Callable[..., Any]) -> Callable[..., Any]:
    """The same for the callback of a command that knows nothing of it, such as a plugin's."""

    def caller(*args: Any, **kwargs: Any) -> Any:
        app = click.get_current_context().obj.app
        return callback(*args, **_preloaded(callback, app, kwargs))

    return _marked(caller, callback)


def handles_preload_options(f: Any) -> bool:
    """Whether a command or its callback takes the options that an app adds to every one."""
    return getattr(f, "_handles_preload_options", False)


def _marked(caller: Callable[..., Any], f: Callable[..., Any]) -> Callable[..., Any]:
    update_wrapper(caller, f)
    caller._handles_preload_options = True  # type: ignore[attr-defined]  # found by its copies too
    return caller


def _preloaded(f: Callable[..., Any], app: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Send the signal; ``given`` without what ``f`` has no parameter for."""
    names = [option.name for option in app.user_options.get("preload", ())]
    preload = {name: given[name] for name in names if name in given}
    if not preload:
        return given
    user_preload_options.send(sender=f, app=app, options=preload)
    known = signature(f).parameters
    if any(one.kind is Parameter.VAR_KEYWORD for one in known.values()):
        return given
    return {name: value for name, value in given.items() if name in known or name not in preload}


def option(*names: str, group: str, **settings: Any) -> Callable[[F], F]:
    """A `CeleryOption` as a decorator."""
    return click.option(*names, cls=CeleryOption, help_group=group, **settings)


class CeleryOption(click.Option):
    """An option that belongs to a group in ``--help``, and may take its default from the app:
    ``default_value_from_context`` is looked up in ``ctx.obj``, dots and all."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.help_group: str | None = kwargs.pop("help_group", None)
        self.default_value_from_context: str | None = kwargs.pop("default_value_from_context", None)
        super().__init__(*args, **kwargs)

    def get_default(self, ctx: Context, *args: Any, **kwargs: Any) -> Any:
        if self.default_value_from_context and ctx.obj is not None:
            self.default = getattr(ctx.obj, self.default_value_from_context)
        return super().get_default(ctx, *args, **kwargs)


class CeleryCommand(click.Command):
    """A command whose ``--help`` shows its options group by group."""

    def format_options(self, ctx: Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str | None, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(parameter, "help_group", None), []).append(record)
        plain = groups.pop(None, [])
        for title, rows in [*groups.items(), ("Options", plain)]:
            if rows:
                with formatter.section(str(title)):
                    formatter.write_dl(rows)


class DaemonOption(CeleryOption):
    """An option of daemons. Its default is the setting ``<command>_<option>``, if there is one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("help_group", "Daemonization Options")
        kwargs["callback"] = kwargs.pop("callback", self.daemon_setting)
        super().__init__(*args, **kwargs)

    def daemon_setting(self, ctx: Context, opt: CeleryOption, value: Any) -> Any:
        if value or ctx.obj is None:
            return value
        return getattr(ctx.obj.app.conf, f"{ctx.command.name}_{self.name}", None)


class CeleryDaemonCommand(CeleryCommand):
    """A command that can be a daemon: log file, pid file, user."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(
            (
                DaemonOption(("--logfile", "-f"), help="Write the log there, not to stderr."),
                DaemonOption(
                    ("--pidfile",), help="Hold this file, with the process id, meanwhile."
                ),
                DaemonOption(("--uid",), help="Become this user, for good."),
                DaemonOption(("--gid",), help="Become this group, for good."),
                DaemonOption(("--umask",), help="File mode creation mask, in octal."),
                DaemonOption(("--executable",), help="The Python to start with --detach."),
            )
        )
