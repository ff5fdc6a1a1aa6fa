"""Job ids: ULIDs (https://github.com/ulid/spec), 26 characters, sortable by creation time.

Behind the milliseconds a process counts, from a random number of 47 bits that it draws when it
starts, and again in every forked child; the last 32 bits are random for each id. So ids of one
process ascend even within a millisecond, and a batch of jobs touches few pages of an index. FIFO
order is the store's own sequence and never depends on them.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Iterator

__all__ = [
    "ULID_LENGTH",
    "new_id",
    "new_ids",
    "offspring_id",
    "origin_of",
    "random_bits",
    "timestamp_of",
]

ULID_LENGTH = 26
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

# Two characters at a time: 13 look-ups instead of 26 for each id.
_PAIRS = tuple(high + low for high in ALPHABET for low in ALPHABET)
_VALUES = {character: value for value, character in enumerate(ALPHABET)}
FEW = 4
"""Fewer ids than that are not worth the spelling of what they have in common."""

_random = random.Random()
random_bits = _random.getrandbits
"""So many random bits as a number, others in every process, without asking the system for them. Not
for secrets."""
_count: Iterator[int] = itertools.count()


def _begin() -> None:
    global _count
    _random.seed(os.urandom(32))
    _count = itertools.count(_random.getrandbits(47))


_begin()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin)


def new_id(at: float | None = None) -> str:
    """A new ULID, stamped ``at`` (epoch seconds; now if not given).

    >>> len(new_id())
    26
    """
    milliseconds = int((time.time() if at is None else at) * 1000)
    return _text(milliseconds << 80 | next(_count) << 32 | _random.getrandbits(32))


def new_ids(at: float, count: int) -> list[str]:
    """So many new ULIDs, ascending; what they have in common is spelled once.

    >>> len(new_ids(1.0, 500))
    500
    """
    milliseconds = int(at * 1000)
    numbers = list(itertools.islice(_count, count))
    chance = memoryview(_random.randbytes(4 * count)).cast("I")
    if count < FEW or numbers[0] >> 18 != numbers[-1] >> 18:
        return [
            _text(milliseconds << 80 | number << 32 | bits)
            for number, bits in zip(numbers, chance, strict=True)
        ]
    head, p = _text(milliseconds << 80 | numbers[0] << 32)[:16], _PAIRS
    return [
        f"{head}{p[n >> 40]}{p[n >> 30 & 1023]}{p[n >> 20 & 1023]}{p[n >> 10 & 1023]}{p[n & 1023]}"
        for n in [
            (number & 0x3FFFF) << 32 | bits for number, bits in zip(numbers, chance, strict=True)
        ]
    ]


def _text(n: int) -> str:
    p = _PAIRS
    return (
        f"{p[n >> 120 & 1023]}{p[n >> 110 & 1023]}{p[n >> 100 & 1023]}{p[n >> 90 & 1023]}"
        f"{p[n >> 80 & 1023]}{p[n >> 70 & 1023]}{p[n >> 60 & 1023]}{p[n >> 50 & 1023]}"
        f"{p[n >> 40 & 1023]}{p[n >> 30 & 1023]}{p[n >> 20 & 1023]}{p[n >> 10 & 1023]}{p[n & 1023]}"
    )


def offspring_id(origin: str, own: str) -> str:
    """The id of a job that another one adds to its workflow: that of the node that all of them go
    back to, a dot, and a ULID of its own. It does not grow from one generation to the next.

    >>> offspring_id("report", "01HF7YAT00P1RHENHKJCXP1W2M")
    'report.01HF7YAT00P1RHENHKJCXP1W2M'
    >>> offspring_id("report.01HF7YAT00P1RHENHKJCXP1W2M", "01HF7YAT01DQN4TMYDXQKHCPX7")
    'report.01HF7YAT01DQN4TMYDXQKHCPX7'
    """
    return f"{origin_of(origin)}.{own}"


def origin_of(job_id: str) -> str:
    """The node that a job goes back to which another one has added; the job's own id otherwise."""
    origin, dot, own = job_id.rpartition(".")
    return origin if dot and len(own) == ULID_LENGTH else job_id


def timestamp_of(job_id: str) -> float:
    """Epoch seconds at which a ULID was made. Raises ``ValueError`` if it is none."""
    if len(job_id) != ULID_LENGTH:
        raise ValueError(f"not a ULID: {job_id!r} (wants {ULID_LENGTH} characters)")
    value = 0
    for character in job_id[:10]:
        if character not in _VALUES:
            raise ValueError(f"not a ULID: {job_id!r} (bad character {character!r})")
        value = value << 5 | _VALUES[character]
    return value / 1000
