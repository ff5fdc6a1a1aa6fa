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

from celery.exceptions import CeleryCommandException
from celery.platforms import EX_CANTCREAT, EX_FAILURE, maybe_drop_privileges

__all__ = ["apply_extra_settings", "become", "detached", "writable"]


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


def _without_detach(arguments: Sequence[str]) -> list[str]:
    return [one for one in arguments if one not in ("-D", "--detach")]
