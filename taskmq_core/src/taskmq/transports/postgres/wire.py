"""How batches travel: as few values as possible, in forms that cost little on both sides.

Lists of texts and numbers are PostgreSQL's array literals; byte strings are joined into one, with
the place where each of them ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from taskmq.envelope import Envelope, Sealed, fingerprint
from taskmq.transports._alike import is_free

__all__ = ["Batch", "array", "batch_of", "is_plain", "links_of", "numbers", "replacement", "texts"]

encode = msgspec.json.Encoder().encode


def texts(items: Sequence[str | None]) -> str:
    """An array of texts, as a literal."""
    if None not in items:
        plain = '{"' + '","'.join(items) + '"}' if items else "{}"  # type: ignore[arg-type]  # as seen
        if "\\" not in plain and plain.count('"') == 2 * len(items):
            return plain
    return "{" + ",".join(["NULL" if item is None else _quoted(item) for item in items]) + "}"


def _quoted(text: str) -> str:
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def numbers(items: Iterable[float | None]) -> str:
    """An array of numbers, as a literal."""
    return "{" + ",".join(["NULL" if item is None else str(item) for item in items]) + "}"


def array(items: Iterable[bytes | None]) -> str:
    """An array of byte strings, as a literal."""
    return "{" + ",".join(["NULL" if i is None else f'"\\\\x{i.hex()}"' for i in items]) + "}"


class Batch:
    """Jobs on their way into the store: ``values`` of ``enqueue`` after the time."""

    def __init__(self, sealed: Sequence[Sealed]) -> None:
        shapes: dict[tuple[Any, ...], int] = {}
        places: list[int] = []
        seen: Envelope | None = None
        place = 0
        for one in sealed:
            if one.pattern is None or one.pattern is not seen:
                seen = one.pattern
                place = shapes.setdefault(_shape(one.envelope), len(shapes) + 1)
            places.append(place)
        self.values: tuple[str, str | None, str, str, bytes] = (
            texts([one.envelope.id for one in sealed]),
            numbers(places) if len(shapes) > 1 else None,
            encode([dict(zip(SHAPE, shape, strict=True)) for shape in shapes]).decode(),
            numbers(accumulate([len(one.data) for one in sealed])),
            b"".join([one.data for one in sealed]),
        )


SHAPE = (
    "queue",
    "priority",
    "task",
    "eta",
    "expires_at",
    "result_ttl",
    "keep_result",
    "on_receipt",
    "max_deliveries",
    "workflow",
    "key",
    "limits",
    "fail_fast",
    "run_if",
)


def _shape(envelope: Envelope) -> tuple[Any, ...]:
    """What a row needs besides id and envelope: mostly the same for a whole batch."""
    return (
        envelope.queue,
        envelope.priority,
        envelope.task,
        envelope.eta,
        envelope.expires_at,
        envelope.result_ttl,
        envelope.store_result,
        envelope.ack == "on_receipt",
        envelope.max_deliveries,
        envelope.workflow,
        envelope.key,
        _limits(envelope),
        envelope.fail_fast or None,
        _run_if(envelope),
    )


def _limits(envelope: Envelope) -> str | None:
    return encode(envelope.limits).decode() if envelope.limits else None


def _run_if(envelope: Envelope) -> str | None:
    return None if envelope.run_if == "succeeded" else envelope.run_if


def is_plain(one: Sealed) -> bool:
    """Whether nothing ties a job to others, but what it waits for."""
    envelope = one.envelope
    return is_free(one) and not envelope.fail_fast and envelope.run_if == "succeeded"


def links_of(sealed: Sequence[Sealed]) -> tuple[str | None, str | None, str | None]:
    """What ties jobs to others, as ``accept`` reads it: keys, turns and capacities; the places of
    those that wait for others, and beside each what it waits for."""
    links = [_links(one) for one in sealed]
    children: list[int] = []
    parents: list[str] = []
    for place, one in enumerate(sealed, 1):
        if one.envelope.after:
            awaited = dict.fromkeys([each.job for each in one.envelope.after])
            children += [place] * len(awaited)
            parents += awaited
    return (
        encode(links).decode() if any(links) else None,
        numbers(children) if children else None,
        texts(parents) if children else None,
    )


def batch_of(sealed: Sequence[Sealed]) -> tuple[dict[str, Any], bytes]:
    """Jobs that come with a settlement: an object, and the bytes that belong to it."""
    ids, shape, shapes, ends, data = Batch(sealed).values
    links, children, parents = links_of(sealed)
    batch = {"ids": ids, "shape": shape, "shapes": shapes, "ends": ends, "size": len(data)}
    return {**batch, "links": links, "children": children, "parents": parents}, data


NO_LINKS: dict[str, Any] = {}


def _links(one: Sealed) -> dict[str, Any]:
    envelope = one.envelope
    if envelope.key is None and envelope.fair is None and one.capacity is None:
        return NO_LINKS
    links: dict[str, Any] = {}
    if envelope.key is not None:
        links["key"] = envelope.key
        links["key_ttl"] = envelope.key_ttl
        links["fingerprint"] = fingerprint(envelope).hex()
    if envelope.fair is not None:
        links["fair_key"], links["fair_weight"] = envelope.fair.key, envelope.fair.weight
    if one.capacity is not None:
        links["capacity"], links["overflow"] = one.capacity.limit, one.capacity.overflow
    return links


def replacement(sealed: Sealed) -> dict[str, Any]:
    """What a replacement envelope brings, apart from its bytes."""
    envelope = sealed.envelope
    return {
        "task": envelope.task,
        "queue": envelope.queue,
        "priority": envelope.priority,
        "expires_at": envelope.expires_at,
        "on_receipt": envelope.ack == "on_receipt",
        "max_deliveries": envelope.max_deliveries,
        "keep_result": envelope.store_result,
        "result_ttl": envelope.result_ttl,
        "limits": _limits(envelope),
    }
