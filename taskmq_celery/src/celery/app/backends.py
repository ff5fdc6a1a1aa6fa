"""From the ``result_backend`` setting to a backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery.backends.base import Backend, DisabledBackend
from celery.backends.native import NativeBackend
from taskmq_celery.config import is_enabled

from .configured import properly_configured

if TYPE_CHECKING:
    from .base import Celery

__all__ = ("BACKEND_ALIASES", "backend_for")

BACKEND_ALIASES: dict[str, str] = {
    "disabled": "celery.backends.base:DisabledBackend",
    "rpc": "celery.backends.native:NativeBackend",
}


def backend_for(app: Celery, spec: Any) -> Backend:
    """The backend that a setting means. Raises `ImproperlyConfigured` for one that is not here."""
    if isinstance(spec, type) and issubclass(spec, Backend):
        return spec(app=app)
    with properly_configured():
        enabled = is_enabled(spec)
    return NativeBackend(app, spec) if enabled else DisabledBackend(app)
