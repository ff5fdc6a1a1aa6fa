"""What the Redis backends read from settings and URLs: the parameters of a connection."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from kombu.utils.imports import symbol_by_name
from kombu.utils.url import url_to_parts

__all__ = ("conf_params", "credential_provider", "driver_params", "merged_url", "ssl_params")

SSL_MISMATCH = (
    "SSL connection parameters have been provided but the specified URL scheme is redis://. "
    "A Redis SSL connection URL should use the scheme rediss://."
)
SSL_MISSING = (
    "A rediss:// URL must have parameter ssl_cert_reqs and this must be set to CERT_REQUIRED, "
    "CERT_OPTIONAL, or CERT_NONE"
)
CERT_REQS: dict[Any, ssl.VerifyMode] = {
    ssl.CERT_REQUIRED: ssl.CERT_REQUIRED,
    ssl.CERT_OPTIONAL: ssl.CERT_OPTIONAL,
    ssl.CERT_NONE: ssl.CERT_NONE,
    **dict.fromkeys(("required", "CERT_REQUIRED"), ssl.CERT_REQUIRED),
    **dict.fromkeys(("optional", "CERT_OPTIONAL"), ssl.CERT_OPTIONAL),
    **dict.fromkeys(("none", "CERT_NONE"), ssl.CERT_NONE),
}
OF_SSL = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs")
OF_HOST = ("host", "port", "socket_connect_timeout", "socket_keepalive")
NUMBERS = {"socket_timeout": float, "socket_connect_timeout": float, "db": int, "port": int}
FLAGS = ("decode_responses", "retry_on_timeout", "socket_keepalive", "ssl_check_hostname")
NO = ("", "0", "f", "false", "n", "no", "off")


def conf_params(conf: Any, host: Any, port: Any, db: Any, password: Any) -> dict[str, Any]:
    """The parameters that arguments and settings (``redis_…``) give."""

    def of(name: str, default: Any = None) -> Any:
        return conf.get(f"redis_{name}", default)

    params = {
        "host": host or of("host") or "localhost",
        "port": port or of("port") or 6379,
        "db": db or of("db") or 0,
        "password": password or of("password"),
        "max_connections": of("max_connections"),
        "socket_timeout": _number(of("socket_timeout")),
        "retry_on_timeout": of("retry_on_timeout") or False,
        "socket_connect_timeout": _number(of("socket_connect_timeout")),
        "client_name": of("client_name"),
    }
    if of("username"):
        params["username"] = of("username")
    if of("backend_health_check_interval"):
        params["health_check_interval"] = of("backend_health_check_interval")
    if of("socket_keepalive"):
        params["socket_keepalive"] = True
    if of("backend_credential_provider"):
        params["credential_provider"] = credential_provider(of("backend_credential_provider"))
        params.pop("username", None)
        params.pop("password")
    return params


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def credential_provider(given: Any) -> Any:
    """A provider of redis-py's, from itself, its class or a path. Raises ``ValueError`` for what
    is none, ``ImportError``."""
    base = symbol_by_name("redis:CredentialProvider")
    found = symbol_by_name(given) if isinstance(given, str) else given
    if isinstance(found, type) and issubclass(found, base):
        found = found()
    if not isinstance(found, base):
        raise ValueError(
            f"Credential provider is not an instance of redis.CredentialProvider: {given!r}"
        )
    return found


def driver_params(version: str) -> dict[str, Any]:
    """What a connection tells the server of the program, as far as redis-py can say it."""
    redis = symbol_by_name("redis")
    try:
        return {"driver_info": redis.DriverInfo().add_upstream_driver("celery", version)}
    except (ImportError, AttributeError):
        return {
            "lib_name": f"redis-py(celery_v{version})",
            "lib_version": getattr(redis, "__version__", "unknown"),
        }


def merged_url(
    url: str, defaults: Mapping[str, Any], redis: Any, connection_class_ssl: Any
) -> dict[str, Any]:
    """The parameters of a URL on top of others."""
    scheme, host, port, username, password, path, query = url_to_parts(url)
    params: dict[str, Any] = dict(defaults)
    query = dict(query)
    given = query.pop("credential_provider", None)
    if given:
        params["credential_provider"] = credential_provider(given)
        username = password = ""
        for name in ("username", "password"):
            params.pop(name, None)
    params.update(
        {
            name: value
            for name, value in (
                ("host", host),
                ("port", port),
                ("username", username),
                ("password", password),
            )
            if value
        }
    )
    db: Any = query.pop("virtual_host", None) or path or params.get("db") or 0
    if scheme == "socket":
        params["connection_class"] = redis.UnixDomainSocketConnection
        params["path"] = path if path.startswith("/") else f"/{path}"
        db = query.pop("db", None) or (db if db != path else 0)
        for name in OF_HOST:
            params.pop(name, None)
    if any(name in query for name in OF_SSL) and scheme == "redis":
        raise ValueError(SSL_MISMATCH)
    if scheme == "rediss":
        params["connection_class"] = connection_class_ssl
        params.update({name: unquote(query.pop(name)) for name in OF_SSL if name in query})
    params["db"] = int(str(db).strip("/") or 0)
    params.update({name: _typed(name, value) for name, value in query.items()})
    return params


def _typed(name: str, value: Any) -> Any:
    if name in FLAGS and isinstance(value, str):
        return value.lower() not in NO
    return NUMBERS[name](value) if name in NUMBERS else value


def ssl_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of TLS with what they say of certificates checked. Raises ``ValueError``."""
    try:
        return {**params, "ssl_cert_reqs": CERT_REQS[params["ssl_cert_reqs"]]}
    except KeyError:
        raise ValueError(SSL_MISSING) from None
