"""Certificates, and where trusted ones are kept."""

from __future__ import annotations

import datetime
import glob
import os
from collections.abc import Iterator
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509 import load_pem_x509_certificate
from kombu.utils.encoding import bytes_to_str, ensure_bytes

from celery.exceptions import SecurityError

from .utils import reraise_errors, signature_padding

__all__ = ("CertStore", "Certificate", "FSCertStore")


class Certificate:
    """An X.509 certificate of an RSA key, from text in PEM. Raises `SecurityError`."""

    def __init__(self, cert: str | bytes) -> None:
        with reraise_errors("Invalid certificate: {0!r}", errors=(ValueError, TypeError)):
            self._cert = load_pem_x509_certificate(ensure_bytes(cert))
            public_key = self._cert.public_key()
        if not isinstance(public_key, rsa.RSAPublicKey):
            raise SecurityError("Non-RSA certificates are not supported.")

    def has_expired(self) -> bool:
        """Whether its time is over."""
        ends_at = self._cert.not_valid_after_utc
        return bool(datetime.datetime.now(datetime.timezone.utc) >= ends_at)

    def get_pubkey(self) -> Any:
        return self._cert.public_key()

    def get_serial_number(self) -> int:
        return int(self._cert.serial_number)

    def get_issuer(self) -> str:
        """The issuer's attributes, joined by blanks."""
        return " ".join(str(part.value) for part in self._cert.issuer)

    def get_id(self) -> str:
        """What a message calls its signer."""
        return f"{self.get_issuer()} {self.get_serial_number()}"

    def verify(self, data: bytes, signature: bytes, digest: Any) -> None:
        """Raises `SecurityError` if the signature is not one of ``data`` by the key's owner, or if
        the certificate has expired."""
        if self.has_expired():
            raise SecurityError(f"Expired certificate: {self.get_id()!r}")
        with reraise_errors("Bad signature: {0!r}"):
            self.get_pubkey().verify(
                signature, ensure_bytes(data), signature_padding(digest), digest
            )


class CertStore:
    """Certificates that are trusted, by id."""

    def __init__(self) -> None:
        self._certs: dict[Any, Any] = {}

    def itercerts(self) -> Iterator[Any]:
        yield from self._certs.values()

    def __getitem__(self, id: Any) -> Any:
        try:
            return self._certs[bytes_to_str(id)]
        except KeyError:
            raise SecurityError(f"Unknown certificate: {id!r}") from None

    def add_cert(self, cert: Any) -> None:
        """Trust a certificate. Raises `SecurityError` for one that is there already."""
        cert_id = bytes_to_str(cert.get_id())
        if cert_id in self._certs:
            raise SecurityError(f"Duplicate certificate: {cert_id!r}")
        self._certs[cert_id] = cert


class FSCertStore(CertStore):
    """The certificates of a folder, or of the files that a pattern names. None may have expired."""

    def __init__(self, path: str) -> None:
        super().__init__()
        if os.path.isdir(path):  # noqa: PTH112  # patched by Celery's tests
            path = os.path.join(path, "*")  # noqa: PTH118
        for name in glob.glob(path):  # noqa: PTH207
            with open(name) as file:  # noqa: PTH123
                certificate = Certificate(file.read())
            if certificate.has_expired():
                raise SecurityError(f"Expired certificate: {certificate.get_id()!r}")
            self.add_cert(certificate)
