"""What the envelopes of a batch have in common is stored once, apart from its jobs. Their rows are
shorter so, and each change of a job writes its row anew.

Such an envelope is ``head``, the job's id, ``middle``, what is its own, and ``tail``. They are
found and compared byte by byte: what comes back is what was given, whoever has made it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from taskmq.envelope import Envelope

from .rows import json_of_numbers
from .statements import ENQUEUE
from .statements import RESERVE as SQL

__all__ = ["FEWEST", "Pattern", "split", "store", "whole"]

FEWEST = 16
"""From so many jobs on it is worth it: a pattern is a page more for the commit."""
LOST = b"", b"", b""
_first = itemgetter(0)
ARGS, KWARGS = b'"args":', b',"kwargs":'


class Pattern(NamedTuple):
    """What is before the id, between it and what is a job's own (its arguments), and behind."""

    head: bytes
    middle: bytes
    tail: bytes


def split(
    first: Envelope, ids: Sequence[str], envelopes: Sequence[bytes]
) -> tuple[Pattern, list[bytes]] | None:
    """The pattern of some envelopes, and what each has of its own. ``None`` if they have none;
    ``first`` is the one that it is looked for in."""
    names = [job_id.encode() for job_id in ids]
    pattern = _pattern_of(first, names[0], envelopes[0])
    if pattern is None:
        return None
    head, middle, tail = pattern
    start, behind = len(head) + len(names[0]) + len(middle), len(tail)
    own = [data[start : len(data) - behind] for data in envelopes]
    # All at once. Put together again, none is shorter than it was: if all are equal, each is.
    again = [head, b"", middle, b"", tail] * len(own)
    again[1::5], again[3::5] = names, own
    return (pattern, own) if b"".join(again) == b"".join(envelopes) else None


def _pattern_of(first: Envelope, name: bytes, data: bytes) -> Pattern | None:
    found = data.find(name)
    if found < 0:
        return None
    behind_id = found + len(name)
    start = data.find(ARGS, behind_id) + len(ARGS)
    if start < len(ARGS):  # it has no arguments
        return Pattern(data[:found], data[behind_id:], b"")
    end = start + len(bytes(first.args))
    if data.startswith(KWARGS, end):
        end += len(KWARGS) + len(bytes(first.kwargs))
    return Pattern(data[:found], data[behind_id:start], data[end:])


def store(connection: sqlite3.Connection, seq: int, count: int, pattern: Pattern) -> None:
    """Keep the pattern of so many jobs, the first of which is at that place."""
    connection.execute(ENQUEUE["insert_pattern"], (seq, seq + count - 1, *pattern))


def whole(
    connection: sqlite3.Connection, parts: Sequence[tuple[int | None, str, bytes]]
) -> list[bytes]:
    """The envelopes of jobs. Of each is given where its pattern is, if it has one, its id, and what
    is in its row. One whose pattern is lost is no envelope, as its worker will find."""
    seqs = {seq for seq, _, _ in parts if seq is not None}
    if not seqs:
        return [own for _, _, own in parts]
    rows = connection.execute(SQL["patterns"], (json_of_numbers(seqs),)).fetchall()
    patterns = {seq: (head, middle, tail) for seq, head, middle, tail in rows}
    envelopes: list[bytes] = []
    for seq, group in groupby(parts, _first):
        if seq is None:
            envelopes += [own for _, _, own in group]
        else:
            head, middle, tail = patterns.get(seq, LOST)
            envelopes += [
                b"".join((head, job_id.encode(), middle, own, tail)) for _, job_id, own in group
            ]
    return envelopes
