"""The task by which a test's worker shows that it works."""

from __future__ import annotations

from celery import shared_task

__all__ = ("PING", "ping")

PING = "celery.ping"


@shared_task(name=PING)  # type: ignore[untyped-decorator]  # as in Celery
def ping() -> str:
    """Answers."""
    return "pong"
