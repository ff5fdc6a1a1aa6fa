"""What processes have used, as Linux tells it. Stdlib only: contestants run it in environments of
their own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
GONE = (FileNotFoundError, ProcessLookupError)


def family(pid: int) -> Iterator[int]:
    """A process and all its descendants that live."""
    yield pid
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = file.read_text().split()
        except GONE:
            continue
        for child in children:
            yield from family(int(child))


def cpu_seconds(pids: Iterable[int]) -> float:
    """Of these processes and their descendants, those that have ended included."""
    ticks = 0
    for pid in {member for root in pids for member in family(root)}:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except GONE:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / TICKS


def running_seconds(pid: int) -> float:
    """Of the first threads of a process and its descendants, to the nanosecond; of those that have
    ended, nothing."""
    nanoseconds = 0
    for process in family(pid):
        try:
            nanoseconds += int(Path(f"/proc/{process}/schedstat").read_text().split()[0])
        except GONE:
            continue
    return nanoseconds / 1e9


def resident_bytes(pid: int) -> int:
    """Of a process and all its descendants. Pages that they share count for each of them."""
    pages = 0
    for process in family(pid):
        try:
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
        except GONE:
            continue
    return pages * PAGE


def proportional_bytes(pids: Iterable[int]) -> int:
    """Of these processes and their descendants; a page that several share counts once in all."""
    found = 0
    for pid in {member for root in pids for member in family(root)}:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except (*GONE, PermissionError):
            continue
        found += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return found
