"""Private keys."""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from kombu.utils.encoding import ensure_bytes

from celery.exceptions import SecurityError

from .utils import reraise_errors, signature_padding

__all__ = ("PrivateKey",)


class PrivateKey:
    """An RSA key, from text in PEM. Raises `SecurityError` for anything else."""

    def __init__(self, key: str | bytes, password: str | bytes | None = None) -> None:
        with reraise_errors("Invalid private key: {0!r}"):
            loaded = load_pem_private_key(
                ensure_bytes(key), password=ensure_bytes(password) if password else None
            )
        if not isinstance(loaded, rsa.RSAPrivateKey):
            raise SecurityError("Non-RSA keys are not supported.")
        self._key = loaded

    def sign(self, data: bytes, digest: Any) -> bytes:
        """The signature of ``data``."""
        with reraise_errors("Unable to sign data: {0!r}"):
            signed: bytes = self._key.sign(ensure_bytes(data), signature_padding(digest), digest)
        return signed
