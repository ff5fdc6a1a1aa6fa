"""What every pool tells of itself. The engine's pool does the running."""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = ("BasePool",)


class BasePool:
    """A kind of pool: which of the engine's it runs on, and what the banner calls it.

    ``instead`` says why a user who asked for this kind gets another one.
    """

    name: ClassVar[str] = ""
    engine_pool: ClassVar[str] = "threads"
    instead: ClassVar[str] = ""
    is_green: ClassVar[bool] = False
    own_process: ClassVar[bool] = False
    """Whether its users expect ``worker_process_init`` and its counterpart."""

    def __init__(self, limit: int | None = None, app: Any = None, **options: Any) -> None:
        self.limit = limit
        self.app = app
        self.options = options

    @property
    def num_processes(self) -> int | None:
        """How many tasks run at once."""
        return self.limit

    @property
    def info(self) -> dict[str, Any]:
        return {
            "implementation": f"{type(self).__module__}:{type(self).__name__}",
            "max-concurrency": self.limit,
        }
