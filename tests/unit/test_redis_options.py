"""What Redis URLs mean, and what they cannot."""

from __future__ import annotations

import pytest

from taskmq.errors import ConfigError
from taskmq.transports.redis.options import parse


def test_defaults() -> None:
    options = parse("redis://")
    assert options.addresses == (("localhost", 6379),)
    assert (options.db, options.namespace, options.tls, options.cluster) == (
        0,
        "taskmq",
        False,
        False,
    )


def test_everything_of_one_server() -> None:
    options = parse("rediss://ann:p%40ss@host:7000/3?namespace=shop&timeout=9&connect_timeout=1.5")
    assert options.addresses == (("host", 7000),)
    assert (options.username, options.password, options.db) == ("ann", "p@ss", 3)
    assert (options.tls, options.namespace) == (True, "shop")
    assert (options.timeout, options.connect_timeout) == (9.0, 1.5)


def test_sentinels_and_their_service() -> None:
    options = parse("redis+sentinel://:secret@one:1,two/mymaster/2")
    assert options.addresses == (("one", 1), ("two", 26379))
    assert (options.service, options.db, options.password) == ("mymaster", 2, "secret")


def test_unix_socket() -> None:
    options = parse("unix:///run/redis.sock?db=4")
    assert (options.unix_socket, options.db) == ("/run/redis.sock", 4)


def test_cluster_nodes() -> None:
    options = parse("redis://one:1,two:2?cluster=1")
    assert (options.cluster, options.addresses) == (True, (("one", 1), ("two", 2)))


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("redis://h?namespce=x", "namespace"),
        ("redis://h?namespace=a b", "letters"),
        ("redis://h/one", "must be a number"),
        ("redis://h:port/0", "redis://localhost"),
        ("redis://h?timeout=0", "more than 0"),
        ("redis://h?timeout=soon", "got 'soon'"),
        ("redis://h?cluster=maybe", "0 or 1"),
        ("redis://h/1?cluster=1", "database 0"),
        ("redis://h?protocol=4", "2 or 3"),
        ("redis://h?ssl_ca_certs=x", "rediss://"),
        ("redis+sentinel://h", "no service"),
        ("redis+sentinel://h/a?cluster=1", "redis:// and rediss:// only"),
        ("unix://", "no socket"),
    ],
)
def test_refusals_say_what_to_write(url: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        parse(url)


@pytest.mark.parametrize(
    "url", ["redis://u:hunter2@h/x", "redis+sentinel://:hunter2@h/s?sentinel_password=hunter2&x=1"]
)
def test_passwords_are_never_shown(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(url)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(parse("redis://u:hunter2@h"))
    assert "hunter2" not in parse("redis://u:hunter2@h").where
