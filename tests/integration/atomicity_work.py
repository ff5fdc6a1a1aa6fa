"""What one of several processes does to a store that all of them use, by chance, and what it saw.

Files in a folder say who holds what: each is made after the store has given a job and removed
before the job is given back, so that whoever finds one there already has caught the store giving
it twice.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from taskmq.clock import SystemClock
from taskmq.codec import Payload
from taskmq.documents import DocumentChange
from taskmq.envelope import Dependency, Envelope, Sealed, seal
from taskmq.ids import new_id
from taskmq.limits import Fair, Limit
from taskmq.plugins import open_transport
from taskmq.records import Failure, JobFilter, JobRecord
from taskmq.states import TERMINAL, JobState
from taskmq.transport import (
    Ack,
    DeadLetter,
    Defer,
    Delivery,
    LeaseStatus,
    Nack,
    Release,
    Reservation,
    RetryLater,
    Settled,
    Settlement,
)

QUEUES = {"a": 1, "b": 2}
TWO = Limit("concurrency", "two", 2)
LONG, SHORT = 3600.0, 0.05
"""Leases: one that lasts for the whole test, and one that ends while the job is held."""
MAX_DELIVERIES = 1_000_000
FAILURE = Failure(type="builtins.ValueError", message="broken")
RESULT = Payload("json", b"1")
LOST = TERMINAL - {JobState.SUCCEEDED}


@dataclass
class Journal:
    """What a process did and was told."""

    created: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The jobs that it stored, each with those it waits for."""
    keys: list[tuple[str, str, bool]] = field(default_factory=list)
    """Key, job, and whether it was stored by this call."""
    deliveries: list[Delivery] = field(default_factory=list)
    settled: list[tuple[str, int, str, Settled]] = field(default_factory=list)
    """Job, token, kind and outcome."""
    revoked: set[str] = field(default_factory=set)
    replayed: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    """The documents whose number it has raised by one, each time."""
    wrong: list[str] = field(default_factory=list)
    """Promises that were seen broken."""
    steps: int = 0


def work(
    url: str, folder: str, seed: int, seconds: float, wait_for_others: Callable[[], object]
) -> Journal:
    """Do this and that for so long."""
    hand = Hand(url, Path(folder), seed)
    hand.store.paused()  # whatever a first call has to make
    wait_for_others()
    end = time.monotonic() + seconds
    while time.monotonic() < end and not hand.journal.wrong:
        hand.step()
    hand.close()
    return hand.journal


class Hand:
    """One process at its work."""

    def __init__(self, url: str, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)  # no secret
        self.store = open_transport(url, clock=SystemClock())
        self.folder = folder
        self.name = f"w{seed}"
        self.journal = Journal()
        self.held: list[Delivery] = []
        self.abandoned: list[Delivery] = []
        self.leads = False
        self.acts: list[tuple[Callable[[], None], int]] = [
            (self.exchange, 10),
            (self.enqueue, 5),
            (self.take_for_a_moment, 2),
            (self.settle_late, 2),
            (self.look, 3),
            (self.write, 2),
            (self.lead, 2),
            (self.revoke, 1),
            (self.replay, 1),
            (self.extend, 1),
            (self.maintain, 1),
        ]

    def step(self) -> None:
        acts, weights = zip(*self.acts, strict=True)
        self.chance.choices(acts, weights)[0]()
        self.journal.steps += 1

    def close(self) -> None:
        self.settle([Release(delivery) for delivery in self.held])
        self.store.close()

    def wrong(self, what: str) -> None:
        self.journal.wrong.append(f"{self.name} after {self.journal.steps} steps: {what}")

    # -- jobs ------------------------------------------------------------------------------------

    def enqueue(self) -> None:
        """A batch: plain jobs, jobs behind a limit, with a key, in turns, and graphs."""
        before = self.some_jobs(self.chance.randrange(2))
        batch: list[Sealed] = []
        for _ in range(self.chance.randrange(1, 6)):
            made = self.job(self.chance.sample(before, min(len(before), self.chance.randrange(3))))
            batch.append(made)
            if made.envelope.key is None:  # that may turn out to be another job
                before.append(made.envelope.id)
        for sealed, stored in zip(batch, self.store.enqueue(batch), strict=True):
            envelope = sealed.envelope
            if stored.created:
                after = tuple(each.job for each in envelope.after)
                self.journal.created[stored.job_id] = after
            if envelope.key is not None:
                self.journal.keys.append((envelope.key, stored.job_id, stored.created))

    def job(self, after: Sequence[str]) -> Sealed:
        fields: dict[str, Any] = {"priority": self.chance.randrange(2)}
        kind = self.chance.random()
        if after and kind < 0.5:
            fields["after"] = tuple(map(Dependency, after))
        elif kind < 0.65:
            fields["limits"] = (TWO,)
        elif kind < 0.75:
            fields["fair"] = Fair(self.chance.choice("xyz"))
        elif kind < 0.8:
            # Another process is likely to use it in the same second.
            fields |= {"queue": "a", "key": f"k{int(time.time())}"}
        envelope = Envelope(
            **{
                "v": 1,
                "id": new_id(),
                "task": "demo.task",
                "queue": self.chance.choice("ab"),
                "max_deliveries": MAX_DELIVERIES,
                **fields,
            }
        )
        return seal(envelope, 1 << 20)

    def exchange(self) -> None:
        """Settle what is held and take new ones, in one step."""
        done, self.held = self.held, []
        self.settle([self.settlement(each) for each in done], self.wanted(LONG))

    def take_for_a_moment(self) -> None:
        """Take some and let their leases end."""
        self.abandoned += self.deliveries(self.store.reserve(self.wanted(SHORT)))

    def settle_late(self) -> None:
        """When somebody else may have them, or may have settled them."""
        late, self.abandoned = self.abandoned, []
        self.settle([self.settlement(each) for each in late])

    def settle(self, settlements: Sequence[Settlement], wanted: Reservation | None = None) -> None:
        for settlement in settlements:
            self.let_go(settlement.delivery)
        answer = self.store.exchange(settlements, wanted)
        acks = []
        for settlement, outcome in zip(settlements, answer.settled, strict=True):
            job = settlement.delivery.job_id
            kind = type(settlement).__name__
            self.journal.settled.append((job, settlement.delivery.token, kind, outcome))
            if outcome is Settled.REPEATED:
                self.wrong(f"the first settlement of {job} is called a repetition")
            if isinstance(settlement, Ack) and outcome is Settled.DONE:
                acks.append(settlement)
                if self.holder(job).exists():
                    self.wrong(f"{job} has succeeded while somebody else has it")
        if acks and self.chance.random() < 0.2:
            again = set(self.store.settle(acks))
            if again != {Settled.REPEATED}:
                self.wrong(f"repeated settlements are {again}")
        self.hold(self.deliveries(answer.deliveries))

    def settlement(self, delivery: Delivery) -> Settlement:
        kinds: list[Callable[[], Settlement]] = [
            lambda: Ack(delivery, RESULT),
            lambda: Ack(delivery, RESULT),
            lambda: RetryLater(delivery, self.chance.choice([0.0, 0.01]), FAILURE),
            lambda: Nack(delivery),
            lambda: Release(delivery),
            lambda: Defer(delivery, 0.01),
            lambda: DeadLetter(delivery, "error", FAILURE),
        ]
        return self.chance.choice(kinds)()

    def wanted(self, lease: float) -> Reservation:
        limit = self.chance.randrange(6)
        return Reservation(queues=QUEUES, worker=self.name, lease=lease, limit=limit)

    def deliveries(self, given: Sequence[Delivery]) -> Sequence[Delivery]:
        self.journal.deliveries += given
        return given

    # -- who holds what --------------------------------------------------------------------------

    def holder(self, job: str) -> Path:
        return self.folder / job

    def hold(self, given: Sequence[Delivery]) -> None:
        for delivery in given:
            if not claim(self.holder(delivery.job_id)):
                self.wrong(f"{delivery.job_id} is held twice")
            if b'"two"' in delivery.envelope:
                claim(self.folder / f"two-{delivery.job_id}")
                together = len(list(self.folder.glob("two-*")))
                if together > TWO.amount:
                    self.wrong(f"{together} run behind a limit of {TWO.amount}")
            self.held.append(delivery)

    def let_go(self, delivery: Delivery) -> None:
        """Of what it holds; one whose lease has ended is none of it."""
        if delivery.lease_until - time.time() > LONG / 2:
            self.holder(delivery.job_id).unlink()
            (self.folder / f"two-{delivery.job_id}").unlink(missing_ok=True)

    def extend(self) -> None:
        for delivery, status in zip(self.held, self.store.extend(self.held, LONG), strict=True):
            if status is LeaseStatus.LOST:
                self.wrong(f"{delivery.job_id} was taken away")

    def lead(self) -> None:
        leader = self.folder / "leader"
        if self.leads:
            self.leads = False
            leader.unlink()
            if not self.store.surrender("leader", self.name):
                self.wrong("the named lease was taken away")
        elif self.store.acquire("leader", self.name, LONG):
            self.leads = True
            if not claim(leader):
                self.wrong("the named lease is held twice")

    # -- whatever else one may ask of a store ----------------------------------------------------

    def some_jobs(self, count: int) -> list[str]:
        """Of the newest that it stored itself."""
        newest = list(self.journal.created)[-50:]
        return self.chance.sample(newest, min(count, len(newest)))

    def revoke(self) -> None:
        ids = self.some_jobs(2)
        for job, done in zip(ids, self.store.revoke(ids), strict=True):
            if done:
                self.journal.revoked.add(job)

    def replay(self) -> None:
        dead = [record.id for record in self.store.find(JobFilter(dead=True, limit=5))]
        for job, done in zip(dead, self.store.replay(dead, {}), strict=True):
            if done:
                self.journal.replayed.append(job)

    def maintain(self) -> None:
        self.store.maintain()

    def look(self) -> None:
        """A job and those that it waits for agree at every moment."""
        for job in self.some_jobs(3):
            after = self.journal.created[job]
            first, *others = self.store.get([job, *after])
            if complaint := disagreement(first, others):
                self.wrong(complaint)
        for stats in self.store.stats():
            if min(stats.ready, stats.delayed, stats.held, stats.running, stats.dead) < 0:
                self.wrong(f"less than nothing: {stats}")

    def write(self) -> None:
        """Raise a number by one, if nobody else does meanwhile."""
        name = self.chance.choice("xyz")
        found = self.store.documents("number", [name])
        number = int(found[0].data) if found else 0
        change = DocumentChange(
            kind="number",
            name=name,
            data=str(number + 1).encode(),
            revision=new_id(),
            expected=found[0].revision if found else None,
        )
        self.journal.written += [name] * self.store.write([change]).count(True)


def claim(path: Path) -> bool:
    """Make a file; false if there is one already."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def disagreement(job: JobRecord | None, after: Sequence[JobRecord | None]) -> str:
    """What is wrong with a job and those that it waits for; empty if nothing is."""
    if job is None or None in after:
        return "a job is gone"
    states = [each.state for each in after if each is not None]
    open_ = len(states) - states.count(JobState.SUCCEEDED)
    any_lost = bool(LOST & set(states))
    told = f"{job.id} is {job.state}, pending {job.pending}, after {', '.join(states) or 'nothing'}"
    if job.state is JobState.WAITING:
        return "" if job.pending == open_ > 0 and not any_lost else told
    if job.state is JobState.SKIPPED:
        return "" if any_lost else told
    return "" if not open_ or job.state is JobState.REVOKED else told
