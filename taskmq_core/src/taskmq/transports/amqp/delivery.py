"""One exchange: what the broker brought is claimed in the store by id; what the broker does not
bring, but the store has, is taken from the store directly.

The second is what makes the first safe. A message that was lost or never sent, a job that became
due, free or visible in the store with nobody there to send a message, a broker that is down: each
costs an exchange a moment of waiting, and no job.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from taskmq.clock import Clock, SystemClock
from taskmq.errors import TransportError
from taskmq.transport import (
    Defer,
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
from .notice import Notice
from .publisher import Publisher
from .shelf import Arrival
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

    def exchange(
        self, settlements: Sequence[Settlement], reservation: Reservation | None
    ) -> Exchange:
        """See `taskmq.transport.Reserver.exchange`."""
        if reservation is None or reservation.limit < 1 or reservation.jobs is not None:
            answer = self._state.exchange(settlements, reservation)
            self._announce(settlements, answer.settled)
            return answer
        queues = [queue for queue in reservation.queues if reservation.quotas.get(queue, 1) > 0]
        self._consumer.want(queues, reservation.limit)
        answer = self._claim(settlements, reservation, queues)
        self._announce(settlements, answer.settled)
        try:
            while len(answer.deliveries) < reservation.limit:
                rest = _rest(reservation, answer)
                if answer.waiting_priority is None:
                    if not self._consumer.shelf.count(queues):
                        return answer
                elif not self._consumer.await_arrivals(
                    queues, rest.limit, some=bool(answer.deliveries)
                ):
                    direct = self._state.exchange((), rest)
                    self.directly += len(direct.deliveries)
                    return _together(answer, direct)
                answer = _together(answer, self._claim((), rest, queues))
        except TransportError as error:
            # What is settled and reserved already must be told; the next exchange has the error.
            logger.debug("reserved less than there was: %s", error)
        if len(answer.deliveries) >= reservation.limit:
            self._consumer.satisfied(queues)
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

    def _announce(self, settlements: Sequence[Settlement], settled: Sequence[Settled]) -> None:
        if not settlements or not self._consumer.is_up:
            return
        now = self._clock.now()
        self.announce(
            [
                notice
                for settlement, status in zip(settlements, settled, strict=True)
                if status is Settled.DONE and (notice := _notice_of(settlement, now)) is not None
            ]
        )


def _notice_of(settlement: Settlement, now: float) -> Notice | None:
    """For a job that goes back to its queue."""
    delivery = settlement.delivery
    if isinstance(settlement, Release):
        return Notice(delivery.job_id, delivery.queue, delivery.priority)
    if isinstance(settlement, (RetryLater, Nack, Defer)):
        due = now + settlement.delay if settlement.delay > 0 else None
        replaced = settlement.envelope if isinstance(settlement, RetryLater) else None
        queue, priority = delivery.queue, delivery.priority
        if replaced is not None:
            queue, priority = replaced.envelope.queue, replaced.envelope.priority
        return Notice(delivery.job_id, queue, priority, due)
    return None


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
        deliveries=[*first.deliveries, *second.deliveries],
        dropped=[*first.dropped, *second.dropped],
    )
