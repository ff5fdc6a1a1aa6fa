"""The servers that tests are given: they run, they can be troubled, they leave nothing behind."""

import subprocess
import sys
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psycopg
import pytest
from tests import services
from tests.servers import Run, StartService

AWKWARD = "se:/"
TOP = Path(__file__).parents[2]
OWNER = """
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from tests import services
home = services.Home()
for server in (services.Redis(home=home), services.Postgres(home=home)):
    server.start()
    print(server.pid)
print(home.path, flush=True)
time.sleep(300)
"""


def is_gone(pid: int) -> bool:
    """Whether a process has ended, even where nobody collects orphans."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def test_redis_keeps_port_and_folder_over_a_kill(start_service: StartService) -> None:
    redis = start_service(services.Redis, {"appendonly": "yes", "appendfsync": "always"})
    url = redis.url
    redis.cli("SET", "key", "kept")
    redis.kill()
    assert not redis.is_running
    with pytest.raises(OSError, match="refused"):
        redis.answers()
    redis.start()
    assert redis.url == url
    assert redis.cli("GET", "key") == "kept"


def test_redis_takes_options_password_and_users(start_service: StartService) -> None:
    redis = start_service(services.Redis, {"maxmemory": "8mb"}, password=AWKWARD)
    assert redis.url == f"redis://:se%3A%2F@127.0.0.1:{redis.port}/0"
    assert redis.cli("CONFIG", "GET", "maxmemory") == "maxmemory\n8388608"
    users = ["user default on nopass ~* &* +@all", "user app on >pw ~app:* +@all"]
    limited = start_service(services.Redis, users=users, unix_socket=True)
    assert limited.unix_path.is_socket()
    with pytest.raises(services.ServiceError, match="NOPERM"):
        limited.cli("--user", "app", "--pass", "pw", "--no-auth-warning", "GET", "other")


def test_a_paused_server_accepts_and_does_not_answer(start_service: StartService) -> None:
    redis = start_service(services.Redis)
    redis.pause()
    with pytest.raises(TimeoutError):
        redis.answers()
    redis.resume()
    assert redis.answers()
    redis.pause()
    redis.restart()
    assert redis.cli("PING") == "PONG"


def test_a_server_that_does_not_start_shows_the_end_of_its_log() -> None:
    with (
        pytest.raises(services.ServiceError, match=r"(?s)ended at its start.*no-such-option"),
        services.Redis({"no-such-option": "1"}),
    ):
        pass


def test_postgres_survives_a_kill(start_service: StartService) -> None:
    postgres = start_service(services.Postgres, {"log_statement": "all"}, fsync=True)
    url = postgres.create_database("app")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    postgres.kill()
    postgres.start()
    assert postgres.query("SELECT number FROM kept", database="app") == "7"
    assert postgres.query("SHOW fsync") == "on"
    with psycopg.connect(postgres.unix_url) as connection:
        assert connection.execute("SHOW log_statement").fetchone() == ("all",)


def test_each_test_has_a_database_of_its_own(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE only_here ()")


def test_rabbitmq_gives_each_test_a_virtual_host(
    rabbitmq_server: services.RabbitMQ, rabbitmq_url: str
) -> None:
    name = rabbitmq_url.rpartition("/")[2]
    assert name in rabbitmq_server.ctl("list_vhosts").split()
    assert rabbitmq_server.evaluate("1 + 1") == "2"


def test_servers_and_folder_go_with_an_owner_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], cwd=TOP, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        lines = [owner.stdout.readline().decode().strip() for _ in range(3)]
        owner.kill()
    for pid in map(int, lines[:2]):
        services.wait_until(partial(is_gone, pid), f"{pid} ends")
    services.wait_until(lambda: not Path(lines[2]).exists(), "the folder goes")


def test_the_processes_of_a_run_share_one_server(require_server: Callable[[str], Path]) -> None:
    require_server(services.Redis.program)
    name = uuid.uuid4().hex
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as owner:
        runs = [Run(name, owner.pid), Run(name, owner.pid)]
        with ThreadPoolExecutor() as threads:
            first, second = threads.map(lambda run: run.server(services.Redis), runs)
        first.cli("SET", "key", "shared")
        assert second.cli("GET", "key") == "shared"
        owner.kill()
    services.wait_until(lambda: not first.folder.parent.exists(), "the folder goes")
    with pytest.raises(OSError, match="refused"):
        first.answers()
