"""Task names to tasks. A name from a message is looked up here and nowhere else: it is never a
path to something importable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .checks import nearest
from .errors import ConfigError, UnknownTask
from .tasks import Task

__all__ = ["Registry"]


class Registry:
    """The tasks of one app. Those that every app has are found by name, and not listed."""

    def __init__(self, builtin: Iterable[Task[..., Any]] = ()) -> None:
        self._tasks: dict[str, Task[..., Any]] = {}
        self._known = {task.name: task for task in builtin}
        self.find = self._known.get
        """The task of that name, or ``None``."""

    def add(self, task: Task[..., Any]) -> None:
        """Raises `ConfigError` if another task has that name."""
        known = self._known.setdefault(task.name, task)
        if known is not task:
            raise ConfigError(
                f"two tasks are named {task.name!r}; give one of them another name=..."
            )
        self._tasks[task.name] = task

    def __getitem__(self, name: str) -> Task[..., Any]:
        try:
            return self._known[name]
        except KeyError:
            raise UnknownTask(f"no task {name!r}{nearest(name, self._tasks)}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._tasks

    def __iter__(self) -> Iterator[Task[..., Any]]:
        return iter(list(self._tasks.values()))

    def __len__(self) -> int:
        return len(self._tasks)

    def names(self) -> list[str]:
        return sorted(self._tasks)
