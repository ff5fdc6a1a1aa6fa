"""Sending tasks by name with the current app, under the name that it had before Celery 3.1."""

from __future__ import annotations

from typing import Any

from celery._state import current_app
from celery.local import Proxy

__all__ = ["send_task"]

send_task: Any = Proxy(lambda: current_app.send_task)
