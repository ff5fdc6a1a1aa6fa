"""The message that stands for a job at the broker: which one, and when it is due. Not its payload.

    {"job": "01J…", "queue": "mail", "priority": 5, "due": 1767225600.0}

It is a hint. Whether the job may run says the store, which is asked for it by id.
"""

from __future__ import annotations

import msgspec

from taskmq.envelope import Envelope

__all__ = ["CONTENT_TYPE", "Notice", "dump", "load", "notice_of"]

CONTENT_TYPE = "application/vnd.taskmq.notice+json"


class Notice(msgspec.Struct, frozen=True, omit_defaults=True):
    """One job that can be had in a queue, from ``due`` (epoch seconds) on."""

    job: str
    queue: str
    priority: int = 0
    due: float | None = None


def notice_of(envelope: Envelope, now: float) -> Notice:
    """For a job that waits for no other one."""
    due = envelope.eta if envelope.eta is not None and envelope.eta > now else None
    return Notice(envelope.id, envelope.queue, envelope.priority, due)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Notice).decode


def dump(notice: Notice) -> bytes:
    """Its wire form."""
    return _encode(notice)


def load(body: bytes | str) -> Notice | None:
    """A notice from its wire form; ``None`` for somebody else's message."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeError):
        return None
