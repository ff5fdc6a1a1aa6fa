"""Containers made of processes: what pytest-celery and Celery's smoke tests ask of one."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import amqp
import pytest
from compat_standins import client, family, limits
from compat_standins.container import Container
from compat_standins.errors import NoSuchImageError, StandinError
from compat_standins.images import Image
from compat_standins.machine import Machine, Program
from tests.services import wait_until

pytestmark = pytest.mark.integration

Require = Callable[[str], Path]
SLEEP = "exec sleep 600"

# A session of its own that says which container it has, and waits to be killed.
SESSION = """
import time
from pathlib import Path
from compat_standins.client import Client
from tests.compat.test_standins import SHELL

client = Client(released=None, cache=Path("unused"))
container = client.containers.run(SHELL, ["sh", "-c", "exec sleep 600"])
print(container.short_id, client.home.path, flush=True)
time.sleep(600)
"""


def shell(_machine: Machine, command: object) -> Program:
    assert isinstance(command, list)
    return Program(command)


SHELL = Image("shell", (), shell)


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[client.Client]:
    session = client.Client(released=None, cache=tmp_path)
    yield session
    session.close()


def run(docker: client.Client, script: str, **options: object) -> Container:
    return docker.containers.run(SHELL, ["sh", "-c", script], **options)


def wait_for_log(container: Container, text: str, times: int = 1) -> None:
    wait_until(lambda: container.logs().decode().count(text) >= times, f"log {text}")


def test_runs_a_command_and_keeps_what_it_writes(docker: client.Client) -> None:
    container = run(docker, f"echo $WHO; echo $HOSTNAME >&2; {SLEEP}", environment={"WHO": 7})
    wait_for_log(container, container.short_id)
    assert container.logs().decode() == f"7\n{container.short_id}\n"
    assert container.logs(tail=1).decode() == f"{container.short_id}\n"
    assert container.status == "running"
    assert container.attrs["Config"]["Hostname"] == container.id[:12]


def test_every_container_has_an_address_of_its_own(docker: client.Client) -> None:
    first, second = run(docker, SLEEP), run(docker, SLEEP)
    assert first.short_id != second.short_id
    for container in (first, second):
        assert socket.gethostbyname(container.short_id) == container.short_id


def test_what_is_seen_is_as_old_as_the_last_reload(docker: client.Client) -> None:
    container = run(docker, "exit 7")
    assert container.wait() == {"StatusCode": 7, "Error": None}
    container.reload()
    assert container.status == "exited"
    assert container.attrs["State"]["ExitCode"] == 7
    container.start()
    assert container.status == "exited"


def test_a_signal_reaches_the_main_process(docker: client.Client) -> None:
    container = run(
        docker, "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.1; done"
    )
    wait_for_log(container, "ready")
    container.kill("SIGTERM")
    assert container.wait(60)["StatusCode"] == 3
    assert b"asked" in container.logs()


def test_the_same_signal_twice_arrives_twice(docker: client.Client) -> None:
    container = run(docker, "trap 'echo asked' TERM; echo ready; while :; do sleep 0.01; done")
    wait_for_log(container, "ready")
    container.kill("SIGTERM")
    container.kill("SIGTERM")
    wait_for_log(container, "asked", times=2)


def test_sigkill_is_over_when_it_returns(docker: client.Client) -> None:
    container = run(docker, SLEEP)
    container.kill()
    container.reload()
    assert (container.status, container.attrs["State"]["ExitCode"]) == ("exited", 137)
    with pytest.raises(StandinError, match="is not running"):
        container.kill()


def test_a_container_ends_with_its_first_process(docker: client.Client) -> None:
    # One child stays in the session of its parent, one leaves it, one is started from outside.
    container = run(docker, f"sleep 600 & setsid sleep 600 & echo ready; {SLEEP}")
    wait_for_log(container, "ready")
    container.exec_run(["sleep", "600"], detach=True)
    wait_until(lambda: len(family.members(container.short_id)) == 4, "four processes")
    container.kill("SIGTERM")
    container.wait(60)
    assert family.members(container.short_id) == []


def test_stop_kills_what_does_not_listen(docker: client.Client) -> None:
    container = run(docker, "trap '' TERM; echo ready; while :; do sleep 0.1; done")
    wait_for_log(container, "ready")
    container.stop(timeout=0.2)
    container.reload()
    assert container.attrs["State"]["ExitCode"] == 137


def test_restarts_at_the_same_place_and_goes_on_with_the_log(docker: client.Client) -> None:
    container = run(docker, f"echo at $HOSTNAME, told $WORD; {SLEEP}", environment={"WORD": "x"})
    line = f"at {container.short_id}, told x"
    wait_for_log(container, line)
    container.restart()
    wait_for_log(container, line, times=2)
    container.reload()
    assert container.status == "running"


def test_no_process_of_a_paused_container_runs(docker: client.Client) -> None:
    container = run(docker, f"sleep 600 & echo ready; {SLEEP}")
    wait_for_log(container, "ready")
    wait_until(lambda: len(family.members(container.short_id)) == 2, "two processes")
    container.pause()
    container.reload()
    assert container.status == "paused"
    assert states(container) == {"T"}
    container.unpause()
    container.reload()
    assert container.status == "running"
    wait_until(lambda: "T" not in states(container), "it runs again")


def states(container: Container) -> set[str]:
    """The states of its processes, as the kernel abbreviates them."""
    stats = [Path(f"/proc/{pid}/stat").read_text() for pid in family.members(container.short_id)]
    return {each.rpartition(")")[2].split()[0] for each in stats}


def test_a_paused_container_can_be_removed(docker: client.Client) -> None:
    container = run(docker, SLEEP)
    container.pause()
    with pytest.raises(StandinError, match="is running"):
        container.remove()
    container.remove(force=True)
    assert family.members(container.short_id) == []
    assert not container.machine.folder.exists()


def test_commands_run_inside(docker: client.Client) -> None:
    container = run(docker, SLEEP, environment={"WORD": "x"})
    assert container.exec_run("sh -c 'echo $HOSTNAME $WORD; echo y >&2; exit 4'") == (
        4,
        f"{container.short_id} x\ny\n".encode(),
    )
    container.kill()
    with pytest.raises(StandinError, match="is not running"):
        container.exec_run("true")


def test_a_volume_is_filled_through_one_container_and_read_in_another(
    docker: client.Client,
) -> None:
    # As pytest-docker-tools fills it.
    volume = docker.volumes.create("pytest-volume")
    filler = docker.containers.create(SHELL, volumes={volume.name: {"bind": "/data"}})
    filler.put_archive("/data", packed("deep/word.txt", b"found"))
    filler.remove(force=True)

    reader = run(
        docker,
        f'pwd; cat "$PLACE/deep/word.txt"; {SLEEP}',
        volumes={volume.name: {"bind": "/app", "mode": "rw"}},
        environment={"PLACE": "/app"},
    )
    wait_for_log(reader, "found")
    assert reader.logs().decode() == f"{volume.path}\nfound"
    assert reader.exec_run(["cat", "/app/deep/word.txt"]).output == b"found"
    pieces, found = reader.get_archive("/app/deep/word.txt")
    assert found["size"] == 5
    with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as archive:
        assert archive.getnames() == ["word.txt"]


def packed(name: str, content: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        header = tarfile.TarInfo(name)
        header.size = len(content)
        archive.addfile(header, io.BytesIO(content))
    return stream.getvalue()


def test_processors_are_those_that_were_asked_for(docker: client.Client) -> None:
    first = min(os.sched_getaffinity(0))
    container = run(docker, SLEEP, cpuset_cpus=str(first))
    pid = container.attrs["State"]["Pid"]
    wait_until(lambda: os.sched_getaffinity(pid) == {first}, "it is bound")


def test_processor_time_is_limited_where_the_kernel_lets_us(docker: client.Client) -> None:
    container = run(docker, SLEEP, cpu_quota=50_000, cpu_period=100_000)
    groups = list(limits.GROUPS.glob(f"**/taskmq-{container.short_id}"))
    if not groups:
        pytest.skip("no control groups can be made here")
    pid = str(container.attrs["State"]["Pid"])
    procs = groups[0] / "cgroup.procs"
    wait_until(lambda: pid in procs.read_text().split(), "it is under the limit")
    container.remove(force=True)
    assert not groups[0].exists()


def test_a_published_port_is_there_while_the_container_runs(
    docker: client.Client, require_server: Require
) -> None:
    require_server("redis-server")
    # As pytest-docker-tools passes it: an empty argument is None.
    command = ["redis-server", "no-such-file.conf", "--save", None, "--appendonly", "no"]
    redis = docker.containers.run("redis:latest", command, ports={"6379/tcp": None})
    port = int(redis.attrs["NetworkSettings"]["Ports"]["6379/tcp"][0]["HostPort"])
    assert ask("127.0.0.1", port) == b"+PONG\r\n"
    assert ask(redis.short_id, 6379) == b"+PONG\r\n"
    assert b"Ready to accept connections" in redis.logs()
    assert redis.exec_run(["redis-cli", "CLIENT", "GETNAME"]).exit_code == 0
    redis.kill()
    with pytest.raises(ConnectionRefusedError):
        ask("127.0.0.1", port)
    redis.restart()
    assert ask("127.0.0.1", port) == b"+PONG\r\n"


def ask(host: str, port: int) -> bytes:
    with socket.create_connection((host, port), timeout=30) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(100)


def test_two_servers_keep_their_usual_port(docker: client.Client, require_server: Require) -> None:
    require_server("redis-server")
    for word in ("one", "two"):
        redis = docker.containers.run("redis:latest", ports={"6379/tcp": None})
        assert redis.exec_run(["redis-cli", "GET", "word"]).output == b"\n"
        redis.exec_run(["redis-cli", "SET", "word", word])


@pytest.mark.slow
def test_rabbitmq_is_like_new_for_the_next_container(
    docker: client.Client, require_server: Require
) -> None:
    # It takes seconds to start: one that nobody troubled serves several tests.
    require_server("rabbitmq-server")
    first = docker.containers.run("rabbitmq:latest", ports={"5672/tcp": None})
    started = b"Server startup complete"
    wait_until(lambda: started in first.logs(), "the node's start")
    with amqp.Connection(f"{first.short_id}:5672") as connection:
        connection.channel().queue_declare("left", durable=True, auto_delete=False)
    before = first.logs()
    first.remove(force=True)

    second = docker.containers.run("rabbitmq:latest", ports={"5672/tcp": None})
    assert second.short_id == first.short_id
    assert second.id != first.id
    assert second.attrs["NetworkSettings"]["Ports"] != first.attrs["NetworkSettings"]["Ports"]
    queues = ["rabbitmqctl", "--quiet", "list_queues", "name"]
    assert second.exec_run(queues) == (0, b"")
    assert started in second.logs()
    assert b"granted access" in before
    assert b"granted access" not in second.logs()


def test_a_worker_takes_the_container_for_its_host(docker: client.Client) -> None:
    worker, _ = docker.images.build(
        dockerfile="workers/docker/dev", buildargs={"CELERY_VERSION": "5.7.0"}
    )
    program = 'python -c "import socket; print(socket.gethostname())"'
    container = docker.containers.run(worker, ["sh", "-c", SLEEP])
    assert container.exec_run(program).output.decode().strip() == container.short_id


def test_an_image_that_nothing_stands_for_is_named(docker: client.Client) -> None:
    with pytest.raises(NoSuchImageError, match="localstack/localstack"):
        docker.containers.run("localstack/localstack")


def test_everything_ends_with_the_session_however_it_ends() -> None:
    session = subprocess.Popen(
        [sys.executable, "-c", SESSION],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert session.stdout is not None
    with contextlib.closing(session.stdout):
        name, home = session.stdout.readline().split()
    assert family.members(name)
    session.send_signal(signal.SIGKILL)
    session.wait()
    wait_until(lambda: not family.members(name) and not Path(home).exists(), "nothing is left")
