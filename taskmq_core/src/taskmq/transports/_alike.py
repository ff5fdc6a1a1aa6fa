"""What jobs of a batch have in common is looked at once: those that were made of one pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from taskmq.envelope import Envelope, Sealed

__all__ = ["all_plain"]


def all_plain(batch: Iterable[Sealed], is_plain: Callable[[Sealed], bool]) -> bool:
    """Whether no job waits for others and ``is_plain`` holds, which goes by the pattern alone."""
    seen: Envelope | None = None
    for sealed in batch:
        if sealed.envelope.after:
            return False
        if sealed.pattern is None or sealed.pattern is not seen:
            if not is_plain(sealed):
                return False
            seen = sealed.pattern
    return True
