"""The option ``chord`` of a frozen canvas: which chord's body waits for a task.

Programs that freeze a chord themselves find it there. When a canvas is applied nothing depends on
it: who waits for whom is in the workflow.
"""

from __future__ import annotations

from typing import Any

from .signatures import Signature

__all__ = ("_clear_chord_option", "_strip_chord_header_links")


def _clear_chord_option(sig: Any) -> None:
    """Nobody waits for this signature any more; the tasks inside a chord still count for it."""
    sig["options"].pop("chord", None)
    if isinstance(sig, Signature.TYPES["chord"]):
        if sig.body is not None:
            _clear_chord_option(sig.body)
    elif isinstance(sig, Signature.TYPES["chain"]):
        for step in sig.tasks[-1:]:
            _clear_chord_option(step)
    elif isinstance(sig, Signature.TYPES["group"]):
        for task in sig.tasks:
            _clear_chord_option(task)


def _strip_chord_header_links(sig: Any) -> None:
    """No task of a chord says which one it counts for, at any depth: such a signature holds every
    task once, so that it is no larger than what it does."""
    pending = [sig]
    while pending:
        each = pending.pop()
        if isinstance(each, Signature.TYPES["chord"]):
            if each.body is None:
                continue  # it has been given no body yet: nothing counts for one
            pending += [each.tasks] if isinstance(each.tasks, Signature) else each.tasks
            pending.append(each.body)
        elif isinstance(each, (Signature.TYPES["group"], Signature.TYPES["chain"])):
            pending += each.tasks
        if each is not sig:
            each["options"].pop("chord", None)
