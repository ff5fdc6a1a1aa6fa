"""The health socket: what it answers, to whom, and where it may be."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskmq import ConfigError
from taskmq.cli.probe import HealthServer, ask
from taskmq.worker import Health

LIVE = Health(live=True, ready=False, status="the store does not answer")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    server = HealthServer(tmp_path / "probe", lambda: LIVE)
    server.start()
    yield tmp_path / "probe"
    server.stop()
    assert not (tmp_path / "probe").exists()


def test_live_and_ready_are_two_questions(path: Path) -> None:
    assert ask(path, "live", 5.0) == (True, LIVE)
    assert ask(path, "ready", 5.0) == (False, LIVE)


def test_it_speaks_http(path: Path) -> None:
    answers = []
    for request in (
        b"GET /live HTTP/1.1\r\nHost: worker\r\n\r\n",
        b"GET /x HTTP/1.1\r\n\r\n",
        b"\n\n",
    ):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(str(path))
            client.sendall(request)
            answers.append(client.makefile("rb").read().split(b"\r\n"))
    assert answers[0][0] == b"HTTP/1.0 200 OK"
    assert answers[0][-1].startswith(b'{"live":true')
    assert [lines[0] for lines in answers[1:]] == [b"HTTP/1.0 404 Not Found"] * 2


def test_a_client_that_says_nothing_holds_nobody_up(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(path))
        assert ask(path, "live", 5.0)[0]


def test_the_socket_of_a_dead_worker_is_replaced(tmp_path: Path) -> None:
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "probe"))
    dead.close()
    server = HealthServer(tmp_path / "probe", lambda: LIVE)
    server.start()
    assert ask(tmp_path / "probe", "live", 5.0)[0]
    server.stop()


def test_the_socket_of_a_living_worker_is_not(path: Path) -> None:
    with pytest.raises(ConfigError, match="another worker answers at"):
        HealthServer(path, lambda: LIVE)


def test_where_it_cannot_be_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("somebody's")
    with pytest.raises(ConfigError, match=r"cannot listen at .*file"):
        HealthServer(tmp_path / "file", lambda: LIVE)
    assert (tmp_path / "file").read_text() == "somebody's"
    with pytest.raises(ConfigError, match="is longer than 100 characters"):
        HealthServer(tmp_path / ("x" * 100), lambda: LIVE)


def test_something_else_at_the_socket_is_no_worker(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "other"))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            connection.recv(1000)
            connection.sendall(b"hello")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(OSError, match="something else"):
            ask(tmp_path / "other", "live", 5.0)
        thread.join()
