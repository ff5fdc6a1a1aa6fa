"""What has to happen in a child after ``os.fork()``: connections are the parent's, threads are not
there, and locks may be held by those threads.

Fork hooks are a matter of the process and cannot be taken back, hence the state of this module.
"""

from __future__ import annotations

import functools
import os
import weakref
from typing import Protocol

__all__ = ["Renewable", "watch"]


class Renewable(Protocol):
    def renew(self) -> None:
        """Begin anew: no other thread exists."""


_watched: weakref.WeakSet[Renewable] = weakref.WeakSet()


def watch(subject: Renewable) -> None:
    """Renew ``subject`` in every child, for as long as it lives."""
    _install()
    _watched.add(subject)


@functools.cache
def _install() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_renew)


def _renew() -> None:
    for subject in list(_watched):
        subject.renew()
