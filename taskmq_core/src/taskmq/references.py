"""What stands in an envelope, or for a result, whose bytes are kept outside of the job store."""

from __future__ import annotations

import msgspec

__all__ = ["OFFLOADED", "Reference", "dump_reference", "load_reference"]

OFFLOADED = "offloaded"
"""The wire name, in place of a codec's, of what is a `Reference`."""


class Reference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a payload is, and how to know that it is the right one."""

    name: str
    """In the payload store; begins with the id of the job that it belongs to."""
    size: int
    sha256: str
    codec: str
    """The wire name of the codec that reads it."""
    fingerprint: str = ""
    """What `taskmq.envelope.fingerprint` gave before, in hex; only in envelopes with a key."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Reference).decode


def dump_reference(reference: Reference) -> bytes:
    return _encode(reference)


def load_reference(data: bytes) -> Reference:
    """Raises ``msgspec.DecodeError`` for bytes that are no reference."""
    return _decode(data)
