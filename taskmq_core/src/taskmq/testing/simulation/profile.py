"""What kind of simulation a seed gives. Seeds differ in kind, not only in detail: one has no faults
and a crowd of workers, another a single worker, wild clocks and nothing but retries."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from taskmq.limits import Capacity

__all__ = ["LEASE", "QUEUES", "PoolKind", "Profile", "QueueKind"]

LEASE = 30.0
QUEUES = ("a", "b", "c")

PoolKind = Literal["solo", "asyncio", "processes"]

ACTIONS: Mapping[str, float] = {
    "enqueue": 14,
    "step": 40,
    "slots": 24,
    "wait": 12,
    "wait_until_due": 6,
    "tick": 8,
    "give_back": 4,
    "maintain": 3,
    "start": 3,
    "stop": 1,
    "crash": 3,
    "stall": 1.5,
    "take_over": 3,
    "revoke": 3,
    "replay": 2,
    "forget": 1,
    "bury": 0.5,
    "purge": 0.3,
    "pause": 1.5,
    "resume": 2.5,
    "lead": 1,
    "jump": 1.5,
    "set_back": 0.7,
}
NEEDED = frozenset({"enqueue", "step", "slots", "start", "resume"})

PRELUDES: Mapping[str, float] = {
    # Mostly nothing: a worker that sees many long jobs holds one at a time, and then there is
    # nothing behind them to be recalled, given back, expired or overtaken.
    "nothing": 60,
    "take_long": 15,
    "interleave": 20,
    "heartbeat": 4,
    "publish": 3,
    "be_revoked": 3,
    "be_late": 2,
}
ENDINGS: Mapping[str, float] = {
    "succeed": 60,
    "spawn": 5,
    "delegate": 5,
    "fail": 14,
    "ask_for_retry": 6,
    "retry_elsewhere": 3,
    "reject": 2,
    "give_back": 4,
    "die": 3,
    "soft_limit": 5,
    "hard_limit": 5,
    "child_lost": 5,
}
EVERYWHERE = frozenset(ENDINGS) - {"soft_limit", "hard_limit", "child_lost"}
ENDINGS_OF: Mapping[PoolKind, frozenset[str]] = {
    "solo": EVERYWHERE,
    "asyncio": EVERYWHERE | {"soft_limit"},
    "processes": frozenset(ENDINGS) - {"die"},
}
"""``die`` is the end of a worker, in a task; where tasks have processes of their own, it is that
of a child."""


POOLS: tuple[tuple[PoolKind, ...], ...] = (
    ("solo",),
    ("asyncio",),
    ("processes",),
    ("solo", "processes"),
    ("asyncio", "processes"),
)


@dataclass(frozen=True)
class QueueKind:
    """What the jobs of one queue bring along."""

    limits: bool = False
    fair: bool = False
    capacity: Capacity | None = None

    @property
    def drops(self) -> bool:
        """Whether jobs have to make room for others."""
        return self.capacity is not None and self.capacity.overflow == "drop_oldest"


KINDS = (
    QueueKind(),
    QueueKind(),
    QueueKind(limits=True),
    QueueKind(fair=True),
    QueueKind(limits=True, fair=True),
    QueueKind(capacity=Capacity(4)),
    QueueKind(limits=True, capacity=Capacity(6)),
    # Who is the oldest where jobs are held or take turns, is not said: it has nothing else.
    QueueKind(capacity=Capacity(5, "drop_oldest")),
)


@dataclass(frozen=True)
class Profile:
    """Weights of what happens, and sizes."""

    workers: int
    pools: tuple[PoolKind, ...]
    slots: int
    prefetch: int | None
    quota: int | None
    """How many jobs of queue ``a`` a worker may hold."""
    batches: tuple[int, ...]
    """How many jobs are enqueued at once."""
    queues: Mapping[str, QueueKind]
    fault_rate: float
    listens: bool
    """Workers are woken by the store; otherwise by chance."""
    lose_wakeups: float
    actions: Mapping[str, float]
    preludes: Mapping[str, float]
    endings: Mapping[str, float]

    @classmethod
    def of(cls, draw: random.Random) -> Profile:
        """The one that a seed gives."""
        return cls(
            workers=draw.randint(1, 4),
            pools=draw.choice(POOLS),
            slots=draw.randint(1, 4),
            prefetch=draw.choice((None, None, None, 3)),
            quota=draw.choice((None, None, None, 1, 2)),
            batches=draw.choice(((1, 1, 2, 4), (1, 1, 2, 4), (1, 1, 15))),
            queues={queue: draw.choice(KINDS) for queue in QUEUES},
            fault_rate=draw.choice((0.0, 0.0, 0.02, 0.1)),
            listens=draw.random() < 0.4,
            lose_wakeups=draw.choice((0.0, 0.2)),
            actions=_some(ACTIONS, NEEDED, draw),
            preludes=_some(PRELUDES, {"nothing"}, draw),
            endings=_some(ENDINGS, {"succeed"}, draw),
        )

    def endings_in(self, pool: PoolKind) -> dict[str, float]:
        """How tasks end in a pool of this kind."""
        possible = ENDINGS_OF[pool]
        return {name: weight for name, weight in self.endings.items() if name in possible}


def _some(
    weights: Mapping[str, float], needed: frozenset[str] | set[str], draw: random.Random
) -> dict[str, float]:
    """Leave a few out, and make some of the others far more, or less, frequent."""
    return {
        name: weight * draw.choice((0.5, 1, 2) if name in needed else (0.1, 0.3, 1, 3))
        for name, weight in weights.items()
        if name in needed or draw.random() < 0.8
    }
