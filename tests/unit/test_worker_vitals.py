"""Whether a process is gone: known for certain, or not claimed."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from taskmq.records import ProcessMark
from taskmq.worker import vitals
from taskmq.worker.vitals import has_ended, mark_of_this_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def own_mark() -> ProcessMark:
    mark = mark_of_this_process()
    assert mark is not None
    return mark


@pytest.fixture
def child() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def mark_of(pid: int) -> ProcessMark:
    stat = vitals._stat(pid)
    assert stat is not None
    return msgspec.structs.replace(own_mark(), started=stat.started)


def test_a_process_knows_its_own_mark() -> None:
    assert own_mark() == own_mark()
    assert own_mark().namespaces.startswith("pid:[")
    assert not has_ended(os.getpid(), own_mark())


def test_a_process_has_ended_once_it_is_killed_even_if_nobody_waited_for_it(
    child: "subprocess.Popen[bytes]",
) -> None:
    mark = mark_of(child.pid)
    assert not has_ended(child.pid, mark)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie now, and stays one
    assert has_ended(child.pid, mark)
    child.communicate()
    assert has_ended(child.pid, mark)


def test_a_stopped_process_has_not_ended(child: "subprocess.Popen[bytes]") -> None:
    mark = mark_of(child.pid)
    child.send_signal(19)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    assert not has_ended(child.pid, mark)
    child.kill()
    child.communicate()


def test_a_number_that_was_used_again_is_another_process() -> None:
    earlier = msgspec.structs.replace(own_mark(), started=own_mark().started - 1)
    assert has_ended(os.getpid(), earlier)


def test_no_process_has_a_number_that_is_none() -> None:
    assert not has_ended(0, own_mark())
    assert not has_ended(-1, own_mark())


def proc_of(folder: Path, stat: str) -> Path:
    (folder / str(os.getpid())).mkdir()
    (folder / str(os.getpid()) / "stat").write_text(stat)
    return folder


def test_a_name_with_anything_in_it_is_read_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = " ".join(["S", *("0" for _ in range(16)), "3", "0", "77"])
    monkeypatch.setattr(vitals, "PROC", proc_of(tmp_path, f"1 (a) Z (b)) {fields}\n"))
    assert vitals._stat(os.getpid()) == ("S", 3, 77)


def test_a_main_thread_that_ended_before_the_others_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = msgspec.structs.replace(own_mark(), started=77)
    fields = " ".join(["Z", *("0" for _ in range(16)), "2", "0", "77"])
    monkeypatch.setattr(vitals, "PROC", proc_of(tmp_path, f"1 (a) {fields}\n"))
    assert not has_ended(os.getpid(), mark)


def test_without_proc_nothing_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = own_mark()
    monkeypatch.setattr(vitals, "PROC", tmp_path)
    assert mark_of_this_process() is None
    assert not has_ended(os.getpid(), mark)
    (tmp_path / "self").symlink_to("1234567")  # that of another namespace
    assert mark_of_this_process() is None
