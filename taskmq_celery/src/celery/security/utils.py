"""What keys and certificates have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding

from celery.exceptions import SecurityError

__all__ = (
    "get_digest_algorithm",
    "reraise_errors",
)


def get_digest_algorithm(digest: str = "sha256") -> Any:
    """A hash by its name. Raises ``AttributeError`` for one that does not exist."""
    return getattr(hashes, digest.upper())()


def signature_padding(digest: Any) -> Any:
    """How signatures are padded: PSS."""
    return padding.PSS(mgf=padding.MGF1(digest), salt_length=padding.PSS.MAX_LENGTH)


@contextmanager
def reraise_errors(
    msg: str = "{0!r}", errors: tuple[type[BaseException], ...] | None = None
) -> Iterator[None]:
    """Turn the errors of the cryptography package into `SecurityError`."""
    wrapped = errors or (InvalidSignature, ValueError, TypeError)
    try:
        yield
    except BaseException as error:
        if not isinstance(error, wrapped):
            raise
        raise SecurityError(msg.format(error)) from error
