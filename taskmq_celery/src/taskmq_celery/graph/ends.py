"""What a part of a canvas ends with, and what waits for that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

__all__ = ["End", "Many", "One", "Source", "as_tuple", "leaves", "nothing_of", "waited_for"]


class One(NamedTuple):
    """The end of a part of a canvas: a task."""

    job: str


class Many(NamedTuple):
    """The end of a part of a canvas: the tasks of a group, and its id."""

    group: str
    ends: tuple[One | Many, ...]
    behind: tuple[str, ...] = ()
    """Of a group without tasks, the jobs that what comes next waits for instead."""
    before: tuple[str, ...] = ()
    """Jobs that had to succeed for it to start."""


End = One | Many


@dataclass(frozen=True, slots=True)
class Source:
    """What a task waits for."""

    end: End
    joins: bool = False
    """Whether that is a group: then what is lost there is a `ChordError` here."""
    spread: bool = False
    """Whether what waits is a group as well: then its tasks have the error of the lost one."""
    before: tuple[str, ...] = ()
    """Jobs that had to succeed for the group to start: if one of these is lost, the group did not
    fail, it never was."""
    needed: tuple[str, ...] = ()
    """Behind a header without tasks, the jobs that had to succeed for the group before to start."""
    behind_group: bool = False
    """Whether a header without tasks is behind a group."""
    in_order: bool = False
    """Whether nothing is handed over."""
    within: bool = False
    """Whether a group that waits for one is around all of this: where the header before never
    started, it is the error of what kept that group from running."""

    @classmethod
    def of(cls, end: End) -> Source:
        if isinstance(end, One):
            return cls(end)
        return cls(end, joins=True, before=end.behind or end.before)

    def without_header(self, above: End) -> Source:
        """What the body of a chord without a header waits for: what is ``above`` the chord."""
        return replace(
            self, end=above, joins=self.behind_group, before=self.needed, needed=(), in_order=True
        )


def leaves(end: End) -> tuple[str, ...]:
    if isinstance(end, One):
        return (end.job,)
    return tuple(leaf for one in end.ends for leaf in leaves(one))


def waited_for(end: End) -> tuple[str, ...]:
    """Its tasks; of a group without any, what comes next waits for others."""
    if isinstance(end, One):
        return (end.job,)
    return leaves(end) or (*end.behind, *(job for one in end.ends for job in waited_for(one)))


def nothing_of(end: End) -> list[Any] | None:
    """What a group without tasks gives, or one of such groups that wait for nothing."""
    if isinstance(end, One) or (end.ends and end.behind):
        return None
    found = [nothing_of(one) for one in end.ends]
    waiting = any(isinstance(one, Many) and one.behind for one in end.ends)
    return None if waiting or None in found else found


def as_tuple(end: End) -> Any:
    """As `celery.result.result_from_tuple` reads it."""
    if isinstance(end, One):
        return [[end.job, None], None]
    return [[end.group, None], [as_tuple(one) for one in end.ends]]
