"""Signed messages."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from kombu.serialization import registry

from celery import Celery
from celery.exceptions import ImproperlyConfigured, SecurityError
from celery.security.certificate import Certificate, CertStore, FSCertStore
from celery.security.key import PrivateKey
from celery.security.serialization import SecureSerializer

pytestmark = pytest.mark.unit

DAY = datetime.timedelta(days=1)


def identity(name: str, *, ends_in: datetime.timedelta = DAY) -> tuple[str, str]:
    """A private key and its certificate, in PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * DAY)
        .not_valid_after(now + ends_in)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return private.decode(), certificate.public_bytes(serialization.Encoding.PEM).decode()


@pytest.fixture(scope="module")
def ours() -> tuple[str, str]:
    return identity("ours")


@pytest.fixture(scope="module")
def theirs() -> tuple[str, str]:
    return identity("theirs")


def signing(who: tuple[str, str], *trusted: tuple[str, str]) -> SecureSerializer:
    store = CertStore()
    for _, certificate in trusted:
        store.add_cert(Certificate(certificate))
    return SecureSerializer(PrivateKey(who[0]), Certificate(who[1]), store)


def test_what_was_signed_is_read(ours: Any, theirs: Any) -> None:
    value = {"a": ["\x00\x01", 1]}
    assert signing(theirs, ours).deserialize(signing(ours).serialize(value)) == value


def test_nothing_else_is(ours: Any, theirs: Any) -> None:
    with pytest.raises(SecurityError):
        signing(ours, ours).deserialize("not signed")
    with pytest.raises(SecurityError, match="Unknown certificate"):
        signing(ours, theirs).deserialize(signing(ours).serialize(1))
    forged = signing((theirs[0], ours[1]))
    with pytest.raises(SecurityError, match="InvalidSignature"):
        signing(ours, ours).deserialize(forged.serialize(1))
    old = identity("old", ends_in=-DAY)
    with pytest.raises(SecurityError, match="Expired"):
        signing(ours, old).deserialize(signing(old).serialize(1))


def test_only_keys_and_certificates_will_do(ours: Any) -> None:
    with pytest.raises(SecurityError, match="Invalid private key"):
        PrivateKey("no key")
    with pytest.raises(SecurityError, match="Invalid certificate"):
        Certificate(ours[0])
    store = CertStore()
    store.add_cert(Certificate(ours[1]))
    with pytest.raises(SecurityError, match="Duplicate"):
        store.add_cert(Certificate(ours[1]))


def test_the_certificates_of_a_folder(tmp_path: Path, ours: Any, theirs: Any) -> None:
    for number, (_, certificate) in enumerate((ours, theirs)):
        (tmp_path / f"{number}.pem").write_text(certificate)
    assert len(list(FSCertStore(str(tmp_path)).itercerts())) == 2
    (tmp_path / "old.pem").write_text(identity("old", ends_in=-DAY)[1])
    with pytest.raises(SecurityError, match="Expired"):
        FSCertStore(str(tmp_path))


@pytest.fixture
def serializers() -> Iterator[None]:
    """Kombu's registry belongs to the process."""
    disabled = set(registry._disabled_content_types)
    yield
    registry._disabled_content_types.clear()
    registry._disabled_content_types.update(disabled)
    registry._set_default_serializer("json")
    if "auth" in registry._encoders:
        registry.unregister("auth")


@pytest.mark.usefixtures("serializers")
def test_an_app_whose_messages_are_signed(
    tmp_path: Path, make_app: Callable[..., Any], work: Callable[..., None], ours: Any
) -> None:
    (tmp_path / "key.pem").write_text(ours[0])
    (tmp_path / "cert.pem").write_text(ours[1])
    app: Celery = make_app(
        task_serializer="auth",
        accept_content=["auth"],
        security_key=str(tmp_path / "key.pem"),
        security_certificate=str(tmp_path / "cert.pem"),
        security_cert_store=str(tmp_path / "cert.pem"),
    )
    app.setup_security()

    @app.task
    def add(x: int, y: int) -> int:
        return x + y

    result = add.delay(2, 2)
    work(app)
    assert result.state == "SUCCESS"


@pytest.mark.usefixtures("serializers")
def test_what_is_missing_is_told(make_app: Callable[..., Any]) -> None:
    with pytest.raises(ImproperlyConfigured, match="task_serializer='auth'"):
        make_app().setup_security()
    with pytest.raises(ImproperlyConfigured, match="security_key"):
        make_app(task_serializer="auth", accept_content=["auth"]).setup_security()
