"""What has to happen around ``os.fork()``.

SQLite must not be carried over a fork: a child that uses or even closes its parent's connection
breaks the parent's locks, and one that opens the same file inherits SQLite's private notes about
locks it does not hold. So connections are closed before the fork, and each side opens its own when
it needs one. https://www.sqlite.org/howtocorrupt.html (2.7)

Fork hooks are a matter of the process and cannot be taken back, hence the state of this module:
one set of hooks, installed when the first store is opened, over whatever is alive.
"""

from __future__ import annotations

import functools
import os
import weakref
from typing import Protocol

__all__ = ["ForkAware", "watch"]


class ForkAware(Protocol):
    def before_fork(self) -> None:
        """Let go of what must not exist twice, and keep other threads out."""

    def after_fork_in_parent(self) -> None:
        """Let other threads in again."""

    def after_fork_in_child(self) -> None:
        """Begin anew: no other thread exists. Also called when ``before_fork`` was not, by
        programs that fork in C."""


_watched: weakref.WeakSet[ForkAware] = weakref.WeakSet()
_prepared: list[ForkAware] = []


def watch(subject: ForkAware) -> None:
    """Tell ``subject`` about forks for as long as it lives."""
    _install()
    _watched.add(subject)


@functools.cache
def _install() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
        )


def _before() -> None:
    for subject in list(_watched):
        subject.before_fork()
        _prepared.append(subject)


def _after_in_parent() -> None:
    while _prepared:
        _prepared.pop().after_fork_in_parent()


def _after_in_child() -> None:
    _prepared.clear()
    for subject in list(_watched):
        subject.after_fork_in_child()
