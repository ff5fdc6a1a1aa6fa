"""What a postgresql:// URL may say, and how the mistakes in it are told."""

from __future__ import annotations

import subprocess
import sys

import pytest

from taskmq.errors import ConfigError
from taskmq.transports.postgres.options import parse


def test_ours_are_read_and_libpqs_are_passed_on() -> None:
    options = parse(
        "postgresql://app:secret@db:5433/jobs?schema=queue&timeout=2.5&connections=3"
        "&sslmode=require&application_name=shop"
    )
    assert (options.schema, options.timeout, options.connections) == ("queue", 2.5, 3)
    assert not options.pooler
    assert options.create
    for part in ("sslmode=require", "application_name=shop", "host=db", "port=5433"):
        assert part in options.conninfo
    assert "schema" not in options.conninfo


def test_both_schemes_and_several_hosts() -> None:
    options = parse("postgres://a,b/jobs?target_session_attrs=read-write&pooler=transaction")
    assert "host=a,b" in options.conninfo.replace("'", "")
    assert options.pooler


def test_what_is_printed_has_no_password() -> None:
    assert parse("postgresql://app:secret@db/jobs").where == "PostgreSQL at app@db/jobs"


def test_connections_are_bounded_in_time_unless_the_url_says_otherwise() -> None:
    usual = parse("postgresql://db/jobs?timeout=3").conninfo
    assert "connect_timeout=5" in usual
    assert "tcp_user_timeout=3000" in usual
    assert "connect_timeout=1" in parse("postgresql://db/jobs?connect_timeout=1").conninfo


def test_hosts_share_the_time_to_connect_unless_the_url_says_otherwise() -> None:
    """While the first one is not heard of, the second one has to be reached in time."""
    assert "connect_timeout=2" in parse("postgresql://a,b/jobs").conninfo
    options = parse("postgresql://a,b/jobs?connect_timeout=7")
    assert (options.hosts, options.connect_timeout) == (2, 7)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("shcema=x", "did you mean 'schema'?"),
        ("sslmod=require", "did you mean 'sslmode'?"),
        ("schema=Big", "schema must be"),
        ("schema=pg_mine", "schema must be"),
        ("timeout=0", "timeout must be"),
        ("timeout=soon", "timeout must be"),
        ("connections=0", "connections must be"),
        ("pooler=session", "pooler must be none or transaction"),
        ("create=no", "create must be on or off"),
    ],
)
def test_mistakes_are_told_without_the_password(query: str, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(f"postgresql://app:secret@db/jobs?{query}")
    assert told in str(error.value)
    assert "secret" not in str(error.value)


def test_missing_driver_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from taskmq import App, Config, ConfigError\n"
        "try:\n    App(Config(transport='postgresql://db/jobs')).transport\n"
        "except ConfigError as error:\n    print(error)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install 'taskmq-py[postgres]'" in told.stdout, told.stderr
    assert told.stdout.count("\n") == 1
