"""No password is shown: URLs, settings, reports."""

from __future__ import annotations

from typing import Any

import pytest

from celery import Celery
from celery.app.redact import sanitize_url
from celery.app.utils import filter_hidden_settings

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://ann@host/0", "redis://ann@host/0"),
        ("redis://:pw@host:6379/0", "redis://:********@host:6379/0"),
        ("redis://ann:p,a;s@s@host/0", "redis://ann:********@host/0"),
        ("redis://a@b@host/0", "redis://********@host/0"),
        ("redis://ann:pw@host?a=1;b=2", "redis://ann:********@host?a=1;b=2"),
        ("redis://host/0?password=pw&db=1", "redis://host/0?password=********&db=1"),
        ("sentinel://:pw@a:1;sentinel://:pw@b:2/0", "sentinel://:********@a:1;sentinel://:********@b:2/0"),
        ("mongodb://u:pw@a:1,b:2/db", "mongodb://u:********@a:1,b:2/db"),
        ("cache+memcached://a:1;;b:2/", "cache+memcached://a:1;b:2/"),
        ("azureblockblob://AccountName=a;AccountKey=pw#==", "azureblockblob://AccountName=a;AccountKey=********"),
        ("disabled", "disabled"),
        (None, None),
    ],
)  # fmt: skip
def test_urls(url: Any, shown: Any) -> None:
    assert sanitize_url(url) == shown


def test_whatever_goes_wrong_nothing_leaks() -> None:
    class Odd(str):
        def partition(self, sep: Any) -> Any:
            raise RuntimeError

    assert sanitize_url(Odd("redis://:pw@host/0")) == "redis://********@host/0"
    assert sanitize_url(Odd("redis://host/0")) == "<unparsable url>"


def test_settings(app: Celery) -> None:
    given: dict[Any, Any] = {
        "broker_read_url": "redis://:pw@host",
        "redis_password": "pw",
        ("odd", "key"): {"secret": "pw"},
        "worker_concurrency": 4,
    }
    shown = filter_hidden_settings(given)
    assert "pw" not in repr(shown)
    assert shown["worker_concurrency"] == 4
    app.conf.update(broker_read_url="redis://:pw@host", result_backend="redis://:pw@host")
    assert "pw" not in app.conf.humanize() + app.bugreport()
    assert "pw" in app.conf.humanize(censored=False)


def test_settings_can_be_forgotten(app: Celery) -> None:
    app.conf.task_always_eager = True
    app.conf.clear()
    assert app.conf.task_always_eager is False
    app.add_defaults({"mine": 1})
    assert app.conf.table()["mine"] == 1
