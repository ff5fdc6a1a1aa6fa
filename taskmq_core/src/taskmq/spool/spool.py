"""Submitting through a spool, and forwarding what is in it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from taskmq.envelope import Sealed
from taskmq.errors import (
    IdempotencyConflict,
    QueueFull,
    StoreFull,
    TransportError,
    TransportUnavailable,
    UnknownDependency,
)
from taskmq.transport import Enqueued

from .file import Batch, SpoolFile

__all__ = ["Forwarded", "Spool"]

logger = logging.getLogger("taskmq.spool")

RETRY = 1.0
"""Seconds between two attempts to forward."""
CHUNK = 500
"""About how many jobs are forwarded at once."""
JOIN = 5.0
OWN_FAULT = (IdempotencyConflict, UnknownDependency)
"""The store is well: it will not have these jobs."""


@dataclass(frozen=True)
class Forwarded:
    """What became of the jobs in a spool. ``waiting`` are still there."""

    stored: int = 0
    refused: int = 0
    waiting: int = 0


class Spool:
    """What `taskmq.App` submits through if ``Config.spool`` is set.

    ``send`` stores jobs, and raises what `taskmq.transport.Producer.enqueue` does.

    From the first job that is kept here on, all that this process submits is kept too, until the
    spool is empty: so its jobs stay in order, and only the first waits for the store in vain.
    """

    def __init__(self, path: str, send: Callable[[Sequence[Sealed]], object]) -> None:
        self.file = SpoolFile(path)
        self._send = send
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._diverting = False
        self._looked = False
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def submit(self, jobs: Sequence[Sealed], store: Callable[[], list[Enqueued]]) -> list[Enqueued]:
        """Store jobs, or keep them here if the store cannot be reached or is full, or if one of
        them waits for a job that is here.

        Raises what ``store`` does; `TransportUnavailable`, `StoreFull` or `StoreCorrupt` if they
        can neither be stored nor kept: then they are nowhere, as far as is known.
        """
        if self._pid != os.getpid():
            self._begin()  # the thread is the parent's
        if not self._looked:
            self._looked = True
            self.look()
        while True:
            why: TransportError | None = None
            if not self._diverting:
                try:
                    return store()
                except (TransportUnavailable, StoreFull) as error:
                    why = error
                except UnknownDependency as error:
                    if not self._has_dependency_of(jobs):
                        raise
                    why = error
            with self._lock:
                if why is not None or self._diverting:
                    self._keep(jobs, why)
                    return [Enqueued(each.envelope.id, True) for each in jobs]

    def look(self) -> None:
        """Forward what is here, in a thread, if there is anything. Cheap if not."""
        try:
            waits = self.file.waiting() > 0
        except TransportError as error:
            logger.warning("%s", error)
            return
        if waits:
            with self._lock:
                self._run()

    def flush(self) -> Forwarded | None:
        """Forward everything now, in order; ``None`` if another process is at it.

        Raises `TransportError` if the store cannot be reached: what was not stored is still here.
        """
        with self.file.forwarding() as is_ours:
            return self._forward_all() if is_ours else None

    def close(self) -> None:
        """End the thread. What is in the file stays there for others."""
        thread = self._thread if self._pid == os.getpid() else None
        self._closing.set()
        if thread is not None:
            thread.join(JOIN)
        self._begin()

    # -- keeping -----------------------------------------------------------------------------

    def _keep(self, jobs: Sequence[Sealed], why: TransportError | None) -> None:
        try:
            self.file.put(jobs)
        except TransportError as error:
            if why is None:
                raise
            raise type(error)(f"{why}; nor can the jobs be kept: {error}") from error
        if not self._diverting:
            logger.warning("jobs are kept in %s until they can be stored: %s", self.file.path, why)
        self._diverting = True
        self._run()

    def _has_dependency_of(self, jobs: Sequence[Sealed]) -> bool:
        return self.file.holds_any([each.job for one in jobs for each in one.envelope.after])

    # -- forwarding --------------------------------------------------------------------------

    def _run(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, args=[self._closing], name="taskmq-spool", daemon=True
            )
            self._thread.start()

    def _work(self, closing: threading.Event) -> None:
        while not closing.is_set():
            try:
                self.flush()
                with self._lock:
                    if not self.file.waiting():
                        self._diverting, self._thread = False, None
                        return
            except TransportError as error:
                logger.debug("cannot forward yet: %s", error)
            except Exception:
                logger.exception("forwarding failed")
            closing.wait(RETRY)

    def _forward_all(self) -> Forwarded:
        stored = refused = last = 0
        full: set[str] = set()  # queues whose jobs have to wait; those behind them as well
        while batches := self.file.batches(last, CHUNK):
            last = batches[-1].number
            if not full and self._store(batches):
                stored += sum(len(batch.jobs) for batch in batches)
                continue
            for batch in batches:
                outcome = self._forward(batch, full)
                stored += outcome.stored
                refused += outcome.refused
        waiting = self.file.waiting()
        if stored or refused:
            logger.info("spool: %d jobs stored, %d refused, %d wait", stored, refused, waiting)
        return Forwarded(stored, refused, waiting)

    def _store(self, batches: Sequence[Batch]) -> bool:
        """Store them all at once; false if one of them is in the way."""
        try:
            self._send([job for batch in batches for job in batch.jobs])
        except (QueueFull, *OWN_FAULT):
            return False
        self.file.remove(batches)
        return True

    def _forward(self, batch: Batch, full: set[str]) -> Forwarded:
        if batch.queues & full:
            full |= batch.queues
            return Forwarded()
        try:
            self._send(batch.jobs)
        except QueueFull as error:
            full |= {error.queue, *batch.queues}
            return Forwarded()
        except OWN_FAULT as error:
            return self._refuse(batch, error)
        self.file.remove([batch])
        return Forwarded(stored=len(batch.jobs))

    def _refuse(self, batch: Batch, error: TransportError) -> Forwarded:
        own = {job.envelope.id for job in batch.jobs}
        others = [each.job for job in batch.jobs for each in job.envelope.after]
        if isinstance(error, UnknownDependency) and self.file.holds_any(
            [job_id for job_id in others if job_id not in own]
        ):
            return Forwarded()  # it comes after what it waits for
        self.file.refuse(batch, str(error))
        logger.error("spool: %d jobs are refused and stay there: %s", len(batch.jobs), error)
        return Forwarded(refused=len(batch.jobs))
