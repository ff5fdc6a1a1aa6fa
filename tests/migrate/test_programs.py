"""Command lines of workers, moved to the engine's program: which its parser takes."""

import shlex

import pytest
from tests.migrate.tools import migrate

from taskmq.cli.parser import build_parser

APP = 'from celery import Celery\n\napplication = Celery("shop")\n'
WORKERS = {
    "celery -A shop worker": "taskmq -A shop:application worker",
    "celery --app=shop.core worker": "taskmq --app=shop.core:app worker",
    "celery -Ashop:application worker": "taskmq --app=shop:application worker",
    "celery -A proj.inner worker": "taskmq -A proj.inner:app worker",
    "celery -A proj worker": "taskmq -A proj.celery:app worker",
    "python -m celery -A shop worker": "python -m taskmq -A shop:application worker",
    "exec /venv/bin/celery -A shop worker -lWARN": "exec /venv/bin/taskmq -A shop:application "
    "worker --log-level=warning",
    "celery -A shop worker -l DEBUG -c 4 -Q a,b": "taskmq -A shop:application worker --log-level "
    "debug -c 4 -Q a,b",
    "celery -A shop worker -c4 --pool=solo": "taskmq -A shop:application worker --concurrency=4 "
    "--pool=solo",
    "celery -A shop worker -n w1@%h -O fair -E": "taskmq -A shop:application worker -n w1",
    "celery -A shop worker -n %h --concurrency 2": "taskmq -A shop:application worker "
    "--concurrency 2",
    "celery -A shop worker --autoscale=10,3": "taskmq -A shop:application worker --autoscale=3,10",
    "celery -A shop worker --max-tasks-per-child 5 --max-memory-per-child=300000": "taskmq -A "
    "shop:application worker --max-jobs-per-child 5 --max-memory-per-child=300000K",
    "celery -A shop worker -B --without-gossip --without-mingle --prefetch-multiplier=1": "taskmq "
    "-A shop:application worker",
    "celery -A shop beat -l info --max-interval 5": "taskmq -A shop:application beat "
    "--log-level info",
    "celery -A shop status": "taskmq -A shop:application status",
}
LEFT = (
    "celery -A shop worker --pidfile=/run/w.pid",
    "celery -A shop worker -P gevent",
    "celery -A shop worker --loglevel=loud",
    "celery -A shop beat -S django",
    "celery -A shop inspect ping",
    "celery -A shop flower",
    "celery multi start w1 -A shop",
    "celery -A shop worker -D",
    "celery -A shop worker -- worker.concurrency=4",
    "$CELERY_BIN -A shop worker",
)
OTHERS = {
    "shop/__init__.py": APP,
    "shop/core.py": APP.replace("application", "app"),
    "proj/__init__.py": "from .inner import app as celery_app\n",
    "proj/celery.py": APP.replace("application", "app"),
    "proj/inner.py": APP.replace("application", "app"),
}


def moved(command: str, path: str = "start.sh", before: str = "", unsafe: bool = False) -> str:
    run = migrate(
        {path: f"{before}{command}\n", **OTHERS}, to="native", only=("TMQ150",), unsafe=unsafe
    )
    assert not run.result.failed
    again = migrate(run.files, to="native", only=("TMQ150",), unsafe=unsafe)
    assert again.files == run.files
    return run.files[path].removeprefix(before).rstrip("\n")


@pytest.mark.parametrize("command", WORKERS)
def test_a_command_that_the_engine_takes(command: str) -> None:
    after = moved(command)
    assert after == WORKERS[command]
    words = shlex.split(after)
    program = next(n for n, word in enumerate(words) if word.endswith("taskmq"))
    build_parser().parse_args(words[program + 1 :])


@pytest.mark.parametrize("command", LEFT)
def test_a_command_that_stays(command: str) -> None:
    marker, line = moved(command).splitlines()
    assert marker.startswith("# TODO(taskmq-migrate TMQ150): ")
    assert line == command


@pytest.mark.parametrize("command", ["celery -A other worker", "celery -A shop worker -l $LEVEL"])
def test_what_is_not_seen_waits_for_unsafe(command: str) -> None:
    assert moved(command) == command
    assert moved(command, unsafe=True).startswith("taskmq -A ")


def test_every_form_of_file() -> None:
    for path, before in (
        ("Procfile", "worker: "),
        ("Dockerfile", "FROM python:3.12\nCMD "),
        ("w.service", "[Service]\nExecStart="),
        ("supervisord.conf", "[program:w]\ncommand="),
        ("compose.yaml", "services:\n  w:\n    command: "),
        ("values.yaml", "w:\n  command: "),
        ("Makefile", "w:\n\t"),
    ):
        found = moved("celery -A shop worker -E", path, before)
        assert found == "taskmq -A shop:application worker", path
    listed = '["celery", "-A", "shop", "worker", "-l", "INFO"]'
    after = '["taskmq", "-A", "shop:application", "worker", "--log-level", "info"]'
    assert moved(listed, "Dockerfile", "FROM python:3.12\nCMD ") == after
    assert moved(listed, "compose.yaml", "services:\n  w:\n    command: ") == after
    assert moved(listed, "run.py", "import subprocess\n\nargs = ") == after


def test_lines_that_are_continued_keep_their_form() -> None:
    after = moved("celery -A shop \\\n    worker \\\n    -E \\\n    -c 2")
    assert after == "taskmq -A shop:application \\\n    worker \\\n    -c 2"
