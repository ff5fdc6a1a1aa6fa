"""What kind of simulation a seed gives. Seeds differ in kind, not only in detail: one has no faults
and a crowd of workers, another a single worker, wild clocks and nothing but retries."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["LEASE", "Profile"]

LEASE = 30.0

ACTIONS: Mapping[str, float] = {
    "enqueue": 14,
    "step": 44,
    "pause": 12,
    "wait_until_due": 6,
    "tick": 8,
    "give_back": 4,
    "maintain": 3,
    "start": 3,
    "stop": 1,
    "crash": 2,
    "revoke": 2,
    "replay": 2,
    "forget": 1,
    "bury": 0.5,
    "purge": 0.3,
    "lead": 1,
    "jump": 1.5,
    "set_back": 0.7,
}
NEEDED = frozenset({"enqueue", "step", "start"})

PRELUDES: Mapping[str, float] = {
    # Mostly nothing: a worker that sees many long jobs holds one at a time, and then there is
    # nothing behind them to be recalled, given back, expired or overtaken.
    "nothing": 100,
    "take_long": 15,
    "interleave": 20,
    "heartbeat": 4,
    "publish": 3,
    "be_revoked": 3,
    "be_late": 2,
}
ENDINGS: Mapping[str, float] = {
    "succeed": 60,
    "fail": 14,
    "ask_for_retry": 6,
    "retry_elsewhere": 3,
    "reject": 2,
    "give_back": 4,
    "die": 3,
}


@dataclass(frozen=True)
class Profile:
    """Weights of what happens, and sizes."""

    workers: int
    prefetch: int | None
    batches: tuple[int, ...]
    """How many jobs are enqueued at once."""
    fault_rate: float
    lose_wakeups: float
    actions: Mapping[str, float]
    preludes: Mapping[str, float]
    endings: Mapping[str, float]

    @classmethod
    def of(cls, draw: random.Random) -> Profile:
        """The one that a seed gives."""
        return cls(
            workers=draw.randint(1, 4),
            prefetch=draw.choice((None, None, None, 3)),
            batches=draw.choice(((1, 1, 2, 4), (1, 1, 2, 4), (1, 1, 15))),
            fault_rate=draw.choice((0.0, 0.0, 0.02, 0.1)),
            lose_wakeups=draw.choice((0.0, 0.2)),
            actions=_some(ACTIONS, NEEDED, draw),
            preludes=_some(PRELUDES, {"nothing"}, draw),
            endings=_some(ENDINGS, {"succeed"}, draw),
        )


def _some(
    weights: Mapping[str, float], needed: frozenset[str] | set[str], draw: random.Random
) -> dict[str, float]:
    """Leave a few out, and make some of the others far more, or less, frequent."""
    return {
        name: weight * draw.choice((0.5, 1, 2) if name in needed else (0.1, 0.3, 1, 3))
        for name, weight in weights.items()
        if name in needed or draw.random() < 0.8
    }
