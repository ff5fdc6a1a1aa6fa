"""Small things of `celery.utils` that programs import."""

from __future__ import annotations

import threading
import types
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Optional
from unittest.mock import Mock

import pytest
from kombu.entity import Queue

from celery.exceptions import CDeprecationWarning, CPendingDeprecationWarning
from celery.utils import deprecated, sysinfo, term, text
from celery.utils.annotations import annotation_issubclass, get_optional_arg
from celery.utils.debug import blockdetection, cry, humanbytes
from celery.utils.imports import NotAPackage, find_module, load_extension_classes
from celery.utils.iso8601 import parse_iso8601
from celery.utils.nodenames import worker_direct
from celery.utils.objects import FallbackContext, getitem_property, mro_lookup
from celery.utils.quorum_queues import detect_quorum_queues
from celery.utils.static import get_file
from celery.utils.threads import Local, LocalManager, LocalStack, bgThread, default_socket_timeout
from celery.utils.timer2 import Timer

pytestmark = pytest.mark.unit


def test_annotations() -> None:
    assert get_optional_arg(Optional[int])  # noqa: UP045  # what programs write is int
    assert get_optional_arg(int | None) is int
    assert get_optional_arg(int) is None
    assert get_optional_arg(int | str) is None
    assert annotation_issubclass(bool, int)
    assert not annotation_issubclass(list[int], list)


def test_deprecated_names_warn() -> None:
    @deprecated.Callable(deprecation="1", removal="2", alternative="new()")
    def old() -> int:
        return 1

    with pytest.warns(CPendingDeprecationWarning, match=r"old is scheduled .* Use the new\(\)"):
        assert old() == 1
    with pytest.warns(CDeprecationWarning, match="that is deprecated and scheduled"):
        deprecated.warn("that", removal="2")

    class Kept:
        size = 1

        @deprecated.Property(deprecation="1", removal="2")
        def length(self) -> int:
            return self.size

    kept: Any = Kept()
    with pytest.warns(CPendingDeprecationWarning, match="length"):
        assert kept.length == 1
    with pytest.raises(AttributeError):
        kept.length = 2


@pytest.mark.filterwarnings("ignore::celery.exceptions.CPendingDeprecationWarning")
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2026-01-02", datetime(2026, 1, 2)),
        ("2026-01-02T03:04Z", datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc)),
        (
            "2026-01-02 03:04:05.6-01:30",
            datetime(2026, 1, 2, 3, 4, 5, 600000, timezone(-timedelta(hours=1, minutes=30))),
        ),
    ],
)
def test_dates(written: str, meant: datetime) -> None:
    assert parse_iso8601(written) == meant


def test_the_class_that_defines_something() -> None:
    class Base:
        def run(self) -> None: ...

    class Child(Base): ...

    assert mro_lookup(Child, "run") is Base
    assert mro_lookup(Child, "run", stop={Base}) is None
    assert mro_lookup(Child, "run", stop={Base}, monkey_patched=["elsewhere"]) is Base


def test_what_was_opened_here_is_closed_here() -> None:
    manager = Mock(__enter__=Mock(return_value="opened"), __exit__=Mock(return_value=None))
    with FallbackContext(None, lambda: manager) as resource:
        assert resource == "opened"
    manager.__exit__.assert_called_once_with(None, None, None)
    given = Mock(spec=[])
    with FallbackContext(given, lambda: manager) as resource:
        assert resource is given


def test_an_attribute_that_is_an_item() -> None:
    class Signature(dict[str, Any]):
        queue = getitem_property("options.queue")

    signature = Signature(options={})
    assert signature.queue is None
    signature.queue = "mail"
    assert signature == {"options": {"queue": "mail"}}


def test_text() -> None:
    assert text.remove_repeating_from_task("a.t", "a.t(1) | a.u(2)") == "a.t(1) | u(2)"
    assert text.match_case("queue", "CELERY") == "QUEUE"
    assert text.ensure_newlines("a") == "a\n\n"
    assert text.dedent("    a\n      b") == "a\n  b"
    both = text.WhateverIO(b"a")
    both.seek(1)
    both.write(b"b")
    assert both.getvalue() == "ab"


def test_colours() -> None:
    assert str(term.colored().ired("stop")) == "\x1b[1;41mstop\x1b[0m"
    assert term.fg(31) == "\x1b[1;31m"


def test_threads() -> None:
    local, stack = Local(), LocalStack()
    local.name = "main"
    stack.push("main")
    seen: list[Any] = []

    def look() -> None:
        seen.append((getattr(local, "name", None), stack.top))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [(None, None)]
    assert local("name") == "main"
    LocalManager([local, stack]).cleanup()
    assert not hasattr(local, "name")
    with pytest.raises(RuntimeError):
        len(stack())
    with default_socket_timeout(3):
        assert __import__("socket").getdefaulttimeout() == 3


def test_a_background_thread_goes_on_until_it_is_stopped() -> None:
    rounds = threading.Semaphore(0)

    class Beat(bgThread):
        def body(self) -> None:
            rounds.release()

    thread = Beat()
    thread.start()
    assert all(rounds.acquire(timeout=10) for _ in range(3))
    thread.stop()
    assert not thread.is_alive()


def test_a_timer_calls_later() -> None:
    called = threading.Event()
    timer = Timer()
    timer.call_after(0.01, called.set)
    assert called.wait(10)
    timer.stop()


def test_finding_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_module("celery.worker.request")
    assert find_module("nowhere_at_all") is None
    with pytest.raises(ModuleNotFoundError):
        find_module("celery.nothing")
    with pytest.raises(NotAPackage):
        find_module("celery.states.nothing")
    assert dict(load_extension_classes("celery.no_such_group")) == {}
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert find_module("celery.states")


def test_queues() -> None:
    queue = worker_direct("w1@box")
    assert (queue.name, queue.exchange.name, queue.routing_key) == (
        "w1@box.dq2",
        "C.dq2",
        "w1@box",
    )
    assert worker_direct(queue) is queue
    quorum = Queue("q", queue_arguments={"x-queue-type": "quorum"})
    app = types.SimpleNamespace(amqp=types.SimpleNamespace(queues={"q": quorum}))
    assert detect_quorum_queues(app, "amqp") == (True, "q")
    assert detect_quorum_queues(app, "redis") == (False, "")


def test_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sysinfo.available_cpu_count() >= 1
    files = {
        "/proc/self/cgroup": "0::/pod/box\n",
        "/sys/fs/cgroup/pod/box/cpu.max": "max 100000\n",
        "/sys/fs/cgroup/pod/cpu.max": "150000 100000\n",
    }
    monkeypatch.setattr(sysinfo, "_read_text", files.get)
    monkeypatch.setattr(sysinfo, "available_cpu_count", lambda: 8)
    assert sysinfo.cpu_budget() == (2, 8, 1.5)
    assert sysinfo.cpu_budget(use_cgroup_quota=False) == (8, 8, None)
    assert sysinfo.is_auto_concurrency(" Auto ")
    assert 0 <= sysinfo.df("/").capacity <= 100
    assert len(sysinfo.load_average()) == 3


def test_debugging() -> None:
    assert humanbytes(4 * 2**20) == "4MB"
    assert "MainThread" in cry()

    def hang() -> None:
        with blockdetection(0.01):
            threading.Event().wait(10)

    with pytest.raises(RuntimeError, match="Blocking detection timed-out"):
        hang()


def test_files_of_the_package() -> None:
    assert Path(get_file("__init__.py")).exists()
