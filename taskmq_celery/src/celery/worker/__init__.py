"""The worker behind ``celery worker``."""

from __future__ import annotations

from .worker import WorkController

__all__ = ("WorkController",)
