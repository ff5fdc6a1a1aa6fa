"""Result backends in stores of other vendors, as far as they go without the vendor's library.

With it they are held to Celery's own unit tests, by compat-suite.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

from celery.backends.azureblockblob import AzureBlockBlobBackend
from celery.backends.cosmosdbsql import CosmosDBSQLBackend
from celery.backends.dynamodb import DynamoDBBackend
from celery.backends.elasticsearch import _Client
from celery.exceptions import ImproperlyConfigured

MakeApp = Callable[..., Any]


@pytest.mark.parametrize(
    ("extra", "library", "url"),
    [
        ("arangodb", "pyArango", "arangodb://host/database/collection"),
        ("azureblockblob", "azure.storage.blob", "azureblockblob://AccountName=me;AccountKey=key"),
        ("cassandra", "cassandra", "cassandra://"),
        ("consul", "consul", "consul://host:8500"),
        ("cosmosdbsql", "pydocumentdb", "cosmosdbsql://:key@host"),
        ("couchbase", "couchbase", "couchbase://host/bucket"),
        ("couchdb", "pycouchdb", "couchdb://host/database"),
        ("dynamodb", "boto3", "dynamodb://@eu-west-1/table"),
        ("elasticsearch", "elasticsearch", "elasticsearch://host:9200/index"),
        ("gcs", "google.cloud.storage", "gs://bucket?gcs_project=project"),
        ("s3", "boto3", "s3://"),
    ],
)
def test_a_backend_says_which_extra_brings_its_library(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch, extra: str, library: str, url: str
) -> None:
    module = f"celery.backends.{extra}"
    monkeypatch.setitem(sys.modules, module, None)  # whatever it is now, it is so again afterwards
    monkeypatch.delitem(sys.modules, module)
    for each in (library.partition(".")[0], library):
        monkeypatch.setitem(sys.modules, each, None)  # importing it fails, installed or not
    with pytest.raises(ImproperlyConfigured, match=re.escape(f"pip install 'celery[{extra}]'")):
        _ = make_app(backend=url).backend


@pytest.mark.parametrize(
    ("kind", "url", "said"),
    [
        (AzureBlockBlobBackend, "azureblockblob://", "followed by a connection string"),
        (AzureBlockBlobBackend, None, "followed by a connection string"),
        (CosmosDBSQLBackend, "cosmosdbsql://host", "needs a key and a host"),
        (CosmosDBSQLBackend, None, "needs a key and a host"),
    ],
)
def test_a_url_that_lacks_something_says_what(kind: Any, url: str | None, said: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=said):
        kind._parse_url(url)


def test_cosmos_db_is_asked_by_tls_unless_there_is_a_port() -> None:
    assert CosmosDBSQLBackend._parse_url("cosmosdbsql://:a%2Fb@host") == ("https://host:443", "a/b")
    assert CosmosDBSQLBackend._parse_url("cosmosdbsql://:key@host:80") == ("http://host:80", "key")


@pytest.mark.parametrize(
    ("place", "is_address"), [("127.0.0.1", True), ("::1", True), ("us-east-1", False)]
)
def test_an_address_is_told_from_a_region(place: str, is_address: bool) -> None:
    assert DynamoDBBackend._is_valid_ip(place) is is_address


class Recorder:
    """Answers every call with its name and arguments."""

    def __getattr__(self, name: str) -> Any:
        return lambda **kwargs: (name, kwargs)


def test_elasticsearch_9_is_called_in_its_own_way() -> None:
    client, place = _Client(Recorder()), {"id": "celery-task-meta-1", "index": "celery"}
    assert client.get(**place, doc_type="doc") == ("get", place)
    assert client.delete(**place, doc_type="doc") == ("delete", place)
    assert client.index(**place, body={"result": 1}, params={"op_type": "create"}) == (
        "index",
        {**place, "document": {"result": 1}, "op_type": "create"},
    )
    version = {"if_seq_no": 2, "if_primary_term": 1}
    assert client.update(**place, body={"doc": {"result": 1}}, params=version) == (
        "update",
        {**place, "doc": {"result": 1}, **version},
    )
    assert client.info() == ("info", {})
