"""Values that the user typed: JSON, instants, payloads to print."""

from __future__ import annotations

import datetime
import json
from typing import Any

from taskmq import ConfigError
from taskmq.codec import BUILT_IN, SKIPPED, Payload
from taskmq.references import OFFLOADED

__all__ = ["counted", "parse_instant", "parse_json", "payload_text", "shorten"]

EXAMPLES = {list: '[1, "a"]', dict: '{"name": 1}'}


def parse_json(option: str, text: str | None, kind: type[list[Any]] | type[dict[str, Any]]) -> Any:
    """A JSON list or object. Raises `ConfigError` with an example."""
    try:
        value = None if text is None else json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{option} is no JSON ({error}), got {text!r}") from None
    if text is not None and not isinstance(value, kind):
        raise ConfigError(f"{option} must look like {EXAMPLES[kind]}, got {text!r}")
    return value


def parse_instant(option: str, text: str | None) -> float | datetime.datetime | None:
    """Seconds from now, or an ISO 8601 instant with its time zone. Raises `ConfigError`."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ConfigError(
            f"{option} wants seconds or an instant such as 2030-01-31T09:00:00Z, got {text!r}"
        ) from None
    if moment.tzinfo is None:
        raise ConfigError(f"{option}={text} has no time zone; add Z or an offset such as +02:00")
    return moment


def payload_text(payload: Payload) -> str:
    """JSON as it is; of other bytes only how many."""
    if payload.codec in BUILT_IN:
        return payload.data.decode(errors="backslashreplace")
    if payload.codec == SKIPPED:
        return f"skipped, another job has done the work: {payload.data.decode()}"
    if payload.codec == OFFLOADED:
        return f"in the payload store: {payload.data.decode(errors='backslashreplace')}"
    return f"{len(payload.data):,} bytes of {payload.codec}"


def counted(count: int, noun: str) -> str:
    """``1 job``, ``2,000 jobs``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def shorten(text: str, limit: int = 100) -> str:
    """One line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
