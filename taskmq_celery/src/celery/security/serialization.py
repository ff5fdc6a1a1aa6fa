"""The serializer ``auth``: another serializer's text with a signature.

One message is base64 of: signer (base64), signature (base64), content type, content encoding and
body, with two bytes between them. The body is what is signed.
"""

from __future__ import annotations

from typing import Any

from kombu.serialization import dumps, loads, registry
from kombu.utils.encoding import bytes_to_str, ensure_bytes, str_to_bytes

from celery.exceptions import SecurityError
from celery.utils.serialization import b64decode, b64encode

from .certificate import Certificate, FSCertStore
from .key import PrivateKey
from .utils import get_digest_algorithm, reraise_errors

__all__ = ("SecureSerializer", "register_auth")

DEFAULT_SEPARATOR = "\x00\x01"
PARTS = ("signer", "signature", "content_type", "content_encoding", "body")


class SecureSerializer:
    """Signs with ``key``; verifies with the certificate of the signer, from ``cert_store``."""

    def __init__(
        self,
        key: Any = None,
        cert: Any = None,
        cert_store: Any = None,
        digest: str = "sha256",
        serializer: str = "json",
    ) -> None:
        self._key = key
        self._cert = cert
        self._cert_store = cert_store
        self._digest = get_digest_algorithm(digest)
        self._serializer = serializer

    def serialize(self, data: Any) -> str:
        """A value as signed text."""
        with reraise_errors("Unable to serialize: {0!r}", (Exception,)):
            content_type, content_encoding, body = dumps(data, serializer=self._serializer)
            body = ensure_bytes(body)
            parts = (
                b64encode(str_to_bytes(self._cert.get_id())),
                b64encode(self._key.sign(body, self._digest)),
                content_type,
                content_encoding,
                body,
            )
            packed = str_to_bytes(DEFAULT_SEPARATOR).join(map(str_to_bytes, parts))
            return str(bytes_to_str(b64encode(packed)))

    def deserialize(self, data: str | bytes) -> Any:
        """The value of a signed text. Raises `SecurityError` if it is not to be trusted."""
        with reraise_errors("Unable to deserialize: {0!r}", (Exception,)):
            parts = self._unpack(data)
            self._cert_store[parts["signer"]].verify(
                parts["body"], parts["signature"], self._digest
            )
        kind = bytes_to_str(parts["content_type"])
        return loads(parts["body"], kind, bytes_to_str(parts["content_encoding"]), force=True)

    def _unpack(self, data: str | bytes) -> dict[str, Any]:
        payload = b64decode(ensure_bytes(data))
        found = payload.split(str_to_bytes(DEFAULT_SEPARATOR), len(PARTS) - 1)
        if len(found) != len(PARTS):
            raise SecurityError("not a signed message")
        parts: dict[str, Any] = dict(zip(PARTS, found, strict=True))
        parts["signer"] = b64decode(parts["signer"])
        parts["signature"] = b64decode(parts["signature"])
        return parts


def register_auth(
    key: str | None = None,
    key_password: bytes | None = None,
    cert: str | None = None,
    store: str | None = None,
    digest: str = "sha256",
    serializer: str = "json",
) -> None:
    """Make the serializer ``auth`` known to kombu. ``key`` and ``cert`` are text in PEM."""
    made = SecureSerializer(
        key and PrivateKey(key, password=key_password),
        cert and Certificate(cert),
        cert_store=store is not None and FSCertStore(store),
        digest=digest,
        serializer=serializer,
    )
    registry.register(
        "auth",
        made.serialize,
        made.deserialize,
        content_type="application/data",
        content_encoding="utf-8",
    )
