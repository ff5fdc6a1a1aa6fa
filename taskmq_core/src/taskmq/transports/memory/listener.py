"""Wake-ups: who wants to hear of which queues, jobs and documents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from taskmq.transports._tokens import TokenListener

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


class MemoryListener(TokenListener):
    """A `taskmq.transport.Listener`, for one waiting thread."""

    def __init__(
        self,
        queues: Sequence[str],
        jobs: Sequence[str],
        kinds: Sequence[str],
        on_close: Callable[[MemoryListener], None],
    ) -> None:
        super().__init__()
        self.queues = frozenset(queues)
        self.jobs = frozenset(jobs)
        self.kinds = frozenset(kinds)
        self._on_close = on_close

    def close(self) -> None:
        self._on_close(self)
