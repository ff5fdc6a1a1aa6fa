"""``taskmq workflow`` against a store, and workflows that files describe."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from taskmq import App
from taskmq.cli.main import main
from taskmq.errors import ConfigError
from taskmq.testing import worker_for
from taskmq.workflow import InvalidWorkflow, Workflow, WorkflowRun, from_data, from_file

TASKS = """
from taskmq import App, Config, current_task

app = App(Config(transport="sqlite:///jobs.db"))

@app.task
def add(x: int, y: int = 0) -> int:
    return x + y

@app.task
def total(values: list[int]) -> int:
    return sum(values)

@app.task
def numbers(count: int) -> list[int]:
    return list(range(count))

@app.task
def fail(*args: int) -> None:
    raise ValueError("no")
"""

DECLARED = """
name = "sums"

[nodes.last]
task = "tasks.total"
collects = ["first", "second"]

[nodes.first]
task = "tasks.add"
args = [1]

[nodes.second]
task = "tasks.add"
args = [{ result = "first" }]
kwargs = { y = 2 }
after = "first"
options = { priority = 3 }
"""


@dataclass
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Runs a command in a directory with the tasks above."""
    (tmp_path / "tasks.py").write_text(TASKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("TASKMQ_APP", "tasks:app")
    sys.modules.pop("tasks", None)

    def once(*argv: str) -> Ran:
        code = main(("workflow", *argv))
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    yield once
    if "tasks" in sys.modules:
        sys.modules.pop("tasks").app.close()


def the_app() -> App:
    __import__("tasks")
    app = sys.modules["tasks"].app
    assert isinstance(app, App)
    return app


def work() -> None:
    with worker_for(the_app()) as worker:
        worker.run_until_idle(timeout=30)


def submitted(name: str = "report", *, fails: bool = False) -> WorkflowRun:
    app = the_app()
    flow = Workflow(name)
    first = flow.add(app.tasks["tasks.fail" if fails else "tasks.add"], 1, name='the "first"')
    flow.add(app.tasks["tasks.add"], first, name="last")
    return flow.submit(app)


# -- looking ---------------------------------------------------------------------------------------


def test_list(run: Run) -> None:
    first, second = submitted("one"), submitted("two", fails=True)
    work()
    lines = [line.split() for line in run("list").out.splitlines()]
    assert lines[0] == ["ID", "NAME", "NODES", "SUBMITTED", "STATE"]
    assert [line[:3] for line in lines[1:]] == [[second.id, "two", "2"], [first.id, "one", "2"]]
    assert [line[-1] for line in lines[1:]] == ["FAILED", "SUCCEEDED"]
    (document,) = run("list", "--json", "--name", "one").json
    assert (document["id"], document["state"], document["size"]) == (first.id, "SUCCEEDED", 2)
    assert "(the first 1; --limit shows more)" in run("list", "--limit", "1").out


def test_list_of_nothing(run: Run) -> None:
    assert run("list").out == "  none\n"


def test_show(run: Run) -> None:
    flow = submitted(fails=True)
    work()
    shown = run("show", flow.id)
    assert (shown.code, shown.err) == (0, "")
    assert f"{flow.id}  report" in shown.out
    assert "2 of 2 jobs (1 failed, 1 skipped)" in shown.out
    assert 'the "first"  FAILED' in shown.out
    assert "builtins.ValueError: no" in shown.out
    document = run("show", flow.id, "--json").json
    assert document["state"] == "FAILED"
    assert [node["state"] for node in document["nodes"]] == ["FAILED", "SKIPPED"]
    assert "(the first 1 of 2; --limit shows more)" in run("show", flow.id, "--limit", "1").out


def test_show_again_until_it_has_ended(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = submitted()
    monkeypatch.setattr("taskmq.cli.workflow.time.sleep", lambda _: work())
    shown = run("show", flow.id, "--watch")
    assert shown.code == 0
    assert "0 of 2 jobs" in shown.out
    assert shown.out.rstrip().splitlines()[-1].split()[:2] == ["last", "SUCCEEDED"]


def test_show_live_on_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """With rich, which is installed here."""
    flow = submitted()

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    monkeypatch.setattr("taskmq.cli.workflow.time.sleep", lambda _: work())
    assert main(("workflow", "show", flow.id, "--watch", "0.5")) == 0
    assert "2 of 2 jobs" in terminal.getvalue()


def test_unknown(run: Run) -> None:
    for command in ("show", "graph", "retry"):
        ran = run(command, "nope")
        assert ran.code == 6
        assert ran.err.startswith("taskmq: error: the store knows no workflow nope")


# -- drawing ---------------------------------------------------------------------------------------


def test_graph_as_mermaid(run: Run) -> None:
    text = run("graph", submitted().id).out
    assert text.startswith("flowchart TD\n")
    assert '    n0["the #quot;first#quot;<br/>QUEUED"]:::queued\n' in text
    assert "    n0 --> n1\n" in text


def test_graph_as_dot(run: Run, tmp_path: Path) -> None:
    run("graph", submitted().id, "--format", "dot", "-o", "flow.dot")
    text = (tmp_path / "flow.dot").read_text()
    assert text.startswith('digraph "report" {\n')
    assert 'n0 [label="the \\"first\\"\\nQUEUED", fillcolor="#fdf0b0"];' in text
    assert "n0 -> n1;" in text


def test_graph_as_svg_without_its_program(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = run("graph", submitted().id, "--format", "svg")
    assert ran.code == 2
    assert "SVG needs the program dot, which is not on PATH" in ran.err
    assert ran.err.count("\n") == 1


def test_graph_as_svg(run: Run, require_server: Callable[[str], object]) -> None:
    require_server("dot")
    ran = run("graph", submitted().id, "--format", "svg")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("<?xml")
    texts = re.findall(r"<text [^>]*>(.*)</text>", ran.out)
    assert texts[:2] == ["the &quot;first&quot;", "QUEUED"]


# -- changing --------------------------------------------------------------------------------------


def test_cancel(run: Run) -> None:
    flow = submitted()
    assert run("cancel", flow.id, "--yes").out == "2 jobs revoked\n"
    assert "REVOKED" in run("list").out


def test_pause_and_resume(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    flow = submitted()
    paused = run("pause", flow.id, "--reason", "wrong prices")
    assert paused.out == (
        f"workflow {flow.id} is paused; to go on: taskmq workflow resume {flow.id}\n"
    )
    assert f"workflow {flow.id} was paused by " in run("pause", flow.id).out
    work()
    assert run("list").out.splitlines()[1].split()[-1] == "PAUSED"
    shown = run("show", flow.id).out
    assert "(wrong prices)" in shown
    assert "0 of 2 jobs (1 queued, 1 waiting)" in shown
    assert main(["inspect", flow.plan.nodes[0].id]) == 0
    assert f"(wrong prices); to go on: taskmq workflow resume {flow.id}" in capsys.readouterr().out
    assert main(["status"]) == 0
    status = capsys.readouterr().out
    assert "Paused workflows\n  WORKFLOW                    BY" in status
    assert main(["status", "--json"]) == 0
    (pause,) = json.loads(capsys.readouterr().out)["paused_workflows"]
    assert (pause["workflow"], pause["reason"]) == (flow.id, "wrong prices")
    assert run("resume", flow.id).out == f"workflow {flow.id} goes on\n"
    work()
    assert flow.status().state.value == "SUCCEEDED"
    for command, message in (("resume", "is not paused"), ("pause", "has ended")):
        ran = run(command, flow.id)
        assert (ran.code, ran.err) == (1, f"taskmq: error: workflow {flow.id} {message}\n")


def test_a_watch_goes_on_while_it_is_paused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = submitted()
    flow.pause()

    def pass_the_time(_: float) -> None:
        flow.resume()
        work()

    monkeypatch.setattr("taskmq.cli.workflow.time.sleep", pass_the_time)
    shown = run("show", flow.id, "--watch")
    assert "PAUSED" in shown.out
    assert shown.out.rstrip().splitlines()[-1].split()[:2] == ["last", "SUCCEEDED"]


def test_retry(run: Run) -> None:
    flow = submitted(fails=True)
    work()
    assert run("retry", flow.id, "--from", "last").code == 1
    refused = run("retry", flow.id, "--from", "lost")
    assert (refused.code, "has no node 'lost'; did you mean 'last'?" in refused.err) == (2, True)
    assert run("retry", flow.id, "--from", 'the "first"').out == "1 job queued again\n"
    again = run("retry", flow.id)
    assert (again.code, again.err) == (
        1,
        f"taskmq: error: nothing of workflow {flow.id} is dead\n",
    )


# -- described by data -----------------------------------------------------------------------------


def test_submit_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "sums.toml").write_text(DECLARED)
    ran = run("submit", "sums.toml")
    assert (ran.code, ran.err) == (0, "")
    work()
    flow = WorkflowRun.find(the_app(), ran.out.strip())
    assert flow.get(timeout=10) == 1 + 3
    assert sorted(node.name for node in flow.plan.nodes) == ["first", "last", "second"]
    assert [job.priority for job in flow.jobs()].count(3) == 1


def test_submit_json_with_a_map(run: Run, tmp_path: Path) -> None:
    data = {
        "result": "total",
        "nodes": {
            "numbers": {"task": "tasks.numbers", "args": [4]},
            "each": {"task": "tasks.add", "map": "numbers"},
            "total": {"task": "tasks.total", "args": [{"result": "each"}]},
            "aside": {"task": "tasks.add", "args": [1], "run_if": "finished", "after": ["total"]},
        },
    }
    (tmp_path / "flow.json").write_text(json.dumps(data))
    flow = from_file(the_app(), tmp_path / "flow.json").submit()
    work()
    assert flow.get(timeout=10) == 6


def test_every_mistake_has_its_line(run: Run, tmp_path: Path) -> None:
    data = {
        "nam": "x",
        "on_failure": "explode",
        "result": "last",
        "nodes": {
            "a": {"task": "tasks.ad", "args": [{"result": "b"}]},
            "b": {"task": "tasks.add", "args": 1, "after": ["c"], "run_iff": "failed"},
            "d": {"map": "a", "args": [], "run_if": "never"},
        },
    }
    (tmp_path / "flow.json").write_text(json.dumps(data))
    ran = run("submit", "flow.json")
    assert ran.code == 2
    assert ran.err.splitlines() == [
        f"flow.json: {line}"
        for line in (
            "the workflow has no field 'nam'; did you mean 'name'?",
            "on_failure must be one of finish, cancel, continue, got 'explode'",
            "node 'a': the app has no task 'tasks.ad'; did you mean 'tasks.add'?",
            "node 'b' has no field 'run_iff'; did you mean 'run_if'?",
            "node 'b': args must be a list, got 1",
            "node 'b': after: no node 'c'",
            "node 'd': task is missing: the name of a task, e.g. shop.fetch",
            "node 'd': run_if must be one of succeeded, failed, finished, got 'never'",
            "node 'd': map takes no args, run_if",
            "result: no node 'last'",
        )
    ] + ["taskmq: error: flow.json has 10 mistakes"]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            {"a": {"task": "tasks.add", "after": "b"}, "b": {"task": "tasks.add", "after": "a"}},
            "circle",
        ),
        ({"a": {"task": "tasks.add"}}, r"node 'a': tasks.add\(.*missing a required argument: 'x'"),
        ({"a": {"task": "tasks.add", "args": [1], "options": {"que": "x"}}}, "no option 'que'"),
        ({"a": {"task": "tasks.add", "args": [[{"result": "a"}]]}, "b": 3}, "'b' must be a table"),
        ({}, "with a node or more"),
        ({"a": {"task": "tasks.add", "map": [1, 2]}}, "map must name a node that gives a list"),
    ],
)
def test_mistakes(run: Run, nodes: Any, message: str) -> None:
    with pytest.raises(InvalidWorkflow, match=message):
        from_data(the_app(), {"nodes": nodes})


def test_files_that_cannot_be_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("name = ")
    (tmp_path / "bad.yaml").write_text("name: x")
    for name, message in {
        "bad.toml": "cannot be read as TOML",
        "bad.yaml": "is in a .json or a .toml file",
        "none.json": "cannot read",
    }.items():
        with pytest.raises(ConfigError, match=message):
            from_file(the_app(), tmp_path / name)
