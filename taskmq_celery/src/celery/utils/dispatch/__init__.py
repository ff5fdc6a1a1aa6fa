"""Signals: see `celery.utils.dispatch.signal`."""

from .signal import Signal

__all__ = ("Signal",)
