"""What the real Celery did with a few hundred canvases: a line of JSON for each.

``python -m tests.differential --record 300`` makes the file anew.
"""

from __future__ import annotations

import json
from pathlib import Path

from .canvases import Canvas
from .observed import Outcome

FILE = Path(__file__).with_name("recorded.jsonl")
CHOSEN = Path(__file__).with_name("chosen.jsonl")
"""Canvases that once showed a fault, and others that are to be there: a line for each."""
LONGEST = 700
"""Characters of a canvas that is recorded."""

Recorded = tuple[Canvas, Outcome]


def chosen() -> list[Canvas]:
    return [json.loads(line) for line in CHOSEN.read_text().splitlines()]


def load() -> list[Recorded]:
    return [(each["canvas"], each["outcome"]) for each in map(json.loads, _lines())]


def _lines() -> list[str]:
    return FILE.read_text().splitlines()


def save(found: list[Recorded]) -> None:
    lines = [json.dumps({"canvas": canvas, "outcome": outcome}) for canvas, outcome in found]
    FILE.write_text("".join(f"{line}\n" for line in lines))
