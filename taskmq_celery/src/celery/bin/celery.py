"""The ``celery`` command: global options, the app, and the sub-commands."""

from __future__ import annotations

import os
import pathlib
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

import click
from click.exceptions import NoSuchOption, UsageError
from click_didyoumean import DYMGroup
from click_plugins import with_plugins

from celery import VERSION_BANNER
from celery.app.base import Celery
from celery.app.lookup import find_app
from celery.bin.amqp import amqp
from celery.bin.base import (
    CeleryCommand,
    CLIContext,
    handle_preload_options,
    handles_preload_options,
    option,
    with_preload_options,
)
from celery.bin.beat import beat
from celery.bin.call import call
from celery.bin.control import control, inspect, status
from celery.bin.events import events
from celery.bin.graph import graph
from celery.bin.list import list_
from celery.bin.logtool import logtool
from celery.bin.migrate import migrate
from celery.bin.multi import multi
from celery.bin.purge import purge
from celery.bin.result import result
from celery.bin.shell import shell
from celery.bin.types import ParamType
from celery.bin.upgrade import upgrade
from celery.bin.worker import worker
from celery.exceptions import CeleryCommandException, ImproperlyConfigured
from celery.loaders import get_loader_cls
from celery.platforms import EX_CANTCREAT, LockFailed
from celery.utils.imports import import_from_cwd, symbol_by_name

__all__ = ["celery", "main"]

GLOBAL = "Global Options"
UNABLE_TO_LOAD = "Unable to load celery application."
UNABLE_TO_LOAD_APP_MODULE_NOT_FOUND = f"{UNABLE_TO_LOAD} The module {{0}} was not found."
UNABLE_TO_LOAD_APP_APP_MISSING = f"{UNABLE_TO_LOAD} {{0}}"
UNABLE_TO_LOAD_APP_ERROR_OCCURRED = (
    f"{UNABLE_TO_LOAD} While trying to load the module {{0}} the following error occurred: {{1}}"
)
WRONG_APP_OPTION_USAGE_MESSAGE = """\
You are using `{option}` as an option of the {command} sub-command:
celery {command} {option} celeryapp <...>

Since Celery 5.0 it is a global option and comes first:
celery {option} celeryapp {command} <...>"""


class CeleryGroup(DYMGroup):  # type: ignore[misc]  # click-didyoumean carries no types
    """Turns what a user can put right into one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except NoSuchOption as error:
            if error.option_name in ("-A", "--app") and error.ctx is not None:
                text = WRONG_APP_OPTION_USAGE_MESSAGE.format(
                    option=error.option_name, command=error.ctx.info_name
                )
                click.echo(text, err=True)
            raise
        except click.ClickException:
            raise  # it says what is wrong
        except LockFailed as error:
            raise CeleryCommandException(
                f"cannot create the pid file: {error}", EX_CANTCREAT
            ) from None
        except ImproperlyConfigured as error:
            raise CeleryCommandException(_one_line(error), os.EX_CONFIG) from None
        except Exception as error:
            # Loaded when it is needed: `celery --help` needs no engine.
            problem = symbol_by_name("taskmq_celery.problems:explain")(error)
            if problem is None:
                raise
            raise CeleryCommandException(*problem) from None


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


class AppPath(ParamType):
    """The text after ``-A``. A program that calls ``app.start()`` gives the app itself."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value


def _change_folder(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    if value:
        os.chdir(value)
    return value


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        click.echo(VERSION_BANNER)
        ctx.exit()


@with_plugins(entry_points(group="celery.commands"))  # type: ignore[untyped-decorator]  # no types
@click.group(cls=CeleryGroup, invoke_without_command=True)
@option("-A", "--app", envvar="APP", type=AppPath(), group=GLOBAL)
@option("-b", "--broker", envvar="BROKER_URL", group=GLOBAL)
@option("--result-backend", envvar="RESULT_BACKEND", group=GLOBAL)
@option("--loader", envvar="LOADER", group=GLOBAL)
@option("--config", envvar="CONFIG_MODULE", group=GLOBAL)
@option(
    "--workdir",
    type=click.Path(exists=True, file_okay=False, path_type=pathlib.Path),
    is_eager=True,
    callback=_change_folder,
    group=GLOBAL,
)
@option(
    "-C",
    "--no-color",
    envvar="NO_COLOR",
    is_flag=True,
    group=GLOBAL,
)
@option("-q", "--quiet", is_flag=True, group=GLOBAL)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version)
@option(
    "--skip-checks",
    envvar="SKIP_CHECKS",
    is_flag=True,
    group=GLOBAL,
    help="Leave out Django's system checks, as does SKIP_CHECKS=1 in the environment.",
)
@click.pass_context
def celery(ctx: click.Context, /, app: str | None, **options: Any) -> None:
    """Celery command entrypoint."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit()
    for name, variable in ENVIRONMENT.items():
        if options[name]:
            # The app reads these itself, and so do the processes that it starts.
            os.environ[variable] = "true" if options[name] is True else str(options[name])
    _check("configuration module", options["config"], import_from_cwd)
    _check("loader", options["loader"], get_loader_cls)
    loaded = _load(app, ctx) if app is not None else None
    ctx.obj = CLIContext(
        app=loaded,
        no_color=options["no_color"],
        workdir=options["workdir"],
        quiet=options["quiet"],
    )
    _add_user_options(ctx.obj.app)


ENVIRONMENT = {
    "broker": "CELERY_BROKER_URL",
    "result_backend": "CELERY_RESULT_BACKEND",
    "loader": "CELERY_LOADER",
    "config": "CELERY_CONFIG_MODULE",
    "skip_checks": "CELERY_SKIP_CHECKS",
}


def _load(app: Any, ctx: click.Context) -> Any:
    """The app. Raises ``UsageError`` with one line that says why there is none."""
    if isinstance(app, Celery):
        return app
    try:
        found = find_app(app)
    except ModuleNotFoundError as error:
        if error.name and (
            app == error.name or app.startswith((f"{error.name}.", f"{error.name}:"))
        ):
            raise UsageError(UNABLE_TO_LOAD_APP_MODULE_NOT_FOUND.format(app), ctx) from None
        raise UsageError(_while_loading(app, error), ctx) from None
    except AttributeError as error:
        if error.__traceback__ is not None and _is_ours(error):
            raise UsageError(UNABLE_TO_LOAD_APP_APP_MISSING.format(error), ctx) from None
        raise UsageError(_while_loading(app, error), ctx) from None
    except Exception as error:
        raise UsageError(_while_loading(app, error), ctx) from None
    if not isinstance(found, Celery):
        kind = type(found).__name__
        raise UsageError(f"{UNABLE_TO_LOAD} {app} is no Celery app but of type {kind}.", ctx)
    return found


def _is_ours(error: BaseException) -> bool:
    """Whether the lookup itself raised, not the program that was being imported."""
    innermost = traceback.extract_tb(error.__traceback__)[-1]
    return pathlib.Path(innermost.filename).name == "lookup.py"


def _while_loading(app: str, error: BaseException) -> str:
    """One line with the place: the last one that belongs to the program."""
    where = ""
    if isinstance(error, SyntaxError) and error.filename:
        where = f" ({error.filename}, line {error.lineno})"
    else:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename[0] != "<"]
        here = str(pathlib.Path.cwd())
        own = [frame for frame in frames if frame.filename.startswith(here)] or frames
        where = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    text = error.msg if isinstance(error, SyntaxError) else _one_line(error)
    said = f"{type(error).__name__}: {text}{where}"
    return UNABLE_TO_LOAD_APP_ERROR_OCCURRED.format(app, said)


def _check(what: str, name: str | None, load: Callable[[str], Any]) -> None:
    """Raises ``UsageError`` if what the user named cannot be found."""
    if name is None:
        return
    try:
        load(name)
    except ModuleNotFoundError as error:
        if error.name and name.startswith(error.name):
            raise UsageError(f"The {what} {name} was not found.") from None
        raise
    except AttributeError as error:
        raise UsageError(f"The {what} {name} was not found: {error}") from None


def _add_user_options(app: Any) -> None:
    """Options that an app adds: ``app.user_options["worker"]``, and ``"preload"`` for all."""
    extra = {name: list(app.user_options.get(name, ())) for name in ("beat", "worker")}
    preload = list(app.user_options.get("preload", ()))
    for name, command in celery.commands.items():
        wanted = [*preload, *extra.get(name, ())]
        command.params.extend(one for one in wanted if one not in command.params)
        if preload and command.callback and not handles_preload_options(command.callback):
            command.callback = with_preload_options(command.callback)  # a plugin's


@celery.command(cls=CeleryCommand)  # type: ignore[untyped-decorator]  # the group has no types
@click.pass_context
@handle_preload_options
def report(ctx: click.Context) -> None:
    """Print versions and settings, for a report of a bug; without passwords and keys."""
    ctx.obj.echo(ctx.obj.app.bugreport())


for _command in (
    *(amqp, beat, call, control, events, graph, inspect, list_, logtool, migrate),
    *(multi, purge, result, shell, status, upgrade, worker),
):
    celery.add_command(_command)


def main() -> int:
    """Run the command line of this process. Does not return: it exits."""
    # A console script starts elsewhere: modules in the working directory must be found all the
    # same, by child processes too.
    here = str(pathlib.Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return int(celery(auto_envvar_prefix="CELERY") or 0)
