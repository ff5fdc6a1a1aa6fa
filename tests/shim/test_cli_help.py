"""``--version``, ``--help`` and the shape of the command line."""

from __future__ import annotations

import re
from typing import Any

import pytest
from click.testing import CliRunner

from celery import VERSION_BANNER, __version__
from celery.bin.base import CLIContext
from celery.bin.celery import celery
from celery.bin.worker import worker

pytestmark = pytest.mark.unit

LONG = (
    *("autoscale", "beat", "concurrency", "detach", "disable-prefetch", "discard", "events"),
    *("exclude-queues", "executable", "gid", "heartbeat-interval", "help", "hostname", "include"),
    *("logfile", "loglevel", "max-memory-per-child", "max-tasks-per-child", "optimization"),
    *("pidfile", "pool", "pool-start-method", "prefetch-multiplier", "purge", "queues"),
    *("schedule", "schedule-filename", "scheduler", "soft-time-limit", "statedb", "task-events"),
    *("time-limit", "uid", "umask", "without-gossip", "without-heartbeat", "without-mingle"),
)
SHORT = "BDEIOPQSXcflns"
WORKER_OPTIONS = {*(f"--{name}" for name in LONG), *(f"-{letter}" for letter in SHORT)}
"""All that Celery 5.7 has."""


def run(*arguments: str) -> Any:
    return CliRunner().invoke(celery, arguments)


def test_version() -> None:
    done = run("--version")
    assert (done.output, done.exit_code) == (f"{VERSION_BANNER}\n", 0)
    assert done.output.startswith(f"{__version__} (")


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_lists_options_and_commands(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.exit_code == 0
    assert re.match(r"Usage: celery \[OPTIONS\] \[?COMMAND\]? \[ARGS\]\.\.\.\n", done.output)
    for option in ("-A, --app TEXT", "-b, --broker TEXT", "--result-backend TEXT", "--loader TEXT"):
        assert option in done.output
    assert re.search(r"^  worker +Start worker instance\.$", done.output, re.MULTILINE)


def test_worker_has_every_option_of_celerys() -> None:
    done = run("worker", "--help")
    assert done.exit_code == 0
    assert {name for param in worker.params for name in param.opts} | {"--help"} == WORKER_OPTIONS
    for title in ("Worker", "Pool", "Queue", "Embedded Beat", "Daemonization"):
        assert f"\n{title} Options:\n" in done.output
    assert "\nFeatures:\n" in done.output


def test_the_context_colours_unless_told_not_to() -> None:
    app = object()
    plain, coloured = CLIContext(app, True, None), CLIContext(app, False, None)
    assert (plain.OK, plain.ERROR) == ("OK", "ERROR")
    assert coloured.OK == "\x1b[32m\x1b[1mOK\x1b[0m"
    assert coloured.style("x", fg="red") == "\x1b[31mx\x1b[0m"
