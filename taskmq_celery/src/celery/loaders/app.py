"""The loader of apps that are configured in code."""

from .base import BaseLoader

__all__ = ("AppLoader",)


class AppLoader(BaseLoader):
    """Reads what the app was given, and the module that ``CELERY_CONFIG_MODULE`` names."""
