"""Using an id once more: `replace` and `retry` give the id of a task to another one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from taskmq.states import TERMINAL
from taskmq_celery.engine import engine_for, translated

__all__ = ["make_room"]


def make_room(app: Any, ids: Iterable[str]) -> frozenset[str]:
    """See to it that these ids can be used once more: jobs that are finished are deleted. Gives
    the ids of those that are not."""
    wanted = list(ids)
    if not wanted:
        return frozenset()
    with translated():
        store = engine_for(app).transport
        found = [one for one in store.get(wanted) if one is not None]
        done = [one.id for one in found if one.state in TERMINAL]
        if done:
            store.forget(done)
            store.bury(done)
    return frozenset(one.id for one in found if one.state not in TERMINAL)
