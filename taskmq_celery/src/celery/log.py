"""Loggers of the current app, under the name that they had before Celery 3.1."""

from __future__ import annotations

from typing import Any

from celery._state import current_app
from celery.local import Proxy

__all__ = ("get_default_logger", "redirect_stdouts_to_logger", "setup_logging_subsystem")

get_default_logger: Any = Proxy(lambda: current_app.log.get_default_logger)
redirect_stdouts_to_logger: Any = Proxy(lambda: current_app.log.redirect_stdouts_to_logger)
setup_logging_subsystem: Any = Proxy(lambda: current_app.log.setup_logging_subsystem)
