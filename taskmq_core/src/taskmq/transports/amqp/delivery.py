"""One exchange: what the broker brought is claimed in the store by id; what the broker does not
bring, but the store has, is taken from the store directly. What settlements made ready is told to
the broker when they have taken effect.

The second is what makes the others safe. A message that was lost or never sent, a job that became
due, free or visible in the store with nobody there to send a message, a broker that is down: each
costs an exchange a moment of waiting, and no job.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import msgspec

from taskmq.clock import Clock, SystemClock
from taskmq.envelope import Sealed
from taskmq.errors import TransportError
from taskmq.records import Readied
from taskmq.transport import (
    Ack,
    Defer,
    Delegate,
    Exchange,
    Nack,
    Release,
    Reservation,
    RetryLater,
    Settled,
    Settlement,
    Transport,
)

from .consumer import Consumer
from .early import Early
from .notice import Notice, notice_of
from .publisher import Publisher
from .shelf import Arrival
from .sweep import Sweep
from .topology import SHORTEST_DELAY

__all__ = ["Deliveries"]

logger = logging.getLogger("taskmq.amqp")


class Deliveries:
    """The exchanges of one transport."""

    def __init__(
        self, state: Transport, consumer: Consumer, publisher: Publisher, clock: Clock
    ) -> None:
        self.by_message = 0
        """How many jobs were delivered because their message had come."""
        self.directly = 0
        """How many the store gave without a message."""
        self._state = state
        self._consumer = consumer
        self._publisher = publisher
        self._clock = clock
        self._early = Early()
        self._sweep = Sweep(clock)

    def exchange(
        self, settlements: Sequence[Settlement], reservation: Reservation | None
    ) -> Exchange:
        """See `taskmq.transport.Reserver.exchange`."""
        if reservation is None or reservation.limit < 1 or reservation.jobs is not None:
            answer = self._state.exchange(settlements, reservation)
            self._announce(settlements, answer)
            return answer
        queues = [queue for queue in reservation.queues if reservation.quotas.get(queue, 1) > 0]
        self._consumer.want(queues, reservation.limit)
        if self._sweep.is_due(reservation.queues):
            answer = self._directly(settlements, reservation)
        else:
            answer = self._claim(settlements, reservation, queues)
        try:
            answer = self._take_readied(answer, reservation, queues)
            self._announce(settlements, answer)
            while len(answer.deliveries) < reservation.limit:
                rest = _rest(reservation, answer)
                if answer.waiting_priority is None:
                    if not self._consumer.shelf.count(queues):
                        self._sweep.done(reservation.queues)
                        return answer
                elif not self._consumer.await_arrivals(
                    queues, rest.limit, some=bool(answer.deliveries)
                ):
                    return _together(answer, self._directly((), rest))
                answer = _together(answer, self._claim((), rest, queues))
        except TransportError as error:
            # What is settled and reserved already must be told; the next exchange has the error.
            logger.debug("reserved less than there was: %s", error)
        if len(answer.deliveries) >= reservation.limit:
            self._consumer.satisfied(queues)
            if answer.waiting_priority is not None:
                self._sweep.postponed(reservation.queues)
        return answer

    def announce(self, notices: Sequence[Notice]) -> None:
        """Send messages for jobs that can be had again, if the broker takes them now."""
        if notices and self._consumer.is_up:
            self._publisher.offer(notices, self.delay_from())

    def delay_from(self) -> float | None:
        """The time from which the broker counts delays; ``None`` where it must not, because a test
        has its own time."""
        return self._clock.now() if isinstance(self._clock, SystemClock) else None

    # -- claiming ----------------------------------------------------------------------------

    def _directly(self, settlements: Sequence[Settlement], wanted: Reservation) -> Exchange:
        """Reserve what the store gives without a message."""
        answer = self._state.exchange(settlements, wanted)
        self.directly += len(answer.deliveries)
        if wanted.jobs is None:
            self._sweep.done(wanted.queues)
        return answer

    def _take_readied(
        self, answer: Exchange, wanted: Reservation, queues: Sequence[str]
    ) -> Exchange:
        """Where the broker has brought nothing that waits here: go on with what these settlements
        made ready, without a message. So a chain costs its steps no way to the broker and back."""
        rest = _rest(wanted, answer)
        ready = [job for job in answer.readied if job.queue in queues]
        if not ready or rest.limit < 1 or self._consumer.shelf.count(queues):
            return answer
        ready.sort(key=lambda job: -job.priority)  # stable
        named = [job.job_id for job in ready[: rest.limit]]
        return _together(answer, self._directly((), msgspec.structs.replace(rest, jobs=named)))

    def _claim(
        self, settlements: Sequence[Settlement], wanted: Reservation, queues: Sequence[str]
    ) -> Exchange:
        """Reserve those jobs whose messages are here."""
        arrivals = self._consumer.shelf.take(queues, wanted.limit)
        names = [arrival.notice.job for arrival in self._keep_early(arrivals)]
        names += self._early.take(queues, self._clock.now(), wanted.limit)
        named = msgspec.structs.replace(wanted, jobs=names, limit=wanted.limit if names else 0)
        try:
            answer = self._state.exchange(settlements, named)
        except BaseException:
            self._consumer.shelf.put_back(arrivals)
            raise
        self.by_message += len(answer.deliveries)
        if arrivals:
            self._let_go(arrivals, wanted, answer)
        return answer

    def _keep_early(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """Those that are due; the others wait at the broker again, or here if it is not long."""
        now = self._clock.now()
        early = [each.notice for each in arrivals if (each.notice.due or now) > now]
        if not early:
            return list(arrivals)
        later = [
            notice
            for notice in early
            if self.delay_from() is not None and (notice.due or now) - now >= SHORTEST_DELAY
        ]
        if not later or not self._publisher.offer(later, self.delay_from()):
            later = []
        sent = {id(notice) for notice in later}
        self._early.keep([notice for notice in early if id(notice) not in sent])
        return [each for each in arrivals if (each.notice.due or now) <= now]

    def _let_go(self, arrivals: Sequence[Arrival], wanted: Reservation, answer: Exchange) -> None:
        """Acknowledge what was delivered, and what the store had other plans for: it comes back by
        the store. What there was no room for stays here."""
        got = {delivery.job_id for delivery in answer.deliveries}
        if len(got) < wanted.limit:
            self._consumer.done(arrivals)
            return
        now = self._clock.now()
        kept = [
            each
            for each in arrivals
            if each.notice.job not in got and (each.notice.due or now) <= now
        ]
        keep = set(map(id, kept))
        self._consumer.done(each for each in arrivals if id(each) not in keep)
        self._consumer.shelf.put_back(kept)

    # -- what settlements bring back ---------------------------------------------------------

    def _announce(self, settlements: Sequence[Settlement], answer: Exchange) -> None:
        """Send messages for what can be had because of these settlements, but was not reserved."""
        if not settlements or not self._consumer.is_up:
            return
        now = self._clock.now()
        notices = [_notice_of(job, now) for job in answer.readied]
        for settlement, status in zip(settlements, answer.settled, strict=True):
            if status is Settled.DONE:
                notices += _notices_of(settlement, now)
        delivered = {delivery.job_id for delivery in answer.deliveries}
        self.announce([notice for notice in notices if notice.job not in delivered])


def _notice_of(job: Readied, now: float) -> Notice:
    """For one that waits for nothing any more. The store's clock may be another one than ours."""
    due = job.visible_at if job.visible_at - now >= SHORTEST_DELAY else None
    return Notice(job.job_id, job.queue, job.priority, due)


def _notices_of(settlement: Settlement, now: float) -> Iterator[Notice]:
    """For a job that goes back to its queue, and for those that are added."""
    delivery = settlement.delivery
    match settlement:
        case Release():
            yield Notice(delivery.job_id, delivery.queue, delivery.priority)
        case RetryLater(delay=delay, envelope=Sealed(envelope=changed)):
            due = _later(now + delay, now)
            yield Notice(delivery.job_id, changed.queue, changed.priority, due)
        case RetryLater(delay=delay) | Nack(delay=delay) | Defer(delay=delay):
            due = _later(now + delay, now)
            yield Notice(delivery.job_id, delivery.queue, delivery.priority, due)
        case Ack(spawn=jobs) | Delegate(jobs=jobs):
            yield from (notice_of(job.envelope, now) for job in jobs if not job.envelope.after)


def _later(instant: float, now: float) -> float | None:
    return instant if instant > now else None


def _rest(reservation: Reservation, answer: Exchange) -> Reservation:
    """What is left of a reservation after its first deliveries."""
    quotas = dict(reservation.quotas)
    for delivery in answer.deliveries:
        if delivery.queue in quotas:
            quotas[delivery.queue] -= 1
    limit = reservation.limit - len(answer.deliveries)
    return msgspec.structs.replace(reservation, limit=limit, quotas=quotas)


def _together(first: Exchange, second: Exchange) -> Exchange:
    """The answers of two steps as that of one."""
    return msgspec.structs.replace(
        second,
        settled=first.settled,
        readied=first.readied,
        deliveries=[*first.deliveries, *second.deliveries],
        dropped=[*first.dropped, *second.dropped],
    )
