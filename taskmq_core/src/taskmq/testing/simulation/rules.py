"""What must hold after every step, in words, and the notice of a breach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["RULES", "Rule", "Violation"]

Rule = Literal[
    "answer",
    "counters",
    "dead-letter",
    "dependencies",
    "drain",
    "due",
    "error",
    "expiry",
    "fifo",
    "key",
    "leader",
    "lease",
    "limit",
    "lost",
    "one-holder",
    "pause",
    "priority",
    "room",
    "run",
    "settled",
    "state",
    "turn",
    "wake",
]

RULES: dict[Rule, str] = {
    "answer": "an operation answers what it did",
    "counters": "attempt, deliveries and reclaims are right before the worker sees the delivery",
    "dead-letter": "a dead letter has its payload, a reason and a history",
    "dependencies": "a job runs after those it waits for, with their results, or not at all",
    "drain": "left in peace, every job comes to an end",
    "due": "a job is delivered once it is due and somebody has room, and not before",
    "error": "nothing fails but what was made to fail",
    "expiry": "no job is delivered or started at or after its expiry",
    "fifo": "within one queue and priority, jobs are delivered in the order of their enqueue",
    "key": "within its lifetime, an idempotency key stands for one job",
    "leader": "a named lease has one owner at a time",
    "lease": "a worker keeps the leases of what it has in hand, of all of it and of nothing else",
    "limit": "no limit is exceeded, and nobody is held whom no limit keeps",
    "lost": "every stored job is in exactly one state; none is lost, none made up",
    "one-holder": "at most one live holder of a job at a time",
    "pause": "nothing of a paused queue is delivered",
    "priority": "the most urgent ready job is delivered first",
    "room": "no more jobs wait in a queue than it has room for, and no fewer are let in",
    "run": "a worker runs a delivery at most once, only while it is its own, and says how it went",
    "settled": "a settled job is not delivered again; a settlement takes effect once, if current",
    "state": "states change as the table says, and terminal ones stay",
    "turn": "where jobs have keys, these take turns, by their weights",
    "wake": "whoever sleeps is woken by what comes, or wakes in time for what is due",
}


@dataclass(frozen=True)
class Violation:
    """A rule that was broken, at which step, and by what."""

    rule: Rule
    step: int
    text: str
    job_id: str | None = None

    def __str__(self) -> str:
        return f"step {self.step}: {self.rule} ({RULES[self.rule]}): {self.text}"
