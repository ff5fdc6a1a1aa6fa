"""Servers that work together: sentinels, a cluster, a standby, PgBouncer."""

import psycopg
import pytest
from tests import services
from tests.servers import StartService


def test_sentinels_name_the_replica_when_the_master_dies(start_service: StartService) -> None:
    redis = start_service(services.SentinelSet, password="pw", down_after=1.0)  # noqa: S106  # of a test's server
    master, replica = redis.master, redis.replica
    master.cli("SET", "key", "value")
    assert master.cli("WAIT", 1, 5000) == "1"
    master.kill()
    redis.wait_for_master(replica)
    assert redis.master is replica
    assert replica.cli("GET", "key") == "value"
    assert [str(port) in redis.url for _, port in redis.addresses] == [True] * 3


def test_a_slot_moves_with_its_keys_and_a_replica_takes_over(start_service: StartService) -> None:
    cluster = start_service(services.RedisCluster)
    slot, source = cluster.slot("{tag}"), cluster.owner("{tag}")
    target = next(each for each in cluster.masters if each is not source)
    for number in range(5):
        source.cli("SET", f"{{tag}}{number}", number)
    cluster.begin_move(slot, target)
    assert cluster.move_keys(slot, target, limit=2) == 2
    with pytest.raises(services.ServiceError, match=f"ASK {slot}"):
        source.cli("GET", "{tag}absent")
    assert cluster.move_keys(slot, target) == 3
    cluster.end_move(slot, target)
    assert cluster.owner("{tag}") is target
    with pytest.raises(services.ServiceError, match=f"MOVED {slot}"):
        source.cli("GET", "{tag}0")
    target.kill()
    services.wait_until(lambda: cluster.owner("{tag}") in cluster.replicas, "a replica takes over")
    cluster.wait_until_ok()
    assert cluster.owner("{tag}").cli("GET", "{tag}4") == "4"


def test_a_standby_follows_and_is_promoted(start_service: StartService) -> None:
    primary = start_service(services.Postgres)
    standby = start_service(services.Standby, primary)
    primary.query("CREATE TABLE kept AS SELECT 7 AS number")
    standby.catch_up()
    with pytest.raises(services.ServiceError, match="read-only"):
        standby.query("DELETE FROM kept")
    primary.kill()
    standby.promote()
    standby.query("INSERT INTO kept VALUES (8)")
    with psycopg.connect(standby.failover_url()) as connection:
        assert connection.execute("SELECT sum(number) FROM kept").fetchone() == (15,)


def test_pgbouncer_shares_few_sessions_among_many_clients(start_service: StartService) -> None:
    postgres = start_service(services.Postgres)
    bouncer = start_service(services.PgBouncer, postgres, {"default_pool_size": 1})
    url = bouncer.url_of("template1")
    with psycopg.connect(url) as one, psycopg.connect(url) as another:
        sessions = set()
        for connection in (one, another):
            row = connection.execute("SELECT pg_backend_pid()").fetchone()
            connection.commit()
            sessions.add(row)
    assert len(sessions) == 1
    assert "transaction" in bouncer.query("SHOW POOLS", database="pgbouncer")
