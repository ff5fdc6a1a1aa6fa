"""From what broker, driver and network say to what the port promises: one total map."""

from __future__ import annotations

import ssl

from amqp import exceptions as said

from taskmq.errors import SchemaMismatch, TransportError, TransportUnavailable

__all__ = ["translate"]

ACCESS = (
    "refuses access ({error}); check user, password, virtual host and the user's permissions "
    "(configure, write and read on the namespace's names)"
)
ANSWERS: tuple[tuple[type[BaseException], type[TransportError], str], ...] = (
    (
        said.PreconditionFailed,
        SchemaMismatch,
        "has this queue or exchange with other properties ({error}); use the options that it was "
        "made with, another namespace, or delete it: the jobs are in the state store",
    ),
    (said.AccessRefused, TransportUnavailable, ACCESS),
    (said.NotAllowed, TransportUnavailable, ACCESS),
    (said.ConnectionForced, TransportUnavailable, "closed the connection ({error})"),
    (said.ResourceLocked, TransportUnavailable, "has this queue in exclusive use ({error})"),
    (said.NotFound, TransportUnavailable, "cannot find a queue or exchange ({error})"),
    (said.AMQPError, TransportUnavailable, "failed ({error})"),
    (ssl.SSLError, TransportUnavailable, "cannot be reached by TLS ({error})"),
    (TimeoutError, TransportUnavailable, "did not answer in time"),
    (ConnectionRefusedError, TransportUnavailable, "refuses connections; is it running?"),
    (OSError, TransportUnavailable, "cannot be reached ({error})"),
)


def translate(error: BaseException, where: str) -> TransportError:
    """The error of the port that stands for any error of the broker; never raises.

    ``where`` names the broker, without a password.
    """
    if isinstance(error, TransportError):
        return error
    for kind, ours, explanation in ANSWERS:
        if isinstance(error, kind):
            return ours(f"the broker {where} {explanation.format(error=_text(error))}")
    return TransportUnavailable(f"the broker {where} failed: {_text(error)}")


def _text(error: BaseException) -> str:
    """One line, however much the driver says."""
    text = str(getattr(error, "reply_text", None) or error) or type(error).__name__
    code = getattr(error, "reply_code", None)
    return " ".join(f"{code} {text}".split() if code else text.split())
