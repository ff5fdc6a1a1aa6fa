"""``celery multi``: names and options of several workers, and their processes by pid files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from celery.apps.multi import Cluster, MultiParser, NamespacedOptionParser, Node
from celery.bin.multi import MultiTool

pytestmark = pytest.mark.integration


def nodes(folder: Path, *words: str, **given: str) -> list[Node]:
    parsed = NamespacedOptionParser(
        [f"--pidfile={folder}/%n.pid", f"--logfile={folder}/%n%I.log", *words]
    )
    parsed.parse()
    return list(MultiParser(cmd="-m celery worker --detach", **given).parse(parsed))


def test_a_number_is_so_many_workers(tmp_path: Path) -> None:
    found = nodes(tmp_path, "3", "-c", "2", "-c:2-3", "5", "-Q:celery1", "own", "--hostname=box")
    assert [node.name for node in found] == ["celery1@box", "celery2@box", "celery3@box"]
    assert [node.options["-c"] for node in found] == ["2", "5", "5"]
    assert [node.options.get("-Q") for node in found] == ["own", None, None]


def test_names_prefixes_and_suffixes(tmp_path: Path) -> None:
    named = nodes(tmp_path, "a", "b@c", suffix="box", prefix="p")
    assert [node.name for node in named] == ["pa@box", "pb@c"]
    assert [node.name for node in nodes(tmp_path, "a", suffix='""')] == ["a@"]
    counted = nodes(tmp_path, "2", "--range-prefix=w", "-n", "box")
    assert [node.name for node in counted] == ["w1@box", "w2@box"]


def test_options_of_a_worker_whose_name_has_its_host(tmp_path: Path) -> None:
    first, second = nodes(tmp_path, "a@box", "b@box", "-c", "1", "-c:a", "5", "-c:b@box", "7")
    assert (first.options["-c"], second.options["-c"]) == ("5", "7")


def test_options_of_a_worker_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="5"):
        nodes(tmp_path, "a", "b", "-c:5", "1")


def test_a_command_line(tmp_path: Path) -> None:
    (node,) = nodes(*(tmp_path, "a", "-A", "proj", "-E", "-l", "INFO", "--", "x=1"), suffix="box")
    assert node.argv == (
        "-m celery -A proj worker --detach",
        *(f"--pidfile={tmp_path}/a.pid", f"--logfile={tmp_path}/a%I.log", "-E", "-l INFO"),
        "-n a@box",
        *(f"--executable={sys.executable}", "-- x=1"),
    )
    assert node.pidfile == f"{tmp_path}/a.pid"
    assert node.prepare_argv(node.argv, "py")[:5] == ["py", "-m", "celery", "-A", "proj"]


def running(node: Node) -> subprocess.Popen[bytes]:
    """A process of the node's, and somebody who takes note of its end."""
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    Path(node.pidfile).write_text(f"{child.pid}\n")
    threading.Thread(target=child.wait, daemon=True).start()
    return child


def test_workers_are_found_by_their_pid_files_and_stopped(tmp_path: Path) -> None:
    here, gone = nodes(tmp_path, "here", "gone")
    child = running(here)
    told: list[tuple[str, str]] = []
    cluster = Cluster(
        [here, gone], on_node_down=lambda node: told.append(("down", node.name.split("@")[0]))
    )
    assert [node.pid for node in cluster.getpids()] == [child.pid]
    assert here.alive()
    assert not gone.alive()
    cluster.stopwait(retry=0.01)
    assert child.wait(20) == -signal.SIGTERM
    assert told == [("down", "gone"), ("down", "here")]


def test_the_exit_code_of_a_start(tmp_path: Path) -> None:
    heard: list[Any] = []
    node = Node(
        "a@b",
        cmd="-c 'raise SystemExit(3)'",
        options={"--pidfile": f"{tmp_path}/p", "--logfile": f"{tmp_path}/l"},
    )
    assert Cluster([node], on_child_failure=lambda *args: heard.append(args)).start() == [3]
    assert heard == [(node, 3)]


def tool(*words: str) -> tuple[int, str]:
    said = StringIO()
    code = MultiTool(stdout=said, stderr=said, nosplash=True).execute_from_commandline(
        ["multi", *words]
    )
    return code, said.getvalue()


def test_what_the_command_says(tmp_path: Path) -> None:
    files = (f"--pidfile={tmp_path}/%n.pid", f"--logfile={tmp_path}/%n.log", "--suffix=box")
    assert tool("names", "2", *files) == (0, "celery1@box\ncelery2@box\n")
    assert tool("expand", "%n of %h", "a", *files) == (0, "a of a@box\n")
    assert tool("get", "a@box", "a", *files)[1].startswith(f"{sys.executable} -m celery worker")
    assert tool("get", "b@box", "a", *files) == (1, "")
    assert tool("stop", "a", "-KILL", *files) == (0, "> a@box: DOWN\n")
    code, said = tool("nonsense")
    assert (code, said.splitlines()[0]) == (os.EX_USAGE, "Invalid command: nonsense")
    code, said = tool("show", "a", "-c:2", "3", *files)
    assert (code, said.splitlines()[0]) == (os.EX_USAGE, "There is no node 2")
    assert tool()[1].startswith("usage: multi start")


def test_arguments_begin_with_a_command_and_reach_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(Cluster, "stop", lambda self, **options: told.append(options))
    tool = MultiTool(stdout=StringIO(), stderr=StringIO(), nosplash=True)
    assert tool.validate_arguments(["start", "-n"])
    assert not tool.validate_arguments(["--quiet"])
    assert not tool.validate_arguments([])
    tool.stopwait("1", "-KILL", retry=9)
    assert [(options["retry"], options["sig"]) for options in told] == [(9, signal.SIGKILL)]


def test_a_cluster_is_the_list_of_its_nodes(tmp_path: Path) -> None:
    cluster = Cluster(nodes(tmp_path, "2"))
    assert cluster.nodes == cluster.data
    cluster.append(Node("third@box"))
    assert [node.name.partition("@")[0] for node in cluster.nodes] == [
        "celery1",
        "celery2",
        "third",
    ]
