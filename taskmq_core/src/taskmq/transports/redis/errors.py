"""From what Redis and its driver say to what the port promises: one total map."""

from __future__ import annotations

import redis.exceptions as driver

from taskmq.errors import (
    StoreCorrupt,
    StoreFull,
    TransportError,
    TransportUnavailable,
)

__all__ = ["FAILURES", "translate"]

FAILURES = (driver.RedisError, driver.RedisClusterException, OSError)
"""Everything that the driver raises."""

PERMISSIONS = "~{namespace}:* &{namespace}:* +@read +@write +@connection +@pubsub +@scripting +time"
TEMPORARY = {
    "READONLY": "is a replica, which cannot be written to (a failover is under way, or the URL "
    "names the wrong server)",
    "LOADING": "is loading its data",
    "MASTERDOWN": "has lost its primary",
    "CLUSTERDOWN": "is a cluster with slots that nobody serves",
    "TRYAGAIN": "is moving these keys to another node",
    "MOVED": "has moved these keys to another node; for a cluster write ?cluster=1",
    "ASK": "is moving these keys to another node; for a cluster write ?cluster=1",
    "MISCONF": "cannot save its data to disk and refuses writes: see its log, and free disk space",
    "NOREPLICAS": "has fewer replicas than its min-replicas-to-write",
    "BUSY": "is busy with another program's script",
    "UNBLOCKED": "has changed its role",
}
"""By the first word of the server's error; it may be tried again."""


def translate(error: Exception, where: str, namespace: str) -> TransportError:
    """The error of the port that stands for any error of the driver; never raises."""
    text = str(error)
    if isinstance(error, driver.AuthenticationError) or text.startswith(("NOAUTH", "WRONGPASS")):
        return TransportError(
            f"{where} refused the login ({text}); check user and password in the URL"
        )
    if isinstance(error, driver.OutOfMemoryError) or "OOM command not allowed" in text:
        return StoreFull(
            f"{where} has no memory left (maxmemory); nothing was written. Raise maxmemory, or "
            "let finished jobs go earlier (result_ttl)"
        )
    is_forbidden = text.startswith("NOPERM") or "user executing the script can't" in text
    if is_forbidden or isinstance(error, driver.NoPermissionError):
        return _forbidden(text, where, namespace)
    if "unknown command" in text and "eval" in text.lower():
        return TransportError(
            f"{where} has no EVALSHA or EVAL ({text}); taskmq needs Lua scripts: undo "
            "rename-command for both, or use another store"
        )
    for word, meaning in TEMPORARY.items():
        if text.startswith(word) or f"-{word} " in text or _class_of(word, error):
            return TransportUnavailable(f"{where} {meaning}")
    if isinstance(error, driver.ResponseError):
        if "WRONGTYPE" in text:
            return StoreCorrupt(
                f"{where}: a key of namespace {namespace!r} is not ours ({text}); give the store "
                "a namespace of its own (?namespace=NAME)"
            )
        return TransportError(f"{where}: unexpected answer: {text}")
    if isinstance(error, driver.TimeoutError):
        return TransportUnavailable(
            f"{where} did not answer in time ({text or 'timeout'}); it may have done what was asked"
        )
    return TransportUnavailable(f"{where} cannot be reached: {text or type(error).__name__}")


CLASSES: dict[str, tuple[type[Exception], ...]] = {
    "READONLY": (driver.ReadOnlyError,),
    "LOADING": (driver.BusyLoadingError,),
    "MASTERDOWN": (driver.MasterDownError,),
    "CLUSTERDOWN": (driver.ClusterDownError,),
    "TRYAGAIN": (driver.TryAgainError,),
    "MOVED": (driver.MovedError,),
    "ASK": (driver.AskError,),
}


def _class_of(word: str, error: Exception) -> bool:
    return isinstance(error, CLASSES.get(word, ()))


def _forbidden(text: str, where: str, namespace: str) -> TransportError:
    needed = PERMISSIONS.format(namespace=f"{{{namespace}}}")
    return TransportError(
        f"{where} does not permit this to the user in the URL ({text}); it needs: {needed}"
    )
