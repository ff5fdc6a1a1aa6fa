"""Stamps: headers that a visitor puts on every task of a canvas, and that stay with them."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Mapping
from typing import Any

__all__ = ("GroupStampingVisitor", "StampingVisitor", "merged_stamps")

NAMES = "stamped_headers"
"""The header that says which of the others are stamps."""


class StampingVisitor(metaclass=ABCMeta):
    """Says which stamps the tasks of a canvas get: `Signature.stamp` calls these methods, and
    takes the dict that each gives as headers.

    Without an item ``stamped_headers`` in it, all of the dict are stamps.
    """

    @abstractmethod
    def on_signature(self, sig: Any, **headers: Any) -> dict[str, Any]:
        """For every task, and for every canvas around tasks."""

    def on_group_start(self, sig: Any, **headers: Any) -> dict[str, Any]:
        """For a group, before its tasks: what it gives, they get too."""
        return {}

    def on_group_end(self, sig: Any, **headers: Any) -> None:  # noqa: B027  # need not be there
        """For a group, after its tasks."""

    def on_chain_start(self, sig: Any, **headers: Any) -> dict[str, Any]:
        """For a chain, before its tasks."""
        return {}

    def on_chain_end(self, sig: Any, **headers: Any) -> None:  # noqa: B027  # need not be there
        """For a chain, after its tasks."""

    def on_chord_header_start(self, sig: Any, **header: Any) -> dict[str, Any]:
        """For the header of a chord, before its tasks: as for a group, unless overridden."""
        group = type(sig).TYPES["group"]
        if not isinstance(sig.tasks, group):
            sig.tasks = group(sig.tasks)
        return self.on_group_start(sig.tasks, **header)

    def on_chord_header_end(self, sig: Any, **header: Any) -> None:
        """For the header of a chord, after its tasks."""
        self.on_group_end(sig.tasks, **header)

    def on_chord_body(self, sig: Any, **header: Any) -> dict[str, Any]:
        """For the body of a chord."""
        return {}

    def on_callback(self, callback: Any, **header: Any) -> dict[str, Any]:
        """For a signature that is linked."""
        return {}

    def on_errback(self, errback: Any, **header: Any) -> dict[str, Any]:
        """For a signature that is linked for errors."""
        return {}


class GroupStampingVisitor(StampingVisitor):
    """Stamps every task with the ids of the groups that it is in, as ``groups``."""

    def __init__(self, groups: list[str] | None = None, stamped_headers: Any = None) -> None:
        self.groups = groups or []
        self.stamped_headers = stamped_headers or []
        if "groups" not in self.stamped_headers:
            self.stamped_headers.append("groups")

    def on_signature(self, sig: Any, **headers: Any) -> dict[str, Any]:
        return {"groups": list(self.groups), NAMES: list(self.stamped_headers)}

    def on_group_start(self, sig: Any, **headers: Any) -> dict[str, Any]:
        if sig.id is None:
            sig.freeze()
        if sig.id not in self.groups:
            self.groups.append(sig.id)
        return super().on_group_start(sig, **headers)

    def on_group_end(self, sig: Any, **headers: Any) -> None:
        self.groups.pop()
        super().on_group_end(sig, **headers)


def merged_stamps(
    headers: Mapping[str, Any],
    said: Mapping[str, Any] | None,
    own: Mapping[str, Any] | None,
    append: bool,
) -> dict[str, Any]:
    """Headers to be set on a signature: those that came down to it, then what a visitor ``said``
    of it, then the stamps among its ``own`` options. The first to have a stamp decides, or with
    ``append`` all are kept."""
    merged = {NAMES: list(headers), **headers}  # without names, all of them are stamps
    if said is not None:
        said = {**said, NAMES: said.get(NAMES, list(said))}
        _merge_dictionaries(merged, said, aggregate_duplicates=append)
        merged[NAMES] = list(set(merged[NAMES]))
    if own is not None:
        names = {*(merged.get(NAMES) or ()), *(own.get(NAMES) or ())}
        stamps = {name: own[name] for name in own if name in names and name != NAMES}
        _merge_dictionaries(merged, stamps, aggregate_duplicates=append)
        merged[NAMES] = list(names)
    return merged


def _merge_dictionaries(
    d1: dict[str, Any] | None, d2: Mapping[str, Any] | None, aggregate_duplicates: bool = True
) -> None:
    """Put ``d2`` into ``d1``. Of what both have, dicts are merged and lists are put together; of
    other values, the first stays, or with ``aggregate_duplicates`` both do, as a list."""
    for name, value in (d2 or {}).items():
        if d1 is None:
            return
        if name not in d1:
            d1[name] = value
            continue
        known = d1[name]
        if known is None:
            d1[name] = [value]
            continue
        if isinstance(known, dict) and isinstance(value, Mapping):
            _merge_dictionaries(known, value, aggregate_duplicates)
        elif isinstance(known, (list, set, tuple)) or isinstance(value, (list, set, tuple)):
            if aggregate_duplicates or name == NAMES:
                d1[name] = [*_as_list(known), *_as_list(value)]
        elif aggregate_duplicates and known != value:
            d1[name] = [known, value]


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, set, tuple)) else [value]
