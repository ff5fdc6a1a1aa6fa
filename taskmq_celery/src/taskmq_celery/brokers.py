"""From Celery's broker URLs to the engine's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

from taskmq import ConfigError
from taskmq.urls import without_passwords

from .behind import local_store

__all__ = ["STORES", "UnsupportedBroker", "broker_url", "carries_control", "connection_url"]

STORES = {
    "memory": "memory",
    "sqlite": "sqlite",
    "sqla+sqlite": "sqlite",
    "redis": "redis",
    "rediss": "rediss",
    "redis+sentinel": "redis+sentinel",
    "rediss+sentinel": "rediss+sentinel",
    "unix": "unix",
    "redis+socket": "unix",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "sqla+postgresql": "postgresql",
    "sqla+postgresql+psycopg": "postgresql",
    "sqla+postgresql+psycopg2": "postgresql",
}
"""Schemes of broker URLs, and the engine's scheme for each."""

BROKERS = {"amqp": "amqp", "pyamqp": "amqp", "librabbitmq": "amqp", "amqps": "amqps"}
"""Brokers that only deliver: the jobs are in another place (``?state=sqlite:///…``)."""

RENAMED = {"virtual_host": "db", "health_check_interval": None, "socket_timeout": "timeout"}
"""Options that kombu reads from a Redis URL, and the engine's name for them, if it has one."""

CERTIFICATES = {"cert_required": "required", "cert_optional": "optional", "cert_none": "none"}


class UnsupportedBroker(ConfigError):
    """The broker URL is of a kind that the engine does not have."""


def broker_url(
    url: str | None, options: Mapping[str, Any] | None = None, results: Any = None
) -> str:
    """The engine's URL for a broker URL. Raises `UnsupportedBroker`.

    ``options`` is the setting ``broker_transport_options``: the name that sentinels know a server
    by (``master_name``) and where the jobs of a RabbitMQ are (``state``) may be written there.
    Of several URLs of RabbitMQ (a list, or with ``;`` between them) the next is tried where one
    does not answer; of other kinds the first is taken. ``results`` is the setting
    ``result_backend``: a store there has these jobs, too, if no other is named. Without one they
    are in a file (`taskmq_celery.behind`).
    """
    url = url or "amqp://"
    if isinstance(url, (list, tuple)):
        url = ";".join(url)
    options = options or {}
    if url.startswith("sentinel://"):
        return _sentinels(url, options)
    url, *others = url.split(";")
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = url.rstrip(":/"), ""
    if scheme in BROKERS:
        kept = _store_of_results(results)
        return _broker(BROKERS[scheme], rest, options, kept, [_place(each) for each in others])
    native = STORES.get(scheme)
    if native is None:
        raise UnsupportedBroker(
            f"broker {scheme}:// is not supported yet: set broker_url, or the environment variable "
            "CELERY_BROKER_URL, to e.g. redis://localhost:6379/0 or sqlite:////var/lib/app/jobs.db "
            f"(there are: {', '.join(f'{name}://' for name in STORES)})"
        )
    if native == "sqlite":
        return f"sqlite://{unquote(rest)}"
    if native in ("redis", "rediss", "unix"):
        return f"{native}://{_redis(rest)}"
    return f"{native}://{rest}"


def _redis(rest: str) -> str:
    """What follows ``redis://``, with kombu's options under the engine's names."""
    place, mark, query = rest.partition("?")
    if not mark:
        return place
    given = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        ours = RENAMED.get(name, name)
        if ours is not None:
            given[ours] = CERTIFICATES.get(value.lower(), value)
    return f"{place}?{urlencode(given)}" if given else place


def _sentinels(url: str, options: Mapping[str, Any]) -> str:
    """``sentinel://one:26379;sentinel://two:26379/0`` as one URL."""
    name = options.get("master_name")
    if not name:
        raise UnsupportedBroker(
            f"{url.partition('@')[2] or url}: say which server the sentinels watch: "
            "broker_transport_options={'master_name': 'mymaster'}"
        )
    places, login, database = [], "", ""
    for each in url.split(";"):
        place, _, path = each.partition("://")[2].partition("/")
        given, at, place = place.rpartition("@")
        login, database = login or given + at, database or path
        places.append(place)
    query = ""
    password = (options.get("sentinel_kwargs") or {}).get("password")
    if password:
        query = f"?{urlencode({'sentinel_password': password})}"
    return (
        f"redis+sentinel://{login}{','.join(places)}/{quote(name)}/{database}".rstrip("/") + query
    )


def _store_of_results(results: Any) -> str | None:
    """The engine's URL of a ``result_backend`` that other programs can reach, too."""
    if not isinstance(results, str):
        return None
    url = results.removeprefix("db+")
    scheme, _, place = url.partition("://")
    if place in ("", "/", "/:memory:") and "sqlite" in scheme:
        return None
    known = url if scheme in STORES else f"sqla+{url}"
    if STORES.get(known.partition("://")[0], "memory") == "memory":
        return None
    return broker_url(known)


def _place(url: str) -> str:
    """A further broker to try. Raises `UnsupportedBroker`."""
    scheme, _, rest = url.partition("://")
    if scheme not in BROKERS:
        raise UnsupportedBroker(
            f"{without_passwords(url)!r} cannot stand in for a RabbitMQ: of several brokers all "
            f"have to be one (there are: {', '.join(f'{name}://' for name in BROKERS)})"
        )
    return f"{BROKERS[scheme]}://{rest.partition('?')[0] or 'localhost'}"


def _broker(
    scheme: str,
    rest: str,
    options: Mapping[str, Any],
    kept: str | None,
    others: Sequence[str] = (),
) -> str:
    first, _, query = rest.partition("?")
    first = first or "localhost"
    place = ";".join([first, *others])
    given = dict(parse_qsl(query))
    if given.get("state"):
        return f"{scheme}://{place}?{query}"
    more: Mapping[str, str] = {}
    state = options.get("state") or kept
    if not state:
        state, more = local_store(first)
    return f"{scheme}://{place}?{urlencode({**more, **given, 'state': state})}"


KNOWN_TO_KOMBU = frozenset(
    {"connect_timeout", "credential_provider", "heartbeat", "insist", "login_method", "password"}
    | {"port", "ssl", "transport", "userid", "virtual_host"}
)
"""What kombu reads from the query of a URL, besides ``ssl_…``. It fails at anything else."""


def connection_url(url: Any) -> Any:
    """A broker URL, or several, for kombu: without the options that only the engine reads."""
    if isinstance(url, (list, tuple)):
        return [connection_url(each) for each in url]
    if not isinstance(url, str) or "?" not in url:
        return url
    return ";".join(_without_ours(each) for each in url.split(";"))


def _without_ours(url: str) -> str:
    place, mark, query = url.partition("?")
    given = parse_qsl(query, keep_blank_values=True)
    kept = [each for each in given if each[0] in KNOWN_TO_KOMBU or each[0].startswith("ssl_")]
    if not mark or len(kept) == len(given):
        return url
    return f"{place}?{urlencode(kept)}" if kept else place


CONTROLLED = frozenset(
    {*BROKERS, "memory", "redis", "rediss", "redis+socket", "sentinel"},
)
"""Schemes of brokers through which kombu can talk with workers, too."""


def carries_control(url: str | Sequence[str] | None) -> bool:
    """Whether kombu can broadcast to workers through this broker."""
    url = url or "amqp://"
    first = url if isinstance(url, str) else url[0]
    return first.partition(":")[0] in CONTROLLED
