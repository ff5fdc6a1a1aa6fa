"""Settings that the engine cannot work with, as Celery's users expect to hear of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from celery.exceptions import ImproperlyConfigured
from taskmq_celery.config import SettingsError

__all__ = ("properly_configured",)


@contextmanager
def properly_configured() -> Iterator[None]:
    """Turn the engine's error about a setting into `ImproperlyConfigured`."""
    try:
        yield
    except SettingsError as error:
        raise ImproperlyConfigured(str(error)) from error
