"""Plain jobs: what goes to the scripts that store those which need nothing but their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taskmq.envelope import Envelope, Sealed
from taskmq.transports._alike import is_free

from .wire import encode, fields_of, raw_bytes

__all__ = ["is_plain", "one_of", "runs_of"]

MAP_16 = b"\xde"
STRING_8 = b"\xd9"
FLOAT_64 = b"\xcb"
SMALL_MAP = 0x80
ADDED_FIELDS = 3
"""How many the scripts add: ``enqueued_at``, ``visible_at``, ``seq``."""
MOST_KEPT = 100

_kept: dict[int, tuple[Envelope, bytes]] = {}
"""The beginning of the records of the patterns that came last, by `id`."""


def is_plain(sealed: Sealed) -> bool:
    """Whether a new job that waits for no other needs nothing but its place in a queue."""
    return is_free(sealed) and sealed.envelope.workflow is None


def one_of(sealed: Sealed, now: float | None) -> tuple[bytes | str, ...]:
    """Such a job, as enqueue_one.lua wants it."""
    envelope = sealed.envelope
    eta, expires_at = envelope.eta, envelope.expires_at
    return (
        "" if now is None else repr(now),
        envelope.queue,
        str(-envelope.priority),
        "" if eta is None else repr(eta),
        "" if expires_at is None else repr(expires_at),
        _record_of(sealed),
        envelope.id,
        sealed.data,
    )


def runs_of(sealed: Sequence[Sealed]) -> list[tuple[Any, ...]]:
    """Such jobs, as enqueue_plain.lua wants them. Those that follow each other with one pattern are
    one run: what they have in common is packed once."""
    runs: list[tuple[Any, ...]] = []
    seen: Envelope | None = None
    ids: list[str] = []
    for one in sealed:
        if seen is None or seen is not one.pattern:
            seen, ids, envelope = one.pattern, [], one.envelope
            runs.append((*_place_of(envelope), raw_bytes(_record_of(one)), ids))
        ids.append(one.envelope.id)
    return runs


def _place_of(envelope: Envelope) -> tuple[Any, ...]:
    return (
        envelope.queue,
        envelope.priority,
        False if envelope.eta is None else envelope.eta,
        False if envelope.expires_at is None else envelope.expires_at,
    )


def _record_of(sealed: Sealed) -> bytes:
    """The record of a new job up to the value of ``enqueued_at``, which the scripts know."""
    pattern = sealed.pattern
    if pattern is None:
        return _new_record(sealed.envelope)
    found = _kept.get(id(pattern))
    if found is None:
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        found = _kept[id(pattern)] = pattern, _new_record(sealed.envelope)
    return found[1]


def _new_record(envelope: Envelope) -> bytes:
    """With the mark of lua/plain.lua, where nothing can happen to a job but that it is leased and
    ends; the fields stand where that looks for them."""
    fields = fields_of(envelope)
    packed, skipped = encode(fields), len(encode("id")) + len(encode(fields.id))
    count = packed[0] - SMALL_MAP - len(("id",)) + ADDED_FIELDS
    others, queue, mark = packed[1 + skipped :], fields.queue.encode(), b""
    if fields.expires_at is None and fields.result_ttl > 0 and len(queue) < 1 << 8:
        named = len(encode("queue")) + len(encode(fields.queue))
        others = encode("queue") + STRING_8 + bytes([len(queue)]) + queue + others[named:]
        mark = encode("fresh") + encode((fields.drops_result, float(fields.result_ttl)))
        count += 1
    head = MAP_16 + count.to_bytes(2, "big") + mark + others
    return head + encode("enqueued_at") + FLOAT_64
