"""Children that are forks of the nursery."""

from __future__ import annotations

import os
from typing import NoReturn

from .child import Child
from .nursery import Fds, Fork
from .parentage import die_with_parent
from .site import Site

__all__ = ["forking"]


def forking(site: Site) -> Fork:
    """Makes children that are forks of this process."""
    parent = os.getpid()

    def live(fds: Fds) -> NoReturn:
        die_with_parent(parent)
        Child(fds, site).live()

    return Fork(live)
