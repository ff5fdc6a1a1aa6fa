"""Wake-ups: who wants to hear of which queues, jobs and documents."""

from __future__ import annotations

import queue
from collections import defaultdict
from collections.abc import Callable, Sequence

__all__ = ["MemoryListener", "Signals"]


class Signals:
    """The listeners of a store, by what they listen to. Used under the store's lock."""

    def __init__(self) -> None:
        self._by_queue: defaultdict[str, set[MemoryListener]] = defaultdict(set)
        self._by_job: defaultdict[str, set[MemoryListener]] = defaultdict(set)
        self._by_kind: defaultdict[str, set[MemoryListener]] = defaultdict(set)

    def subscribe(self, listener: MemoryListener) -> None:
        for name in listener.queues:
            self._by_queue[name].add(listener)
        for job_id in listener.jobs:
            self._by_job[job_id].add(listener)
        for kind in listener.kinds:
            self._by_kind[kind].add(listener)

    def unsubscribe(self, listener: MemoryListener) -> None:
        for subscribers, names in (
            (self._by_queue, listener.queues),
            (self._by_job, listener.jobs),
            (self._by_kind, listener.kinds),
        ):
            for name in names:
                subscribers[name].discard(listener)
                if not subscribers[name]:
                    del subscribers[name]

    def queue_changed(self, name: str) -> None:
        """There may be something to reserve in a queue, or an earlier time to look again."""
        for listener in self._by_queue.get(name, ()):
            listener.wake()

    def job_ended(self, job_id: str) -> None:
        for listener in self._by_job.get(job_id, ()):
            listener.wake()

    def documents_changed(self, kind: str) -> None:
        for listener in self._by_kind.get(kind, ()):
            listener.wake()


class MemoryListener:
    """A `taskmq.transport.Listener`, for one waiting thread.

    The signal is a token in a ``SimpleQueue``: the one way to wake a thread whose ``put`` may be
    called by a signal handler that interrupts any other call on the same object. (An ``Event`` or
    ``Condition`` would deadlock, or lose the wake-up, if the handler interrupted its ``wait``.)
    """

    def __init__(
        self,
        queues: Sequence[str],
        jobs: Sequence[str],
        kinds: Sequence[str],
        on_close: Callable[[MemoryListener], None],
    ) -> None:
        self.queues = frozenset(queues)
        self.jobs = frozenset(jobs)
        self.kinds = frozenset(kinds)
        self._on_close = on_close
        self._tokens: queue.SimpleQueue[None] = queue.SimpleQueue()

    def clear(self) -> None:
        while not self._tokens.empty():
            self._take(0.0)

    def wait(self, timeout: float | None) -> bool:
        if not self._take(timeout):
            return False
        self._tokens.put(None)  # it stays signalled until clear()
        return True

    def wake(self) -> None:
        # One token is enough. Whoever signals has changed the store before, so if a clear() takes
        # the token that is seen here, the look that follows the clear sees the change.
        if self._tokens.empty():
            self._tokens.put(None)

    def close(self) -> None:
        self._on_close(self)

    def _take(self, timeout: float | None) -> bool:
        try:
            self._tokens.get(timeout=None if timeout is None else max(0.0, timeout))
        except queue.Empty:
            return False
        return True
