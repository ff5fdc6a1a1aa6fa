"""What a URL of a broker says."""

from __future__ import annotations

import pytest

from taskmq.errors import ConfigError
from taskmq.plugins import open_transport
from taskmq.transports.amqp.options import Options, parse, without_password

STATE = "state=sqlite:///jobs.db"


def test_defaults() -> None:
    assert parse(f"amqp://host/vhost?{STATE}") == Options(
        broker="amqp://host/vhost", state="sqlite:///jobs.db"
    )


def test_everything() -> None:
    options = parse(
        "amqps://u:p@host:5671/?state=sqlite:///a.db%3Fsynchronous=full%26busy_timeout=1"
        "&namespace=shop&max_priority=18&queue_expires=60&publish_timeout=1&connect_timeout=2"
        "&heartbeat=0&patience=0.5&without_broker=store&ca=/ca.pem"
    )
    assert options.state == "sqlite:///a.db?synchronous=full&busy_timeout=1"
    assert (options.namespace, options.max_priority, options.queue_expires) == ("shop", 18, 60.0)
    assert (options.publish_timeout, options.connect_timeout) == (1.0, 2.0)
    assert (options.heartbeat, options.patience, options.without_broker) == (0.0, 0.5, "store")
    assert options.tls == {"ca": "/ca.pem"}


def test_several_brokers() -> None:
    options = parse(f"amqp://u:p@one//;amqps://two:5671/shop?{STATE}")
    assert options.brokers == ("amqp://u:p@one//", "amqps://two:5671/shop")
    assert options.is_amqp
    assert options.where == "amqp://u:***@one//;amqps://two:5671/shop"
    assert parse(f"amqp://one?{STATE}").brokers == ("amqp://one",)
    with pytest.raises(ConfigError, match="names no host"):
        parse(f"amqp://one;amqp:///shop?{STATE}")


def test_any_broker_of_kombu() -> None:
    options = parse(
        f"kombu+sqs://key@/?{STATE}&transport.region=eu&transport.wait=2&transport.x=1.5"
    )
    assert options.broker == "sqs://key@/"
    assert not options.is_amqp
    assert options.forwarded == {"region": "eu", "wait": 2, "x": 1.5}


def test_quorum_queues_have_no_priorities() -> None:
    assert parse(f"amqp://host/?{STATE}&queue_type=quorum").max_priority == 0


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("amqp://host/", "say where the jobs are kept"),
        ("amqp://host/?state=jobs.db", "say where the jobs are kept"),
        ("amqp://host/?state=amqp://other", "a store of its own"),
        ("amqp://host/?state=kombu%2Bredis://x", "a store of its own"),
        (f"amqp://host/?{STATE}&queue_typ=quorum", "did you mean 'queue_type'"),
        (f"amqp://host/?{STATE}&queue_type=quorm", "did you mean 'quorum'"),
        (f"amqp://host/?{STATE}&queue_type=quorum&max_priority=5", "no x-max-priority"),
        (f"amqp://host/?{STATE}&max_priority=256", "0 to 255"),
        (f"amqp://host/?{STATE}&max_priority=many", "0 to 255"),
        (f"amqp://host/?{STATE}&publish_timeout=soon", "0.1 to 86400 seconds"),
        (f"amqp://host/?{STATE}&publish_timeout=nan", "0.1 to 86400 seconds"),
        (f"amqp://host/?{STATE}&namespace=a/b", "letters, digits"),
        (f"amqp://host/?{STATE}&without_broker=spool", "refuse or store"),
        (f"amqp:///?{STATE}", "names no host"),
        (f"amqp://host:port/?{STATE}", "is no URL"),
    ],
)
def test_wrong_urls_say_what_to_write(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse(url)
    assert "\n" not in str(caught.value)


def test_no_error_shows_a_password() -> None:
    url = "amqp://user:secret@host:5672/vhost"
    assert without_password(f"{url}?{STATE}") == "amqp://user:***@host:5672/vhost"
    with pytest.raises(ConfigError) as caught:
        parse(f"{url}?{STATE}&nonsense=1")
    assert "secret" not in str(caught.value)


def test_a_broker_that_kombu_does_not_know() -> None:
    with pytest.raises(ConfigError, match="kombu cannot load this transport"):
        open_transport("kombu+nosuchbroker://host/?state=memory://")
