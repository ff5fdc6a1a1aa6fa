"""Signatures: calls of tasks as values, and how they follow each other.

>>> add.s(2, 2) | mul.s(8)                       # a chain: the second gets what the first gives
>>> group(add.s(i, i) for i in range(10))        # a group: all at the same time
>>> chord([add.s(1, 1), add.s(2, 2)], tsum.s())  # a chord: and one after all of them
>>> add.apply_async((2, 2), link=mul.s(8))

A signature is a dict, and survives serialization as one. A canvas of any depth becomes one workflow
of the engine, stored in one step.
"""

from __future__ import annotations

from .chains import _chain, _fold_chain, _merge_chain_step, chain
from .chords import _chord, _maybe_group, chord
from .counting import _clear_chord_option, _strip_chord_header_links
from .groups import group, maybe_unroll_group
from .mapped import _basemap, chunks, xmap, xstarmap
from .signatures import Signature, maybe_signature, signature, task_name_from
from .stamping import GroupStampingVisitor, StampingVisitor, _merge_dictionaries

__all__ = (
    "Signature",
    "chain",
    "chord",
    "chunks",
    "group",
    "maybe_signature",
    "signature",
    "xmap",
    "xstarmap",
)

subtask = signature
maybe_subtask = maybe_signature
