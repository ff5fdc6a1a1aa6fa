"""Large arguments and results through real workers, stores, processes and the command line."""

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.waiting import PATIENCE

from taskmq import App, Call, Config, Dependency, JobState, RemoteError
from taskmq.errors import PayloadLost, PayloadUnavailable
from taskmq.payloads import FilePayloadStore, job_of, sweep
from taskmq.worker import Worker

BIG = "x" * 5000


@pytest.fixture
def folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    monkeypatch.setenv("PAYLOAD_FOLDER", str(tmp_path))
    if "asyncio" in request.node.name:
        monkeypatch.setenv("PAYLOAD_ASYNC", "1")
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    sys.modules.pop("payload_app", None)
    yield tmp_path
    sys.modules.pop("payload_app", None)


@pytest.fixture
def app(folder: Path) -> Iterator[App]:
    app: App = importlib.import_module("payload_app").app
    yield app
    app.close()


def payloads(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "payloads").rglob("*.*") if path.is_file())


def work(app: App, **config: Any) -> Any:
    return Worker(app, config=app.config.replace(**config)).run_until_idle(PATIENCE)


@pytest.mark.parametrize("pool", ["solo", "threads", "asyncio"])
def test_there_and_back(app: App, folder: Path, pool: str) -> None:
    name = "adouble" if pool == "asyncio" else "double"
    results = [app.tasks[name].delay(BIG), app.tasks[name].delay("ab")]
    if pool == "asyncio":
        results.append(app.tasks["double"].delay(BIG))
    stored = app.transport.get([results[0].id])[0]
    assert stored is not None
    assert len(stored.envelope) < 600
    assert work(app, pool=pool).succeeded == len(results)
    assert [len(result.get(0)) for result in results] == [10_000, 4, 10_000][: len(results)]
    kept = app.transport.get([results[0].id])[0]
    assert kept is not None
    assert kept.result is not None
    assert len(kept.result.data) < 300


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_in_child_processes(app: App, folder: Path, method: str) -> None:
    result = app.tasks["double"].delay(BIG)
    command = [sys.executable, "-m", "taskmq", "-A", "payload_app:app", "worker", "--until-idle"]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "TASKMQ_DEBUG": "1"}
    run = subprocess.run(
        [*command, "-P", "processes", "--start-method", method],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert run.returncode == 0, run.stderr
    assert result.get(0) == BIG * 2


def test_a_retry_reads_them_again(app: App) -> None:
    result = app.tasks["flaky"].delay(BIG)
    work(app)
    assert result.get(0) == 5000
    assert result.info["attempt"] == 2


def test_eagerly(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/payloads"
    app = App(Config(eager=True, payload_store=url, offload_above=100))

    @app.task
    def double(text: str) -> str:
        return text * 2

    assert double.delay(BIG).get() == BIG * 2
    assert [name.split(".")[1] for name in payloads(tmp_path)] == ["a", "r"]


def test_what_is_lost_is_a_dead_letter_that_says_so(app: App, folder: Path) -> None:
    missing, damaged = app.tasks["double"].delay(BIG), app.tasks["double"].delay(BIG)
    for path in (folder / "payloads").rglob("*.a.*"):
        if job_of(path.name) == missing.id:
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-1] + b"?")
    report = work(app)
    assert report.succeeded == 0
    for result, reason in ((missing, "payload_missing"), (damaged, "payload_damaged")):
        assert result.state is JobState.FAILED
        letter = app.dead_letters.get(result.id)
        assert letter.dead_reason == reason
        assert letter.failure is not None
        assert letter.failure.type == "taskmq.errors.PayloadLost"
        with pytest.raises(RemoteError, match=r"payload .* (is not in the|is damaged)"):
            result.get(0)


def test_a_dead_letter_is_replayed_with_its_payload_or_another(app: App, folder: Path) -> None:
    fail = [True]

    @app.task(name="t")
    def t(text: str, times: int = 1) -> str:
        if fail[0]:
            raise ValueError("not yet")
        return text * times

    same, edited, lost = t.delay(BIG), t.delay(BIG), t.delay(BIG)
    work(app)
    fail[0] = False
    assert [letter.dead_reason for letter in app.dead_letters.list()] == ["error"] * 3
    app.dead_letters.replay(same.id)
    app.dead_letters.replay(edited.id, kwargs={"times": 3})
    for path in (folder / "payloads").rglob("*.a.*"):
        if job_of(path.name) == lost.id:
            path.unlink()
    with pytest.raises(PayloadLost):
        app.dead_letters.replay(lost.id, kwargs={"times": 2})
    app.dead_letters.replay(lost.id, args=[BIG], kwargs={"times": 2})
    work(app)
    assert [len(each.get(0)) for each in (same, edited, lost)] == [5000, 15_000, 10_000]


def test_a_result_is_handed_to_the_next_job(app: App, folder: Path) -> None:
    double = app.tasks["double"]
    first = replace(double.call(BIG), feeds=True).options(id="first", result_ttl=0)
    second = Call(double, after=(Dependency("first", into=0),))
    _, result = app.submit_many([first, second])
    work(app)
    assert len(result.get(0)) == 20_000


def test_a_result_that_is_lost_is_told_to_whoever_asks(app: App, folder: Path) -> None:
    result = app.tasks["double"].delay(BIG)
    work(app)
    for path in (folder / "payloads").rglob("*.r.*"):
        path.unlink()
    assert result.state is JobState.SUCCEEDED
    with pytest.raises(PayloadLost, match="is not in the payload store"):
        result.get(0)


class Moody(FilePayloadStore):
    """Does not answer for a while."""

    down = False

    def get(self, name: str) -> bytes | None:
        if self.down:
            raise PayloadUnavailable("no answer")
        return super().get(name)


def test_a_store_that_does_not_answer_costs_nothing_but_time(tmp_path: Path) -> None:
    store = Moody(tmp_path)
    app = App(Config(offload_above=100), payloads=store)

    @app.task
    def length(text: str) -> int:
        return len(text)

    result = length.delay(BIG)
    store.down = True
    work(app)
    record = result.record
    assert record is not None
    assert (record.state, record.deliveries, record.reclaims) == (JobState.QUEUED, 0, 0)
    store.down = False
    deadline = time.monotonic() + PATIENCE
    while result.state is not JobState.SUCCEEDED and time.monotonic() < deadline:
        app.transport.listen(["default"]).wait(0.5)
        work(app)
    assert result.get(0) == 5000


def test_killed_between_the_result_and_its_settlement(app: App, folder: Path) -> None:
    result = app.tasks["fatal"].delay(BIG)
    command = [sys.executable, "-m", "taskmq", "-A", "payload_app:app", "worker", "-P", "threads"]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    first = subprocess.run(command, env=environ, cwd=folder, capture_output=True, timeout=PATIENCE)
    assert first.returncode == -9
    assert [name.split(".")[1] for name in payloads(folder)] == ["a", "r"]
    second = subprocess.Popen(command, env=environ, cwd=folder, stderr=subprocess.DEVNULL)
    try:
        assert result.wait(PATIENCE) is JobState.SUCCEEDED
        assert result.get(0) == BIG * 2
    finally:
        second.terminate()
        second.wait(PATIENCE)
    assert result.info["reclaims"] == 1
    # What is referred to survives any sweep, and nothing else does once the job is forgotten.
    assert app.offload is not None
    later = time.time() + 7200
    assert sweep(app.transport, app.offload.store, now=later).deleted == 0
    assert result.get(0) == BIG * 2
    assert result.forget()
    assert sweep(app.transport, app.offload.store, now=later).deleted == 2
    assert payloads(folder) == []


def taskmq(folder: Path, *arguments: str, code: int = 0) -> str:
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    run = subprocess.run(
        [sys.executable, "-m", "taskmq", "-A", "payload_app:app", *arguments],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert run.returncode == code, run.stdout + run.stderr
    return run.stdout + run.stderr


def test_the_command_line(app: App, folder: Path) -> None:
    result = app.tasks["double"].delay(BIG)
    shown = taskmq(folder, "inspect", result.id)
    assert "xxxx" in shown
    assert "in the payload store" in shown
    document = json.loads(taskmq(folder, "inspect", result.id, "--json"))
    assert document["job"]["envelope"]["codec"] == "offloaded"
    assert (
        taskmq(folder, "call", "double", "--args", json.dumps([BIG]), "--local").count("x") > 9999
    )
    for path in (folder / "payloads").rglob("*.*"):
        if path.is_file():
            os.utime(path, (1e9, 1e9))
    dry = taskmq(folder, "payloads", "gc", "--dry-run")
    assert dry.startswith("2 payloads would be deleted")  # of the call that was never stored
    assert "pass --yes" in taskmq(folder, "payloads", "gc", code=2)
    report = json.loads(taskmq(folder, "payloads", "gc", "--yes", "--json"))
    assert (report["deleted"], report["kept"]) == (2, 1)
    app.transport.purge("default")
    assert taskmq(folder, "payloads", "gc", "--yes").startswith("1 payload deleted (5,0")
    assert payloads(folder) == []


def test_no_sweep_by_a_store_that_knows_nothing(tmp_path: Path, folder: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "taskmq", "--transport", "memory://", "payloads", "gc", "--yes"],
        env={**os.environ, "TASKMQ_PAYLOAD_STORE": f"file://{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert run.returncode == 2
    assert "memory:// is of this process alone" in run.stderr
