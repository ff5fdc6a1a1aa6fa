"""The worker's loop: between store and pool, in the thread that called `Worker.run`.

One round: take the outcomes that have come in, decide what to give back, exchange with the store,
hand the pool what came, wait. The loop waits for nothing but its inbox, and for no longer than
until the next thing that is due by the clock.

Pacing (waits, backoff, deadlines of a stop) is real time even where a test holds the app's clock
still. Instants that the store gave are compared with the app's clock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taskmq.app import App
from taskmq.envelope import load
from taskmq.errors import MalformedEnvelope, TransportError, UnsupportedVersion
from taskmq.events import JobDeferred, JobReleased
from taskmq.plans import prune as prune_plans
from taskmq.pools import Pool, RunningJob
from taskmq.transport import MAX_YIELDS, Defer, Delivery, Exchange, Release

from .credit import Credit
from .fetcher import Fetcher
from .inbox import Inbox
from .interrupt import cut_short
from .lookout import Lookout
from .pace import REAL, Pace
from .pulse import Place
from .recall import Recall
from .taken import Taken
from .throttle import Throttle

__all__ = ["Loop", "Parts"]

logger = logging.getLogger("taskmq.worker")

MAINTENANCE_INTERVAL = 5.0
IDLE_MAINTENANCE_INTERVAL = 10.0
"""Also how long a wake-up that got lost on its way can go unnoticed."""
PLANS_INTERVAL = 1800.0
"""Seconds between two looks for workflows of which nothing is left."""
AGAIN_AT_ONCE = 0.05
"""Seconds until the next maintenance if the last one left something to do."""
FOREVER = float("inf")
BEHIND = "the jobs before it take long"
CUT_SHORT = "the worker stops, and it takes too long"
CLEARING_UP = 1.0
"""Seconds of the shutdown timeout for giving back what runs, and for the end of the process: so it
is kept as a whole, on a busy machine too."""
PAST_DUE = 0.01
"""Seconds to wait if the store says that something was due already."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a loop moves deliveries and outcomes between."""

    pool: Pool
    inbox: Inbox
    credit: Credit
    fetcher: Fetcher
    lookout: Lookout
    running: Mapping[str, RunningJob]
    """What runs now, by job id; kept by the executor, or by a pool that runs jobs elsewhere."""
    turn: Callable[[], None]
    """Lets the pool use the loop's thread."""
    throttle: Throttle
    pace: Pace = REAL


class Loop:
    """One run of a worker."""

    def __init__(
        self,
        app: App,
        parts: Parts,
        *,
        worker: str,
        shutdown_timeout: float,
        on_deliveries: Callable[[Sequence[Delivery]], Collection[Delivery]] | None = None,
        on_leaving: Callable[[], None] | None = None,
        taken: Taken | None = None,
    ) -> None:
        self._app = app
        self._pool = parts.pool
        self._inbox = parts.inbox
        self._credit = parts.credit
        self._fetcher = parts.fetcher
        self._lookout = parts.lookout
        self._throttle = parts.throttle
        self._running = parts.running
        self._turn = parts.turn
        self._monotonic = parts.pace.monotonic
        self._worker = worker
        self._shutdown_timeout = shutdown_timeout
        self._on_deliveries = on_deliveries
        self._on_leaving = on_leaving
        self._taken = Taken(parts.inbox) if taken is None else taken

        self.in_pool = 0
        """Submitted to the pool and not finished."""
        self.interrupted = 0
        """Ended by this loop, and given back."""
        self.pulse = parts.fetcher.pulse
        self._lowest = 0  # priority of the least urgent delivery that may be unstarted
        self._look = True  # the store may have something that we have not seen
        self._due_at: float | None = None  # app's clock: when the store has something by itself
        self._moved_at = 0.0  # when the pool last started or finished something, as far as known
        self._stalled = False  # nothing has finished for so long that whatever runs is long
        self._leave_at: float | None = None  # end of the shutdown timeout, once stopping
        self._maintain_at = 0.0
        self._plans_at = self._monotonic() + PLANS_INTERVAL
        self._maintained_after = -1  # jobs processed when maintenance was last done

    # -- the loop ----------------------------------------------------------------------------

    def run(self, *, until_idle: bool = False, deadline: float | None = None) -> None:
        """Until told to stop; with ``until_idle``, or until nothing is left to do now.

        Raises ``TimeoutError`` if it is not idle at ``deadline`` (``pace.monotonic()``), and what
        `Fetcher.exchange` raises.
        """
        while not self._inbox.stop_now:
            if self.step(until_idle=until_idle, deadline=deadline):
                return
            self._wait(deadline)
        self._begin_to_stop()

    def step(self, *, until_idle: bool = False, deadline: float | None = None) -> bool:
        """One round, without the wait at its end; whether it was the last. See `run`."""
        self.pulse.at(Place.WORKING)
        self._collect()
        if self._inbox.stop and (self._leave_at is None or self._inbox.stop_within is not None):
            self._begin_to_stop()
        self._give_back()
        self._exchange_if_needed()
        if self._is_finished(until_idle):
            return True
        if deadline is not None and self._monotonic() >= deadline:
            raise TimeoutError(f"worker {self._worker} is not idle: {self.in_pool} jobs run")
        self._maintain()
        if self._pool.inline:
            self.pulse.at(Place.JOB)
        self._turn()
        return False

    def leave(self) -> int:
        """Say the last to the store; the number of jobs that are still running."""
        self.pulse.at(Place.WORKING)
        self._collect()
        if self.in_pool:
            self._interrupt(self._pool.abort())
            self._collect()  # what ended just before
        self._fetcher.unsent += map(cut_short, self._taken.drop_all())
        if self._fetcher.unsent and self._fetcher.exchange(None) is None:
            logger.warning(
                "%d outcomes could not be stored; these jobs run again when their leases end",
                len(self._fetcher.unsent),
            )
        return self.in_pool

    def _collect(self) -> None:
        outcomes = self._inbox.take()
        if outcomes:
            self.in_pool -= len(outcomes)
            self._moved_at, self._stalled = self._monotonic(), False
            self._fetcher.unsent += [outcome.settlement for outcome in outcomes]
            self._credit.observe(len(outcomes), sum([outcome.runtime for outcome in outcomes]))
        if self._taken:
            self._fetcher.unsent += self._taken.settled()
            started = self._taken.started()
            if started:
                self._submit(started)
        if self._inbox.has_news:
            self._collect_news()
        if self._inbox.take_notice():
            self._look = True
        if self._due_at is not None and self._app.clock.now() >= self._due_at:
            self._due_at = None
            self._look = True

    def _collect_news(self) -> None:
        self._inbox.has_news = False
        withdrawn, given_back = self._inbox.take_withdrawn(), self._inbox.take_given_back()
        if withdrawn or given_back:
            self._hear_of(withdrawn, given_back)
        dropped = self._inbox.take_dropped()
        if dropped:
            self._fetcher.report_dropped(dropped)

    def _exchange_if_needed(self) -> None:
        if self._fetcher.resume_at and self._monotonic() < self._fetcher.resume_at:
            return
        unsent = self._fetcher.unsent
        if not unsent and (not self._look or self._leave_at is not None):
            return
        limit = None if self._leave_at is not None else self._room(self._stuck())
        if unsent or limit:
            self._exchange(limit)

    def _room(self, stuck: int) -> int:
        wanted = max(0, self._credit.target(stuck) - self.in_pool)
        return self._taken.room(wanted) if self._taken else wanted

    def _exchange(self, limit: int | None) -> None:
        if not limit and not self._pool.unstarted():
            limit = None  # nothing that a look could change
        self._lookout.prepare()
        self._look = False
        wanted = limit + self._throttle.extra if limit else limit
        answer = self._fetcher.exchange(wanted)
        if answer is None or limit is None:
            self._look = True
        else:
            self._look = len(answer.deliveries) >= (wanted or 0)
            self._receive(answer, limit)

    def _receive(self, answer: Exchange, limit: int) -> None:
        deliveries = answer.deliveries
        if self._throttle and deliveries:
            deliveries = self._hold_back(deliveries, limit)
        self._due_at = answer.next_due_at
        if self._due_at is not None:
            self._due_at = max(self._due_at, self._app.clock.now() + PAST_DUE)
        if deliveries:
            deliveries = self._passed(deliveries)
        if deliveries:
            self._submit(deliveries)
        waiting = answer.waiting_priority
        if waiting is not None and self._lowest < waiting and self._pool.unstarted():
            self._release_below(waiting)

    def _hold_back(self, deliveries: Sequence[Delivery], limit: int) -> Sequence[Delivery]:
        """Those that may start; the others go back."""
        passed, put_off = self._throttle.sort(deliveries)
        unsent = self._fetcher.unsent
        unsent += [Defer(delivery, seconds) for delivery, seconds in put_off]
        unsent += map(Release, passed[limit:])  # more was asked for than there is room
        self._throttle.refund(passed[limit:])
        self._look = self._look or bool(unsent)
        if self._app.emitter.active:
            self._app.emitter.emit(*(self._deferred(delivery) for delivery, _ in put_off))
            self._report_released(passed[limit:], BEHIND)
        return passed[:limit]

    def _passed(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """Those that no hook refuses or takes."""
        if self._on_deliveries:
            refused = self._on_deliveries(deliveries)
            if refused:
                deliveries = self._without(refused, deliveries)
        return self._taken.sift(deliveries) if deliveries else deliveries

    def _submit(self, deliveries: Sequence[Delivery]) -> None:
        self.in_pool += len(deliveries)
        self._moved_at = self._monotonic()
        last = deliveries[-1].priority
        if not self._pool.unstarted():
            self._lowest = last
        elif deliveries[0].priority > self._lowest:
            # A free slot takes the most urgent, so those that wait already may have to stand back.
            waiting = [*self._pool.withdraw(), *deliveries]
            deliveries = sorted(waiting, key=lambda delivery: -delivery.priority)
            self._lowest = deliveries[-1].priority
        else:
            self._lowest = min(self._lowest, last)
        self._pool.submit(deliveries)

    def _without(
        self, refused: Collection[Delivery], deliveries: Sequence[Delivery]
    ) -> list[Delivery]:
        """Those that start; the others are revoked with the next exchange, which comes at once."""
        self._fetcher.unsent += map(self._fetcher.revoke_unstarted, refused)
        self._look = True
        theirs = {id(delivery) for delivery in refused}
        return [delivery for delivery in deliveries if id(delivery) not in theirs]

    def _wait(self, deadline: float | None) -> None:
        self.pulse.at(Place.WAITING)
        if not self._pool.inline:
            enough, seconds = self._credit.batch(self.in_pool, self._stuck())
            if enough > 1 and self._inbox.wait(seconds, enough):
                return
        if len(self._inbox):
            return
        until, watches = [deadline or FOREVER, self._leave_at or FOREVER], False
        if self._pool.unstarted():
            until.append(self._moved_at + self._credit.long)
        if self._fetcher.resume_at > self._monotonic():
            until.append(self._fetcher.resume_at)
        else:
            until.append(self._maintain_at)
            if self._leave_at is None and self._room(self._stuck()):
                if self._look:
                    return
                if self._due_at is not None:
                    until.append(self._monotonic() + self._due_at - self._app.clock.now())
                watches = True
        seconds = max(0.0, min(until) - self._monotonic())
        if watches:
            self._lookout.wait(self._inbox, seconds)
        else:
            self._inbox.wait(seconds)

    def _is_finished(self, until_idle: bool) -> bool:
        if self.in_pool or self._taken or self._fetcher.unsent or len(self._inbox):
            return self._leave_at is not None and self._monotonic() >= self._leave_at
        if self._leave_at is not None:
            return True
        if not until_idle or self._look or self._fetcher.resume_at:
            return False
        return self._maintained_after >= 0  # what it sees to may be there to run

    # -- giving back -------------------------------------------------------------------------

    def _begin_to_stop(self) -> None:
        """Reserve nothing more; what has not started goes back at once."""
        if self._leave_at is None and self._on_leaving:
            self._on_leaving()
        within, self._inbox.stop_within = self._inbox.stop_within, None
        if self._leave_at is None or within is not None:
            timeout = self._shutdown_timeout if within is None else within
            leave_at = self._monotonic() + timeout - min(CLEARING_UP, timeout / 10)
            self._leave_at = min(leave_at, self._leave_at or FOREVER)
        self._release(self._pool.withdraw(), "the worker stops")

    def _interrupt(self, deliveries: list[Delivery]) -> None:
        self.interrupted = len(deliveries)
        self.in_pool -= len(deliveries)
        self._fetcher.unsent += map(cut_short, deliveries)
        self._report_released(deliveries, CUT_SHORT)

    def _give_back(self) -> None:
        recalled = self._inbox.take_recalled()
        if recalled:
            self._part_with(recalled)
        unstarted = self._pool.unstarted()
        if not unstarted or self._leave_at is not None:
            return
        stalled = self._monotonic() - self._moved_at >= self._credit.long
        self._stalled = self._stalled or stalled
        surplus = self._credit.surplus(self.in_pool, unstarted, self._stuck())
        if surplus:
            held = self._pool.withdraw()
            kept = max(0, len(held) - surplus)
            self._keep_or_release(held[:kept], held[kept:], BEHIND)
        if stalled:
            self._moved_at = self._monotonic()  # not again at once for what had to be kept

    def _release_below(self, priority: int) -> None:
        held = self._pool.withdraw()
        urgent = [delivery for delivery in held if delivery.priority >= priority]
        others = [delivery for delivery in held if delivery.priority < priority]
        self._keep_or_release(urgent, others, "something more urgent waits")

    def _keep_or_release(self, keep: list[Delivery], others: list[Delivery], reason: str) -> None:
        """Submit ``keep`` again, with those of ``others`` that were released often enough."""
        kept = keep + [delivery for delivery in others if delivery.yields >= MAX_YIELDS]
        self._release([delivery for delivery in others if delivery.yields < MAX_YIELDS], reason)
        if kept:
            self._lowest = kept[-1].priority
            self._pool.submit(kept)

    def _part_with(self, recalled: Sequence[tuple[Delivery, Recall]]) -> None:
        """What has started meanwhile is not among what the pool gives back."""
        for delivery, reason in recalled:
            if reason is Recall.LOST:
                self._taken.drop(delivery)
        why = {id(delivery): reason for delivery, reason in recalled}
        held = self._pool.withdraw()
        self._pool.submit([delivery for delivery in held if id(delivery) not in why])
        parted = [delivery for delivery in held if id(delivery) in why]
        for reason in (Recall.LOST, Recall.PAUSED):
            self._release([one for one in parted if why[id(one)] is reason], reason.value)
        revoked = [one for one in parted if why[id(one)] is Recall.REVOKED]
        self.in_pool -= len(revoked)
        self._fetcher.unsent += map(self._fetcher.revoke_unstarted, revoked)

    def _release(self, deliveries: list[Delivery], reason: str) -> None:
        self.in_pool -= len(deliveries)
        self._throttle.refund(deliveries)
        self._fetcher.unsent += map(Release, deliveries)
        self._report_released(deliveries, reason)

    def _hear_of(self, withdrawn: list[Release], given_back: list[Release]) -> None:
        """What the watchdog took out of the pool while this thread was inside a job."""
        self.in_pool -= len(withdrawn) + len(given_back)
        self._fetcher.unsent += withdrawn
        self._fetcher.tally.add(given_back)
        deliveries = [release.delivery for release in withdrawn + given_back]
        self._throttle.refund(deliveries)
        self._report_released(deliveries, BEHIND)
        if given_back:
            self._look = True  # the last look at the store may have been before it had them

    def _report_released(self, deliveries: list[Delivery], reason: str) -> None:
        if deliveries and self._app.emitter.active:
            self._app.emitter.emit(*(self._released(one, reason) for one in deliveries))

    def _released(self, delivery: Delivery, reason: str) -> JobReleased:
        return JobReleased(reason=reason, **self._about(delivery))

    def _deferred(self, delivery: Delivery) -> JobDeferred:
        return JobDeferred(reason="rate_limit", parked=False, **self._about(delivery))

    def _about(self, delivery: Delivery) -> dict[str, Any]:
        task, trace = "", {}
        try:
            envelope = load(delivery.envelope)
            task, trace = envelope.task, envelope.trace
        except (MalformedEnvelope, UnsupportedVersion):
            pass  # given back before anybody looked into it
        return {
            "at": self._app.clock.now(),
            "job_id": delivery.job_id,
            "task": task,
            "queue": delivery.queue,
            "trace": trace,
            "worker": self._worker,
        }

    # -- observing ---------------------------------------------------------------------------

    def _stuck(self) -> int:
        """How many slots are taken by a long job."""
        if not self.in_pool:
            return 0
        if self._stalled:
            return min(self._pool.slots, self.in_pool - self._pool.unstarted())
        before = self._app.clock.now() - self._credit.long
        # One bytecode copies the values, so that slots may come and go meanwhile.
        contexts = list(self._running.values())
        return sum([context.started_at < before for context in contexts])

    def _maintain(self) -> None:
        now = self._monotonic()
        if now < self._maintain_at or now < self._fetcher.resume_at:
            return
        processed = self._fetcher.tally.processed
        busy = processed != self._maintained_after
        self._maintained_after = processed
        interval = MAINTENANCE_INTERVAL if busy else IDLE_MAINTENANCE_INTERVAL
        self.pulse.at(Place.STORE)
        try:
            report = self._app.transport.maintain()
            if report.dropped:
                self._fetcher.report_dropped(report.dropped)
            if now >= self._plans_at:
                self._plans_at = now + PLANS_INTERVAL
                prune_plans(self._app.transport, self._app.clock.now())
            done = max(report.reclaimed, report.expired, report.purged, report.keys_purged)
            if done >= 1000:
                interval = AGAIN_AT_ONCE
        except TransportError as error:
            logger.debug("no maintenance: %s", error)
        except Exception:
            logger.exception("maintenance failed")
        self.pulse.at(Place.WORKING)
        self._maintain_at = now + interval
        self._look = True
