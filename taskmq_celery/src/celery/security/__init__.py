"""Signed messages: ``app.setup_security()``.

Workers then take only messages of the serializer ``auth``, which are signed with a private key and
verified with the certificates of a folder. See the settings ``security_…``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kombu.serialization import disable_insecure_serializers as _disable_insecure_serializers
from kombu.serialization import registry
from kombu.utils.imports import symbol_by_name

import celery
from celery.exceptions import ImproperlyConfigured

__all__ = ("setup_security",)

CRYPTOGRAPHY_NOT_INSTALLED = (
    "Signed messages need the package cryptography: pip install 'celery[auth]'"
)
SECURITY_SETTING_MISSING = (
    "Signed messages need the settings security_key, security_certificate and security_cert_store"
)
SETTING_MISSING = (
    "Signed messages need task_serializer='auth' and accept_content=['auth'], for every app that "
    "publishes or consumes"
)

DEFAULT_DIGEST = "sha256"


def setup_security(
    allowed_serializers: Iterable[str] | None = None,
    key: str | None = None,
    key_password: bytes | None = None,
    cert: str | None = None,
    store: str | None = None,
    digest: str | None = None,
    serializer: str = "json",
    app: Any = None,
) -> None:
    """Sign what this process publishes, and refuse what is not signed.

    ``key``, ``cert`` and ``store`` are paths; what is not given comes from the settings. Raises
    `ImproperlyConfigured`.
    """
    app = celery.current_app if app is None else app
    _disable_insecure_serializers(allowed_serializers)
    conf = app.conf
    if conf.task_serializer != "auth" or list(conf.accept_content or ()) != ["auth"]:
        raise ImproperlyConfigured(SETTING_MISSING)
    key, cert = key or conf.security_key, cert or conf.security_certificate
    store = store or conf.security_cert_store
    if not (key and cert and store):
        raise ImproperlyConfigured(SECURITY_SETTING_MISSING)
    try:
        __import__("cryptography")
    except ImportError:
        raise ImproperlyConfigured(CRYPTOGRAPHY_NOT_INSTALLED) from None
    with open(key) as key_file, open(cert) as cert_file:  # noqa: PTH123  # patched by Celery's tests
        register_auth(
            key_file.read(),
            key_password or conf.security_key_password,
            cert_file.read(),
            store,
            digest or conf.security_digest or DEFAULT_DIGEST,
            serializer,
        )
    registry._set_default_serializer("auth")


def register_auth(*args: Any) -> None:
    """See `celery.security.serialization.register_auth`, which needs the package cryptography."""
    symbol_by_name("celery.security.serialization:register_auth")(*args)


def disable_untrusted_serializers(whitelist: Iterable[str] | None = None) -> None:
    """Refuse messages of every serializer but these."""
    _disable_insecure_serializers(allowed=whitelist)
