"""The port, implemented: the state store for all that is kept, the broker for delivery."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence

from taskmq.clock import Clock
from taskmq.documents import Document, DocumentChange
from taskmq.envelope import Sealed
from taskmq.errors import ConfigError, TransportError
from taskmq.records import (
    JobFilter,
    JobRecord,
    MaintenanceReport,
    PausedQueue,
    PausedWorkflow,
    QueueStats,
    Reclaimed,
    WorkerRecord,
)
from taskmq.transport import (
    Capabilities,
    Delivery,
    Enqueued,
    Exchange,
    LeaseStatus,
    Listener,
    Reservation,
    Settled,
    Settlement,
    TransactionalProducer,
    Transport,
)

from . import fork
from .broker import Broker
from .capabilities import capabilities_of
from .consumer import Consumer
from .delivery import Deliveries
from .listener import AmqpListener
from .notice import Notice, notice_of
from .options import Options, without_password
from .publisher import Publisher

__all__ = ["AmqpTransport"]

logger = logging.getLogger("taskmq.amqp")


class AmqpTransport:
    """A `taskmq.transport.Transport`: jobs in ``state``, delivered by a message broker.

    ``state`` is the truth, and each operation is one atomic step there. A message says that a job
    can be had; it is sent after the step, and who gets it claims the job in ``state``.
    """

    def __init__(self, options: Options, state: Transport, clock: Clock) -> None:
        self.state = state
        self._options = options
        self._clock = clock
        broker = Broker(options)
        self._broker = broker
        self.capabilities: Capabilities = capabilities_of(broker, state.capabilities)
        self._publisher = Publisher(broker)
        self._consumer = Consumer(broker, self._arrived)
        self.deliveries = Deliveries(state, self._consumer, self._publisher, clock)
        self._listeners: weakref.WeakSet[AmqpListener] = weakref.WeakSet()
        self._lock = threading.Lock()
        fork.watch(self)

    def renew(self) -> None:
        """In a child process: connections and threads of its own."""
        self._lock = threading.Lock()
        self._publisher.renew()
        self._consumer.renew()

    # -- producers ---------------------------------------------------------------------------

    def enqueue(self, sealed: Sequence[Sealed]) -> list[Enqueued]:
        """See `taskmq.transport.Producer.enqueue`.

        Whether the broker takes messages is found out before anything is stored: an error means
        that nothing was, within ``publish_timeout``. With ``without_broker=store`` jobs are stored
        nevertheless. If the broker fails in between, they are stored and run a little later.
        """
        if not sealed:
            return []
        is_taking = self._prepare({one.envelope.queue for one in sealed if not one.envelope.after})
        answers = self.state.enqueue(sealed)
        if is_taking:
            self._publish(_notices(sealed, answers, self._clock.now()))
        return answers

    def enqueue_within(self, sealed: Sequence[Sealed], connection: object) -> list[Enqueued]:
        """Where the state store can. No message is sent, for nobody here hears of the commit: the
        state store wakes the workers, which take the jobs from it."""
        if not isinstance(self.state, TransactionalProducer):
            raise ConfigError(
                f"{without_password(self._options.state)} cannot enqueue on a connection of yours"
            )
        return self.state.enqueue_within(sealed, connection)

    def _prepare(self, queues: Iterable[str]) -> bool:
        if self._options.without_broker == "store" and self._publisher.has_failed:
            return False
        try:
            self._publisher.prepare(queues)
        except TransportError as error:
            if self._options.without_broker == "refuse":
                raise
            logger.warning("%s; jobs are stored without it", error)
            return False
        return True

    def _publish(self, notices: Sequence[Notice]) -> None:
        if not notices:
            return
        delay_from = self.deliveries.delay_from() if self._broker.delays else None
        try:
            self._publisher.publish(notices, delay_from)
        except TransportError as error:
            logger.warning(
                "%d jobs are stored, but not all of their messages are sent; workers take them "
                "from the state store: %s",
                len(notices),
                error,
            )

    # -- workers -----------------------------------------------------------------------------

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        return self.deliveries.exchange(settlements, reservation)

    def reserve(self, reservation: Reservation) -> Sequence[Delivery]:
        return self.exchange((), reservation).deliveries

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        return self.exchange(settlements).settled

    def extend(self, deliveries: Sequence[Delivery], lease: float) -> list[LeaseStatus]:
        return self.state.extend(deliveries, lease)

    def check(self, deliveries: Sequence[Delivery]) -> list[LeaseStatus]:
        return self.state.check(deliveries)

    def listen(
        self, queues: Sequence[str] = (), jobs: Sequence[str] = (), kinds: Sequence[str] = ()
    ) -> Listener:
        """Wakes with a message for one of the queues, and with what the state store tells."""
        inner = self.state.listen(queues, jobs, kinds)
        if not queues:
            return inner
        listener = AmqpListener(inner, queues, self._left)
        with self._lock:
            self._listeners.add(listener)
        return listener

    def has_arrived(self, queues: Sequence[str]) -> int:
        """How many messages for these queues are here and wait for an exchange."""
        return self._consumer.shelf.count(queues)

    def _left(self, listener: AmqpListener) -> None:
        with self._lock:
            self._listeners.discard(listener)

    def _arrived(self, queue: str) -> None:
        with self._lock:
            for listener in self._listeners:
                if queue in listener.queues:
                    listener.wake()

    # -- jobs --------------------------------------------------------------------------------

    def get(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        return self.state.get(job_ids)

    def find(self, filter: JobFilter) -> list[JobRecord]:
        return self.state.find(filter)

    def revoke(
        self, job_ids: Sequence[str], *, terminate: bool = False, by: str = ""
    ) -> list[bool]:
        return self.state.revoke(job_ids, terminate=terminate, by=by)

    def forget(self, job_ids: Sequence[str]) -> int:
        return self.state.forget(job_ids)

    def stats(self, queues: Sequence[str] | None = None) -> list[QueueStats]:
        return self.state.stats(queues)

    def purge(self, queue: str) -> int:
        """Deletes the messages as well, if the broker can be reached; what is left of them finds no
        job."""
        purged = self.state.purge(queue)
        if purged and not self._publisher.has_failed:
            self._publisher.purge(queue)
        return purged

    # -- dead letters ------------------------------------------------------------------------

    def replay(self, job_ids: Sequence[str], envelopes: Mapping[str, Sealed]) -> list[bool]:
        replayed = self.state.replay(job_ids, envelopes)
        ids = [job_id for job_id, done in zip(job_ids, replayed, strict=True) if done]
        records = [record for record in self.state.get(ids) if record is not None]
        self.deliveries.announce(
            [Notice(record.id, record.queue, record.priority) for record in records]
        )
        return replayed

    def bury(self, job_ids: Sequence[str]) -> int:
        return self.state.bury(job_ids)

    # -- workers and leaders -----------------------------------------------------------------

    def register(self, worker: WorkerRecord) -> None:
        self.state.register(worker)

    def deregister(self, worker_id: str) -> None:
        self.state.deregister(worker_id)

    def reclaim(self, worker: WorkerRecord) -> Reclaimed:
        return self.state.reclaim(worker)

    def workers(self) -> list[WorkerRecord]:
        return self.state.workers()

    def unpark(self, tasks: Sequence[str]) -> int:
        return self.state.unpark(tasks)

    def acquire(self, name: str, owner: str, ttl: float) -> bool:
        return self.state.acquire(name, owner, ttl)

    def surrender(self, name: str, owner: str) -> bool:
        return self.state.surrender(name, owner)

    # -- what people decide ------------------------------------------------------------------

    def pause(self, queue: str, *, by: str, reason: str = "") -> bool:
        return self.state.pause(queue, by=by, reason=reason)

    def resume(self, queue: str) -> bool:
        return self.state.resume(queue)

    def paused(self) -> list[PausedQueue]:
        return self.state.paused()

    def pause_workflow(self, workflow: str, *, by: str, reason: str = "") -> bool:
        return self.state.pause_workflow(workflow, by=by, reason=reason)

    def resume_workflow(self, workflow: str) -> bool:
        return self.state.resume_workflow(workflow)

    def paused_workflows(self) -> list[PausedWorkflow]:
        return self.state.paused_workflows()

    # -- documents ---------------------------------------------------------------------------

    def documents(self, kind: str, names: Sequence[str] | None = None) -> list[Document]:
        return self.state.documents(kind, names)

    def write(self, changes: Sequence[DocumentChange]) -> list[bool]:
        return self.state.write(changes)

    # -- upkeep ------------------------------------------------------------------------------

    def maintain(self, limit: int = 1000) -> MaintenanceReport:
        return self.state.maintain(limit)

    def close(self) -> None:
        self._consumer.close()
        self._publisher.close()
        self.state.close()


def _notices(sealed: Sequence[Sealed], answers: Sequence[Enqueued], now: float) -> list[Notice]:
    """For those that can be had, now or later. A repeated call sends them again: it may be repeated
    because they were not sent."""
    return [
        notice_of(one.envelope, now)
        for one, answer in zip(sealed, answers, strict=True)
        if not one.envelope.after and answer.job_id == one.envelope.id
    ]
