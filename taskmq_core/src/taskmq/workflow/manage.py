"""The workflows of a store, for those who look after them."""

from __future__ import annotations

from taskmq import plans
from taskmq.app import App
from taskmq.plans import Head

from .run import WorkflowRun
from .status import WorkflowState, state_of

__all__ = ["Workflows"]

GIVEN = 20


class Workflows:
    """What was submitted to an app's store and has not been forgotten. Methods raise
    `TransportError`.

    A workflow is known for as long as any of its jobs is: successes by their ``result_ttl``, dead
    letters until they are buried. Then its plan is deleted too, by a worker in passing and by
    `all`.

    >>> for head, state in Workflows(app).all():
    ...     print(head.id, head.name, state)
    """

    def __init__(self, app: App) -> None:
        self._app = app

    def all(
        self, limit: int = GIVEN, *, name: str | None = None
    ) -> list[tuple[Head, WorkflowState]]:
        """The newest ones (with this name), newest first, and how they go."""
        store = self._app.transport
        found: list[Head] = []
        known = [head for head in plans.heads(store) if name is None or head.name == name]
        while known and len(found) < limit:
            page = known[: limit - len(found)]
            known = known[len(page) :]
            gone = plans.prune(store, self._app.clock.now(), page)
            found += [head for head in page if head.id not in gone]
        return list(zip(found, state_of(store, found), strict=True))

    def get(self, workflow_id: str) -> WorkflowRun:
        """The handle of one. Raises `UnknownWorkflow`."""
        return WorkflowRun.find(self._app, workflow_id)

    def prune(self) -> int:
        """Delete the plans of those none of whose jobs is left; how many there were."""
        return len(plans.prune(self._app.transport, self._app.clock.now()))
