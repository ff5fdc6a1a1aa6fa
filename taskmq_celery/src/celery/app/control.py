"""Remote control: what needs no worker to answer.

The engine's store can be told to drop jobs without asking the workers. What asks the workers
themselves is not there yet, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from celery.app.configured import properly_configured
from taskmq_celery import results
from taskmq_celery.engine import purge

if TYPE_CHECKING:
    from .base import Celery

__all__ = ("Control",)

NOT_YET = "app.control.{} asks workers, which this version cannot do yet"


class Control:
    """``app.control``."""

    def __init__(self, app: Celery | None = None) -> None:
        self.app: Any = app

    def purge(self, connection: Any = None) -> int:
        """Delete what waits in the queues of the app; how many jobs there were."""
        with properly_configured():
            return purge(self.app, list(self.app.amqp.queues.consume_from))

    discard_all = purge

    def revoke(
        self,
        task_id: str | Iterable[str],
        destination: Any = None,
        terminate: bool = False,
        signal: str = "SIGTERM",
        **kwargs: Any,
    ) -> None:
        """Take tasks out, so that no worker runs them; ``terminate``: even if they run already."""
        ids = [task_id] if isinstance(task_id, str) else list(task_id)
        with properly_configured():
            results.revoke(self.app, ids, terminate=terminate)

    def terminate(
        self,
        task_id: str | Iterable[str],
        destination: Any = None,
        signal: str = "SIGTERM",
        **kw: Any,
    ) -> None:
        """Take tasks out, even if they run already."""
        self.revoke(task_id, destination=destination, terminate=True, signal=signal, **kw)

    def inspect(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not there yet."""
        raise NotImplementedError(NOT_YET.format("inspect()"))

    def broadcast(self, command: str, *args: Any, **kwargs: Any) -> NoReturn:
        """Not there yet."""
        raise NotImplementedError(NOT_YET.format(f"broadcast({command!r})"))
