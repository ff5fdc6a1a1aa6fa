"""What is in a payload store, for people to see."""

from __future__ import annotations

from taskmq import App, ConfigError
from taskmq.codec import Payload
from taskmq.envelope import Envelope
from taskmq.errors import MessageError, TransportError
from taskmq.references import OFFLOADED

__all__ = ["shown_envelope", "shown_result"]


def shown_envelope(app: App, envelope: Envelope) -> tuple[Envelope, str]:
    """An envelope with its arguments, wherever they are, and what is to be said of that."""
    if envelope.codec != OFFLOADED:
        return envelope, ""
    where = bytes(envelope.args).decode(errors="backslashreplace")
    try:
        return app.fetch(envelope), f"in the payload store: {where}"
    except (MessageError, TransportError, ConfigError) as error:
        return envelope, f"in the payload store: {where}; {error}"


def shown_result(app: App, payload: Payload) -> Payload:
    """A result, wherever it is; the reference if it cannot be read."""
    if payload.codec != OFFLOADED or app.offload is None:
        return payload
    try:
        return app.offload.fetch_result(payload)
    except (MessageError, TransportError, ConfigError):
        return payload
