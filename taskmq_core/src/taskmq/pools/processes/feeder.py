"""The thread that feeds the children, hears them, kills them and replaces them.

It alone talks with children and nursery, and it never blocks but in one `select`. What the pool's
owner may do meanwhile (submit, withdraw, count) takes the lock that this thread holds while it
works, which is never for long.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import selectors
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from taskmq.clock import Clock
from taskmq.errors import ConfigError, HardTimeLimit, JobCancelled, WorkerLost
from taskmq.events import Event
from taskmq.executor import Outcome
from taskmq.pools.base import Done
from taskmq.transport import Defer, Delivery, Nack

from .aftermath import Aftermath
from .births import Birth, Births, Death, NurseryLost, manner_of_death
from .brake import Brake
from .channel import Channel
from .charge import Charge, RemoteJob, is_given_up_when_lost
from .measure import Measure
from .wire import Broken, Ended, Happened, Leaving, Ready, Started, Work, settlement_of

__all__ = ["Feeder"]

logger = logging.getLogger("taskmq.pools")

LATE = 0.005
"""Seconds after which a running job counts as long: a child without work may have what waits
behind it."""
ABORTED = 0
"""Condemned on account of no delivery."""
MOST_BYTES = 256 * 1024
"""Of deliveries that wait in a child's pipe; a single one may be larger."""


class Feeder:
    """``slots`` children at work.

    ``running`` is kept up to date, ``emit`` takes their events, ``again`` makes another nursery.
    """

    def __init__(
        self,
        births: Births,
        *,
        slots: int,
        running: dict[str, RemoteJob],
        most_jobs: int | None,
        clock: Clock,
        emit: Callable[..., None],
        again: Callable[[], Births],
    ) -> None:
        self.slots = slots
        self.running = running
        self.pending: deque[Delivery] = deque()
        self.failure: Exception | None = None
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self._births = births
        self._again = again
        self._most_jobs = most_jobs
        self._clock = clock
        self._emit = emit
        self._charges: dict[int, Charge] = {}
        self._numbers, self._seqs = itertools.count(1), itertools.count(1)
        self._measure = Measure()
        self._brake = Brake()
        self._scarcity = Brake()  # apart, because jobs of living children release the other one
        self._stopping = False
        self._was_ready = False  # some child, at some time
        self._aborted: list[Delivery] = []
        self._outcomes: list[Outcome] = []
        self._events: list[Event] = []
        self._done: Done
        self._aftermath: Aftermath
        self._selector = selectors.DefaultSelector()
        self._wake, self._bell = socket.socketpair()  # not a pipe: a closed one is known to be
        for end in (self._wake, self._bell):
            end.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="taskmq-feeder", daemon=True)

    # -- the pool's owner --------------------------------------------------------------------

    def start(self, done: Done, aftermath: Aftermath) -> None:
        self._done, self._aftermath = done, aftermath
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._selector.register(self._births.socket, selectors.EVENT_READ)
        self.rouse()
        self._thread.start()

    def wait_until_ready(self, timeout: float) -> None:
        """Block until there is a child that can work. Raises what prevents it."""
        with self.changed:
            ready = self.changed.wait_for(lambda: self.failure or self._was_ready, timeout)
        if self.failure is not None:
            raise self.failure
        if not ready:
            raise ConfigError(f"no child of the pool was ready to work within {timeout:g} s")

    @property
    def nursery(self) -> int:
        """Its process id."""
        return self._births.pid

    def children(self) -> tuple[int, ...]:
        """Process ids of those that have been born. From any thread."""
        return tuple(charge.pid for charge in list(self._charges.values()) if charge.pid)

    def rouse(self) -> None:
        """There is something to do."""
        with contextlib.suppress(OSError):  # it has been told enough, or is no more
            self._bell.send(b".")

    def unstarted(self) -> int:
        with self.lock:
            ahead = sum(c.channel.unstarted() for c in self._charges.values() if c.outstanding)
            return len(self.pending) + ahead

    def withdraw(self) -> list[Delivery]:
        with self.lock:
            back = [item for charge in self._charges.values() for item in self._recover(charge)]
            self.pending.extendleft(
                delivery for _, delivery in sorted(back, reverse=True, key=_seq)
            )
            withdrawn = list(self.pending)
            self.pending.clear()
            return withdrawn

    def resize(self, slots: int) -> None:
        with self.lock:
            self.slots = slots
        self.rouse()

    def terminate(self, job_id: str) -> None:
        """Kill the child that runs this job, if one does; it ends as revoked."""
        with self.lock:
            for charge in self._charges.values():
                job = charge.running
                if job is not None and job.delivery.job_id == job_id:
                    self._condemn(charge, charge.current, JobCancelled(f"job {job_id} was revoked"))

    def abort(self, timeout: float) -> list[Delivery]:
        """Kill every child that has something to do; what they ran."""
        with self.changed:
            self._stopping = True
            for charge in self._charges.values():
                if charge.outstanding:
                    self._condemn(charge, ABORTED, None)
            self.rouse()
            self.changed.wait_for(
                lambda: not any(c.outstanding for c in self._charges.values()), timeout
            )
            aborted, self._aborted = self._aborted, []
            return aborted

    def stop(self, timeout: float) -> bool:
        """Let every child end when it has run what it has, then the nursery and this thread."""
        with self.lock:
            self._stopping = True
        self.rouse()
        if self._thread.ident is None:
            self._leave()
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # -- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_over():
                self._round()
        except Exception as error:
            logger.critical("the processes pool cannot go on: %s", error)
            self._fail(error)
        finally:
            self._leave()

    def _is_over(self) -> bool:
        return self._stopping and not self._charges

    def _round(self) -> None:
        ready = self._selector.select(self._timeout())
        with self.lock:
            for key, mask in ready:
                if key.fileobj is self._wake:
                    with contextlib.suppress(BlockingIOError):
                        self._wake.recv(4096)
                elif key.fileobj is self._births.socket:
                    self._hear()
                else:
                    self._serve(key.data, mask)
            self._see_to_limits()
            self._see_to_numbers()
            if not self._stopping:
                self._deal()
                self._share()
            self._flush()
        self._hand_on()

    def _hand_on(self) -> None:
        """What came, to others: without the lock, for they may call back."""
        self._relay()
        if self._outcomes:
            outcomes, self._outcomes = self._outcomes, []
            for outcome in outcomes:
                self._done(outcome)

    def _relay(self) -> None:
        """The children's events, to the sinks."""
        if self._events:
            events, self._events = self._events, []
            self._emit(*events)

    def _timeout(self) -> float | None:
        now = time.monotonic()
        until = [at for c in self._charges.values() if (at := c.kill_at()) is not None]
        if not self._stopping:
            if self._next_birth() > now and self._live() < self.slots:
                until.append(self._next_birth())
            if any(len(charge.outstanding) > 1 for charge in self._charges.values()):
                until.append(now + LATE)
        return max(0.0, min(until) - now) if until else None

    # -- hearing -----------------------------------------------------------------------------

    def _hear(self) -> None:
        try:
            heard = self._births.hear()
        except NurseryLost as error:
            self._start_over(error)
            return
        for news in heard:
            if isinstance(news, Birth):
                self._charges[news.number].pid = news.pid
            else:
                self._bury(self._charges.pop(news.number), news)

    def _serve(self, charge: Charge, mask: int) -> None:
        if charge.silent or charge.number not in self._charges:
            return
        if mask & selectors.EVENT_READ:
            self._listen(charge)

    def _listen(self, charge: Charge) -> None:
        """Take what a child has to say."""
        try:
            reports = charge.channel.receive()
        except EOFError:
            self._selector.unregister(charge.channel.socket)
            charge.silent = charge.spent = True
            return
        for report in reports:
            if isinstance(report, Started):
                charge.current, charge.since = report.seq, report.at
            elif isinstance(report, Ended):
                delivery = charge.take(report.seq)
                charge.current = 0
                charge.finished += 1
                self._measure.add(report.runtime)
                self._outcomes.append(
                    Outcome(settlement_of(report.verdict, delivery), report.runtime)
                )
            elif isinstance(report, Happened):
                self._events += report.events
            else:
                self._note(charge, report)
        self._show(charge)

    def _note(self, charge: Charge, report: Ready | Broken | Leaving) -> None:
        if isinstance(report, Broken):
            raise ConfigError(f"no child can be made: {report.text}")
        if isinstance(report, Ready):
            charge.ready = self._was_ready = True
            self.changed.notify_all()
        else:
            charge.leaving, charge.spent = report.reason, True
            self._put_back(self._recover(charge))

    def _show(self, charge: Charge) -> None:
        """Keep ``running`` true."""
        delivery = charge.outstanding.get(charge.current)
        if charge.running is not None and charge.running.delivery is not delivery:
            self.running.pop(charge.running.delivery.job_id, None)
            charge.running = None
        if delivery is not None and charge.running is None:
            started_at = self._clock.now() - (time.monotonic() - charge.since)
            number = charge.current

            def tell(job: RemoteJob) -> None:
                charge.channel.tell(number, lease_lost=job.lease_lost)

            charge.running = RemoteJob(delivery, started_at, tell, charge.pid)
            self.running[delivery.job_id] = charge.running
        if charge.finished:
            self._brake.release()

    # -- giving ------------------------------------------------------------------------------

    def _deal(self) -> None:
        """One each in turn, so that they start in about the order in which they came."""
        pending = self.pending
        if not pending:
            return
        ahead = self._measure.ahead()
        takers = [c for c in self._charges.values() if c.takes_work]
        occupied = sum(bool(charge.outstanding) for charge in self._charges.values())
        hands: dict[int, list[Work]] = {}
        rounds = sorted(takers, key=lambda charge: len(charge.outstanding))
        while pending and rounds:
            still = []
            for charge in rounds:
                hand = hands.get(charge.number)
                if hand is None:
                    if not charge.outstanding:
                        if occupied >= self.slots:
                            continue
                        occupied += 1
                    hand = hands.setdefault(charge.number, [])
                if not pending or not self._has_room(charge, hand, ahead):
                    continue
                hand.append(Work(next(self._seqs), pending.popleft()))
                still.append(charge)
            rounds = still
        for charge in takers:
            if hands.get(charge.number):
                self._give(charge, hands[charge.number])

    def _has_room(self, charge: Charge, hand: list[Work], ahead: int) -> bool:
        if self._most_jobs is not None and charge.fed + len(hand) >= self._most_jobs:
            return False
        held = len(charge.outstanding) + len(hand)
        if not held:
            return True
        weight = charge.weight + sum(len(work.delivery.envelope) for work in hand)
        return held <= ahead and weight + len(self.pending[0].envelope) <= MOST_BYTES

    def _give(self, charge: Charge, works: list[Work]) -> None:
        charge.give(works)
        if self._most_jobs is not None and charge.fed >= self._most_jobs:
            charge.spent = True  # its successor may begin to live meanwhile

    def _share(self) -> None:
        """Let a child without work have what waits behind a long job."""
        if self.pending or not any(
            c.takes_work and not c.outstanding for c in self._charges.values()
        ):
            return
        before = time.monotonic() - LATE
        for charge in self._charges.values():
            if len(charge.outstanding) > 1 and charge.current and charge.since < before:
                self._put_back(self._recover(charge))
                self._deal()

    def _recover(self, charge: Charge) -> list[tuple[int, Delivery]]:
        return charge.take_back() if charge.outstanding else []

    def _put_back(self, items: Iterable[tuple[int, Delivery]]) -> None:
        """In front: they were dealt before those that wait."""
        self.pending.extendleft(d for _, d in sorted(items, reverse=True, key=_seq))

    def _flush(self) -> None:
        """Send what there is, and listen for room where there was too little."""
        for charge in self._charges.values():
            if charge.silent:
                continue
            try:
                sent = charge.channel.flush()
            except ConnectionError:
                continue  # it is dying; the end of what it said comes first
            wanted = selectors.EVENT_READ | (0 if sent else selectors.EVENT_WRITE)
            if self._selector.get_key(charge.channel.socket).events != wanted:
                self._selector.modify(charge.channel.socket, wanted, charge)

    # -- births and deaths -------------------------------------------------------------------

    def _live(self) -> int:
        return sum(not charge.spent for charge in self._charges.values())

    def _see_to_numbers(self) -> None:
        """As many children as slots."""
        if self._stopping:
            for charge in self._charges.values():
                charge.spent = True
                self._put_back(self._recover(charge))
                charge.channel.retire()
            return
        missing = self.slots - self._live()
        if missing > 0 and time.monotonic() >= self._next_birth():
            for _ in range(missing):
                if not self._bear():
                    break
        elif missing < 0:
            live = [charge for charge in self._charges.values() if not charge.spent]
            for charge in sorted(live, key=lambda c: len(c.outstanding))[:-missing]:
                charge.spent = True
                self._put_back(self._recover(charge))
                charge.channel.retire()

    def _next_birth(self) -> float:
        return max(self._brake.until, self._scarcity.until)

    def _bear(self) -> bool:
        try:
            channel = Channel(self._births.hello)
        except OSError as error:  # no file handles are left
            wait = self._scarcity.refused()
            logger.error("cannot make a child: %s; the next try in %.2f s", error, wait)
            return False
        self._scarcity.release()
        charge = Charge(next(self._numbers), channel)
        try:
            self._births.bear(charge.number, channel.far)
        except NurseryLost:
            channel.close()
            return False  # its socket will say so
        channel.hand_over()
        self._charges[charge.number] = charge
        self._selector.register(channel.socket, selectors.EVENT_READ, charge)
        return True

    def _see_to_limits(self) -> None:
        now = time.monotonic()
        for charge in self._charges.values():
            at = charge.kill_at()
            if at is not None and now >= at:
                limit = charge.limits[charge.current]
                cause = HardTimeLimit(f"hard_timeout of {limit:g} s is over", limit)
                self._condemn(charge, charge.current, cause)

    def _condemn(
        self, charge: Charge, number: int, cause: HardTimeLimit | JobCancelled | None
    ) -> None:
        if charge.condemned is None:
            charge.condemned, charge.cause, charge.spent = number, cause, True
            with contextlib.suppress(NurseryLost):  # it ends with it
                self._births.kill(charge.number)

    def _bury(self, charge: Charge, death: Death) -> None:
        """Everything that it had gets a fate: what it reported, what it ran, what waited."""
        while not charge.silent:
            before = (charge.finished, charge.current)
            self._listen(charge)
            if before == (charge.finished, charge.current) and not charge.silent:
                self._selector.unregister(charge.channel.socket)
                break  # some process that its task has started holds the other end
        self._put_back(self._recover(charge))
        if not charge.leaving and charge.condemned is None:
            self._lament(charge, death)
        self._relay()  # that it started comes before how it ended
        for number in list(charge.outstanding):
            self._lose(charge, number, death)
        charge.current = 0
        self._show(charge)
        charge.channel.close()
        self.changed.notify_all()

    def _lament(self, charge: Charge, death: Death) -> None:
        """It died by itself."""
        job = charge.running
        doing = f"while it ran job {job.delivery.job_id} of task {job.task}" if job else "idle"
        logger.error("child %d %s, %s", charge.pid, manner_of_death(death.status), doing)
        wait = self._brake.failed(lived=bool(charge.finished))
        if wait:
            logger.warning("children die one after the other; the next one in %.2f s", wait)
        if self._brake.failures >= Brake.HOPELESS and not self._was_ready:
            raise ConfigError(
                f"every child of the pool {manner_of_death(death.status)} at its start"
            )

    def _lose(self, charge: Charge, number: int, death: Death) -> None:
        """It had started this one."""
        runtime = time.monotonic() - charge.since if number == charge.current else 0.0
        delivery = charge.take(number)
        if charge.condemned == ABORTED:
            self._aborted.append(delivery)
        elif charge.condemned is None:
            how = f"child {charge.pid} {manner_of_death(death.status)}"
            self._aftermath.settle(delivery, WorkerLost(how), runtime)
        elif charge.cause is not None and charge.condemned == number:
            logger.warning("job %s was killed: %s", delivery.job_id, charge.cause)
            self._aftermath.settle(delivery, charge.cause, runtime)
        elif is_given_up_when_lost(delivery.envelope):
            self._outcomes.append(Outcome(Nack(delivery, detail="its process was ended"), runtime))
        else:  # through no fault of its own: it runs again at once
            self._outcomes.append(Outcome(Defer(delivery, 0.0)))

    # -- the end -----------------------------------------------------------------------------

    def _start_over(self, error: NurseryLost) -> None:
        """Without the nursery nobody says what becomes of children: they must be gone with it."""
        logger.error("%s, and every child with it; making another one", error)
        self._selector.unregister(self._births.socket)
        self._births.close()
        self._bury_all()
        if self._stopping:
            return
        self._births = self._again()
        self._selector.register(self._births.socket, selectors.EVENT_READ)

    def _bury_all(self) -> None:
        while self._charges:
            _, charge = self._charges.popitem()
            charge.leaving = charge.leaving or "the nursery is gone"
            if charge.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(charge.pid, signal.SIGKILL)
            self._bury(charge, Death(charge.number, signal.SIGKILL))

    def _fail(self, error: Exception) -> None:
        with self.changed:
            self._stopping = True
            self.failure = error
            with contextlib.suppress(Exception):
                self._bury_all()
            self.changed.notify_all()
        self._hand_on()

    def _leave(self) -> None:
        self._births.close()
        self._selector.close()
        self._wake.close()
        self._bell.close()


def _seq(item: tuple[int, Any]) -> int:
    return item[0]
