"""The jobs of a simulation, and what their tasks do when they run: all drawn from the seed."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from taskmq.envelope import AckPolicy, Dependency, Envelope, RunIf, Sealed, seal
from taskmq.limits import Fair, Limit

from .profile import QUEUES, QueueKind

__all__ = ["TASKS", "Workload"]

TASKS = ("work", "plain", "rare")
"""``work`` is retried, ``plain`` is not, ``rare`` is unknown to some workers."""
PRIORITIES = (0, 0, 0, 0, 1, 5, -3)
ACKS: tuple[AckPolicy, ...] = ("on_success", "on_success", "on_success", "on_receipt")
COMPLETION: AckPolicy = "on_completion"
RETENTIONS = (0.0, 60.0, 900.0)
LIMITS: Sequence[tuple[Limit, ...]] = (
    (Limit("concurrency", "one"),),
    (Limit("concurrency", "two", 2),),
    (Limit("rate", "slow", 1, 8.0),),
    (Limit("rate", "bursts", 2, 10.0, 3),),
    (Limit("concurrency", "one"), Limit("rate", "slow", 1, 8.0)),
    (Limit("concurrency", "two", 2), Limit("rate", "bursts", 2, 10.0, 3)),
)
TENANTS = (Fair("big", 2.0), Fair("big", 2.0), Fair("small"), Fair("other", 0.5), None)
CONDITIONS: tuple[RunIf, ...] = ("failed", "finished")
WORKFLOW = "one"
"""There is only one: where several fail in one step, which is first is for the store to say."""
NOWHERE = "nowhere"
"""A job that there never is."""
KEYS = {"k1": "work", "k2": "plain", "k3": "rare"}
"""And the task that each stands for."""


class Workload:
    """Makes envelopes. Ids are ``j1``, ``j2`` … in the order in which they were made."""

    def __init__(
        self, draw: random.Random, batches: Sequence[int], queues: Mapping[str, QueueKind]
    ) -> None:
        self._draw = draw
        self._batches = batches
        self._queues = queues
        self._made = 0
        self._drops = any(kind.drops for kind in queues.values())
        """Some have to make room: no conditions then. Whether one that becomes ready when another
        is dropped has to go in the same step, is for the store to say."""

    def batch(self, known: Sequence[str], now: float) -> list[Sealed]:
        """New jobs; some wait for others of the batch or of ``known``."""
        batch: list[Sealed] = []
        for _ in range(self._draw.choice(self._batches)):
            # A job with a key may turn out to be another, which no job of the batch can wait for.
            sure = [sealed.envelope.id for sealed in batch if sealed.envelope.key is None]
            batch.append(self._job([*known[-12:], *sure], now))
        return batch

    def mended(self, envelope: Envelope) -> Sealed:
        """The same job with everything changed that may be, and without an expiry."""
        draw = self._draw
        possible = [
            queue for queue in QUEUES if not (envelope.fail_fast and self._queues[queue].drops)
        ]
        queue = draw.choice(possible or [envelope.queue])
        changes = {
            "queue": queue,
            **self._flow(queue),
            "priority": draw.choice(PRIORITIES),
            "expires_at": None,
            "ack": draw.choice(ACKS),
            "max_deliveries": draw.randint(1, 4),
            "store_result": draw.random() < 0.5,
            "result_ttl": draw.choice(RETENTIONS),
        }
        return seal(msgspec.structs.replace(envelope, **changes), limit=1 << 20)

    def _job(self, candidates: Collection[str], now: float) -> Sealed:
        draw = self._draw
        self._made += 1
        number = int(draw.random() < 0.03)  # mostly the same, for jobs that have the same key
        queue = draw.choice(QUEUES)
        fields: dict[str, Any] = {
            "id": f"j{self._made}",
            "task": draw.choices(TASKS, (6, 3, 3))[0],
            "queue": queue,
            **self._flow(queue),
            "args": msgspec.Raw(b"[%d]" % number),
            "priority": draw.choice(PRIORITIES),
            "ack": COMPLETION if draw.random() < 0.1 else draw.choice(ACKS),
            "max_deliveries": draw.randint(1, 4),
            "store_result": draw.random() < 0.7,
            "result_ttl": draw.choice(RETENTIONS),
            "feeds": draw.random() < 0.5,
            "after": self._dependencies(candidates),
            "enqueued_at": now,
            **self._part(queue),
        }
        if fields["after"] and not self._drops and draw.random() < 0.3:
            fields["run_if"] = draw.choice(CONDITIONS)
        if draw.random() < 0.3:
            fields["timeout"] = draw.choice((0.5, 5.0))
        if draw.random() < 0.2:
            fields["eta"] = now + draw.uniform(0.0, 60.0)
        if draw.random() < 0.3:
            fields["expires_at"] = now + draw.uniform(0.5, draw.choice((8.0, 90.0)))
        if draw.random() < 0.2:
            key, task = draw.choice(list(KEYS.items()))
            fields |= {"key": key, "task": task, "key_ttl": draw.uniform(20.0, 200.0)}
        sealed = seal(Envelope(v=1, **fields), limit=1 << 20)
        data = b"garbage" if draw.random() < 0.02 else sealed.data
        return Sealed(sealed.envelope, data, self._queues[queue].capacity)

    def grown(self, now: float) -> list[Sealed]:
        """What a job adds to its workflow: jobs without a key, which wait for each other alone."""
        grown: list[Sealed] = []
        for _ in range(self._draw.randint(1, 3)):
            sealed = self._job([each.envelope.id for each in grown], now)
            after = tuple(each for each in sealed.envelope.after if each.job != NOWHERE)
            changes = {"key": None, "after": after}
            grown.append(seal(msgspec.structs.replace(sealed.envelope, **changes), limit=1 << 20))
        return grown

    def _part(self, queue: str) -> dict[str, Any]:
        """The workflow that a job belongs to. Who has to make room does not fail fast: whether
        others, which are revoked by that, have to go too, is not said."""
        draw = self._draw
        if draw.random() < 0.6:
            return {}
        fails_fast = draw.random() < 0.3 and not self._queues[queue].drops
        return {"workflow": WORKFLOW, "fail_fast": fails_fast}

    def _flow(self, queue: str) -> dict[str, Any]:
        """The limits of a job of this queue, and whose turn it takes."""
        kind, draw = self._queues[queue], self._draw
        limited = kind.limits and draw.random() < 0.7
        return {
            "limits": draw.choice(LIMITS) if limited else (),
            "fair": draw.choice(TENANTS) if kind.fair else None,
        }

    def _dependencies(self, candidates: Collection[str]) -> tuple[Dependency, ...]:
        draw = self._draw
        if not candidates or draw.random() < 0.7:
            return ()
        chosen = draw.sample(sorted(candidates), min(len(candidates), draw.randint(1, 3)))
        if draw.random() < 0.015:
            chosen.append(NOWHERE)
        places = range(1, len(chosen) + 1)
        return tuple(
            Dependency(name, into=place if draw.random() < 0.5 else None)
            for place, name in zip(places, chosen, strict=True)
        )
