"""`celery.contrib.rdb`: a debugger over a socket."""

from __future__ import annotations

import io
import socket
import sys
import threading
from typing import Any

import pytest

from celery.contrib import rdb

pytestmark = pytest.mark.integration


class Worker(threading.Thread):
    """Runs a function that stops in the debugger."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.out = io.StringIO()
        self.listens = threading.Event()
        self.value: Any = None
        self.start()

    def run(self) -> None:
        worker = self

        class Out(io.StringIO):
            def write(self, text: str) -> int:
                written = super().write(text)
                if "Waiting for client" in text:
                    worker.listens.set()
                return written

        self.out = Out()
        debugger = rdb.Rdb(out=self.out)
        number = 41
        debugger.set_trace()
        number += 1
        self.value = number


def test_a_session() -> None:
    printed = sys.stdout
    worker = Worker()
    assert worker.listens.wait(20)
    words = worker.out.getvalue().split()
    port = int(words[words.index("telnet") + 2])
    with socket.create_connection((rdb.CELERY_RDB_HOST, port), timeout=20) as client:
        talk = client.makefile("rw")
        talk.write("p number + 100\n!number = 1\nc\n")
        talk.flush()
        heard = talk.read()
    worker.join(20)
    assert "141" in heard
    assert worker.value == 2
    assert "Session with" in worker.out.getvalue()
    assert sys.stdout is printed


def test_a_port_that_is_taken_is_passed_over() -> None:
    with socket.socket() as taken:
        taken.bind((rdb.CELERY_RDB_HOST, 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        finder = object.__new__(rdb.Rdb)
        bound, found = finder.get_avail_port(rdb.CELERY_RDB_HOST, port)
        bound.close()
        assert found > port
        with pytest.raises(OSError, match="no port from"):
            finder.get_avail_port(rdb.CELERY_RDB_HOST, port, search_limit=1)
