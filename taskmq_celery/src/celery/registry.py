"""The tasks of the current app, under the name that they had before Celery 3.1; instrumentation
libraries still look here."""

from __future__ import annotations

from typing import Any

from celery._state import current_app
from celery.app.registry import TaskRegistry
from celery.local import Proxy

__all__ = ("TaskRegistry", "tasks")

tasks: Any = Proxy(lambda: current_app.tasks)
