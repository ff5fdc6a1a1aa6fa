"""On real servers: ``taskmq status`` prints what the store cannot do, and a program that needs it
does not start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from taskmq.cli.main import main
from taskmq.plugins import open_transport

STORES = ("memory", "sqlite", "redis", "postgres", "amqp")
TASKS = """
from taskmq import App, Config, QueueConfig

app = App(Config.from_env({config}))

@app.task({options})
def work() -> None: ...
"""
NEEDS = {
    "fair turns": ("", "fair_key='a'", "has a fair_key"),
    "weighted turns": ("queues={'q': QueueConfig(weight=2)}", "", "queue 'q' has a weight"),
    "fifo": ("require=('fifo',)", "", "require names 'fifo'"),
    "priority": ("require=('global_priority',)", "", "require names 'global_priority'"),
}


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty store of the kind that the test is run for."""
    kind: str = request.param
    sqlite = f"sqlite:///{tmp_path}/jobs.db"
    if kind in ("memory", "sqlite"):
        return {"memory": "memory://", "sqlite": sqlite}[kind]
    if kind == "amqp":
        return f"{request.getfixturevalue('rabbitmq_url')}?state={sqlite}"
    return str(request.getfixturevalue(f"{kind}_url"))


@pytest.mark.parametrize("url", STORES, indirect=True)
def test_status_prints_what_the_store_cannot_do(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = open_transport(url)
    limitations = store.capabilities.limitations
    store.close()
    assert main(["status", "--transport", url]) == 0
    out = capsys.readouterr().out
    for text in limitations:
        assert text in out
    assert ("limitation" in out) == bool(limitations)


@pytest.mark.parametrize("url", ["amqp"], indirect=True)
@pytest.mark.parametrize("need", NEEDS)
def test_a_program_that_needs_order_does_not_start_with_a_broker(
    url: str, need: str, tmp_path: Path
) -> None:
    config, options, told = NEEDS[need]
    code, err = start(tmp_path, url, config, options)
    assert code == 2, err
    (line,) = [each for each in err.splitlines() if "cannot do" in each]
    assert told in line
    assert "use another store" in line
    assert "guest:guest" not in err


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_it_starts_with_the_store_alone(url: str, tmp_path: Path) -> None:
    config = "require=('fifo', 'global_priority'), queues={'q': QueueConfig(weight=2)}"
    code, err = start(tmp_path, url, config, "fair_key='a'")
    assert code == 0, err


def start(folder: Path, url: str, config: str, options: str) -> tuple[int, str]:
    """A worker that ends when it has nothing to do; its exit code and what it wrote."""
    (folder / "needy.py").write_text(TASKS.format(config=config, options=options))
    done = subprocess.run(
        [sys.executable, "-m", "taskmq", "worker", "-A", "needy:app", "--until-idle"],
        cwd=folder,
        env={**os.environ, "TASKMQ_TRANSPORT": url},
        capture_output=True,
        text=True,
        timeout=100,
    )
    return done.returncode, done.stderr
