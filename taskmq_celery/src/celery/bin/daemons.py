"""What commands share that can be daemons: ``celery worker`` and ``celery beat``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click import UsageError

from celery import platforms
from celery._state import get_current_app
from celery.exceptions import CeleryCommandException
from celery.platforms import EX_CANTCREAT, EX_FAILURE, maybe_drop_privileges
from celery.utils.log import get_logger
from celery.utils.nodenames import default_nodename, node_format

__all__ = ["apply_extra_settings", "become", "detach", "detached", "writable"]

logger = get_logger("celery.bin.worker")

C_FAKEFORK = os.environ.get("C_FAKEFORK")
"""Stay in the foreground, to try out what `detach` does."""


def apply_extra_settings(app: Any, ctx: click.Context) -> None:
    """Settings behind the options: ``celery -A proj worker -- task.acks_late=1``."""
    if ctx.args:
        try:
            app.config_from_cmdline(ctx.args)
        except (KeyError, ValueError) as error:
            reason = error.args[0] if error.args else error
            raise UsageError(
                f"Unable to parse extra configuration from command line. Reason: {reason}", ctx
            ) from None


def become(options: dict[str, Any]) -> None:
    """Be the user that ``uid``, ``gid`` and ``umask`` say."""
    umask = options.get("umask")
    if umask:
        os.umask(umask if isinstance(umask, int) else int(str(umask), 8))
    try:
        maybe_drop_privileges(uid=options.get("uid"), gid=options.get("gid"))
    except (KeyError, PermissionError) as error:
        reason = error.args[0] if isinstance(error, KeyError) else error
        raise CeleryCommandException(f"cannot change the user: {reason}", EX_FAILURE) from None


def writable(path: str) -> str:
    """``path``, if it can be opened for the log."""
    try:
        with Path(path).open("a"):
            return path
    except OSError as error:
        raise CeleryCommandException(
            f"cannot write the log file {path}: {error.strerror}", EX_CANTCREAT
        ) from None


def detached(executable: str | None, logfile: str | None, pidfile: str | None) -> int:
    """Start the same command again, in a session of its own, and leave it alone."""
    if logfile:
        writable(logfile)
    if pidfile and not Path(pidfile).resolve().parent.is_dir():
        raise CeleryCommandException(
            f"cannot create the pid file {pidfile}: there is no such folder", EX_CANTCREAT
        )
    command = [executable or sys.executable, "-m", "celery", *_without_detach(sys.argv[1:])]
    nowhere = subprocess.DEVNULL
    subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)
    return 0


def detach(
    path: str,
    argv: Sequence[str],
    logfile: str | None = None,
    pidfile: str | None = None,
    uid: int | str | None = None,
    gid: int | str | None = None,
    umask: int | str | None = None,
    workdir: str | None = None,
    fake: bool = False,
    app: Any = None,
    executable: str | None = None,
    hostname: str | None = None,
) -> int:
    """Have this process go on in the background as another program: ``path``, or ``executable``,
    with these arguments. Gives an exit code if that does not work; what failed is in ``logfile``,
    whose placeholders are those of a worker of this name. ``fake`` stays in the foreground, and so
    does the variable C_FAKEFORK."""
    program = executable or path
    fake = bool(C_FAKEFORK) or fake
    with platforms.detached(logfile, pidfile, uid, gid, umask or 0, workdir, fake):
        try:
            os.execv(program, [program, *argv])  # noqa: S606  # what was asked for
        except OSError as error:
            log = (app or get_current_app()).log
            shown = logfile and node_format(logfile, default_nodename(hostname))
            log.setup_logging_subsystem("ERROR", shown, hostname=hostname)
            logger.critical("Can't exec %r: %s", " ".join([program, *argv]), error)
    return EX_FAILURE


def _without_detach(arguments: Sequence[str]) -> list[str]:
    return [one for one in arguments if one not in ("-D", "--detach")]
