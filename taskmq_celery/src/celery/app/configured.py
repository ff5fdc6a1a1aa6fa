"""Settings that the engine cannot work with, as Celery's users expect to hear of them."""

from __future__ import annotations

from celery.exceptions import ImproperlyConfigured
from taskmq_celery.config import SettingsError

__all__ = ("properly_configured",)


class properly_configured:  # noqa: N801  # read as a statement
    """Turns the engine's error about a setting into `ImproperlyConfigured`."""

    # A class, not a generator: every task that is sent is sent in such a block.
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, SettingsError):
            raise ImproperlyConfigured(str(error)) from error
