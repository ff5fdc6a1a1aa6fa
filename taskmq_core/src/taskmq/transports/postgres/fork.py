"""Tells stores that they are in a child process: a connection serves one side of a fork only."""

from __future__ import annotations

import functools
import os
import weakref
from typing import Protocol

__all__ = ["ForkAware", "watch"]


class ForkAware(Protocol):
    def after_fork_in_child(self) -> None:
        """Begin anew: no other thread exists, and every connection is the parent's."""


_watched: weakref.WeakSet[ForkAware] = weakref.WeakSet()


def watch(subject: ForkAware) -> None:
    """Tell ``subject`` about forks for as long as it lives."""
    _install()
    _watched.add(subject)


@functools.cache
def _install() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_in_child)


def _after_in_child() -> None:
    for subject in list(_watched):
        subject.after_fork_in_child()
