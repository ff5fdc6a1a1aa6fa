"""Configuration is one frozen value, checked when it is built."""

import dataclasses
import math
from typing import Any

import pytest

from taskmq import Config, ConfigError, QueueConfig


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("transport", "jobs.db"),
        ("transport", None),
        ("default_queue", ""),
        ("queues", ["email"]),
        ("queues", {"": QueueConfig()}),
        ("queues", {"email": 5}),
        ("concurrency", 0),
        ("concurrency", "4"),
        ("pool", "fibers"),
        ("prefetch", 0),
        ("lease", 0),
        ("lease", math.inf),
        ("heartbeat_interval", -1),
        ("shutdown_timeout", -1),
        ("store_results", "yes"),
        ("result_ttl", math.nan),
        ("key_ttl", 0),
        ("park_ttl", 0),
        ("serializer", "pickle"),
        ("max_message_bytes", 0),
        ("timezone", "Europe/Atlantis"),
        ("timezone", ""),
        ("timezone", None),
        ("log_format", "xml"),
        ("events", "file"),
        ("eager", 1),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{field}"):
        Config(**{field: value})


def test_an_unknown_field_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no field 'concurency'; did you mean 'concurrency'"):
        Config(concurency=8)  # type: ignore[call-arg]  # the mistake under test
    with pytest.raises(ConfigError, match="QueueConfig has no field 'wieght'; did you mean"):
        QueueConfig(wieght=2)  # type: ignore[call-arg]  # the mistake under test


def test_a_worker_must_heartbeat_within_its_lease() -> None:
    with pytest.raises(ConfigError, match=r"heartbeat_interval \(10 s\) must not exceed lease"):
        Config(lease=5)


def test_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().lease = 5  # type: ignore[misc]  # the mistake under test


def test_replace_checks_again() -> None:
    config = Config(lease=30).replace(concurrency=8)
    assert (config.lease, config.concurrency) == (30, 8)
    with pytest.raises(ConfigError, match="concurrency"):
        config.replace(concurrency=0)
    with pytest.raises(ConfigError, match="no field"):
        config.replace(nothing=1)


def test_weight_of_a_declared_and_of_any_other_queue() -> None:
    config = Config(queues={"email": QueueConfig(weight=3)})
    assert config.weight("email") == 3
    assert config.weight("other") == 1


def test_utc_needs_no_time_zone_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoneinfo.ZoneInfo", lambda name: pytest.fail(f"looked up {name}"))
    assert Config().timezone == "UTC"


def test_the_environment_sets_each_type() -> None:
    config = Config.from_env(
        {
            "TASKMQ_TRANSPORT": "sqlite:///jobs.db",
            "TASKMQ_CONCURRENCY": "8",
            "TASKMQ_PREFETCH": "none",
            "TASKMQ_LEASE": "12.5",
            "TASKMQ_STORE_RESULTS": "No",
            "TASKMQ_POOL": "solo",
            "HOME": "/root",
        }
    )
    assert config == Config(
        transport="sqlite:///jobs.db",
        concurrency=8,
        prefetch=None,
        lease=12.5,
        store_results=False,
        pool="solo",
    )


def test_an_explicit_field_wins_over_the_environment() -> None:
    environ = {"TASKMQ_CONCURRENCY": "not even a number"}
    assert Config.from_env(environ, concurrency=2).concurrency == 2


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKMQ_CONCURRENCY", "7")
    assert Config.from_env().concurrency == 7
    assert Config().concurrency == 4


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("TASKMQ_CONCURRENCY", "eight"),
        ("TASKMQ_CONCURRENCY", ""),
        ("TASKMQ_CONCURRENCY", "0"),
        ("TASKMQ_LEASE", "1m"),
        ("TASKMQ_LEASE", "nan"),
        ("TASKMQ_EAGER", "maybe"),
        ("TASKMQ_POOL", "gevent"),
        ("TASKMQ_TRANSPORT", ""),
    ],
)
def test_a_wrong_text_is_refused_by_the_name_of_its_variable(variable: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"^{variable}"):
        Config.from_env({variable: text})


def test_an_unknown_variable_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="TASKMQ_CONCURENCY sets nothing; did you mean"):
        Config.from_env({"TASKMQ_CONCURENCY": "8"})


@pytest.mark.parametrize(
    "name",
    [
        "TASKMQ_APP",
        "TASKMQ_DEBUG",
        "TASKMQ_CELERY_VERSION",
        "TASKMQ_SERVICE_HOST",
        "TASKMQ_PORT",
        "TASKMQ_PORT_6379_TCP_ADDR",
    ],
)
def test_variables_that_others_set_for_good_reasons_are_let_be(name: str) -> None:
    assert Config.from_env({name: "x"}) == Config()


def test_every_field_but_the_queues_has_a_listed_variable() -> None:
    fields = {field.name for field in dataclasses.fields(Config)}
    assert set(Config.environment_variables().values()) == fields - {"queues"}
    assert Config.environment_variables()["TASKMQ_MAX_MESSAGE_BYTES"] == "max_message_bytes"
