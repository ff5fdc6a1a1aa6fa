"""What jobs of a batch have in common is looked at once: those that were made of one pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from taskmq.envelope import Envelope, Sealed

__all__ = ["all_plain", "is_free"]


def is_free(sealed: Sealed) -> bool:
    """Whether a job goes into its queue whatever else is there: it has no key, limit or turn, and
    its queue no capacity."""
    envelope = sealed.envelope
    return not (
        envelope.key is not None
        or envelope.limits
        or envelope.fair is not None
        or sealed.capacity is not None
    )


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
