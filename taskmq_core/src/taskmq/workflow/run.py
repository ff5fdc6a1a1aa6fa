"""A workflow that was submitted: what was stored of it, how it goes, and what can be done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from taskmq.app import App
from taskmq.documents import DocumentChange
from taskmq.errors import ConfigError
from taskmq.ids import new_id
from taskmq.records import JobFilter, JobRecord
from taskmq.result import Result
from taskmq.states import TERMINAL, JobState

from .builder import Workflow

__all__ = ["KIND", "Plan", "PlannedNode", "WorkflowRun", "store"]

KIND = "workflow"
"""Of the documents that plans are kept in."""
PAGE = 1000
"""Jobs that are looked at in one round trip."""


class PlannedNode(msgspec.Struct, frozen=True, array_like=True):
    """A job of a plan, its name for people, its task, and what it waits for (positions)."""

    id: str
    name: str
    task: str
    after: tuple[int, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The graph as it was submitted. What jobs added to it later is found by the workflow's id."""

    id: str
    name: str
    created_at: float
    result: str
    """The job whose result is the workflow's."""
    nodes: tuple[PlannedNode, ...]


def store(workflow: Workflow, app: App) -> WorkflowRun:
    """See `Workflow.submit`. The plan first: should the jobs not be stored, it is of no use, and
    does no harm."""
    id = new_id()
    calls, result = workflow.expand(id)
    places = {node: place for place, node in enumerate(workflow.nodes)}
    plan = Plan(
        id=id,
        name=workflow.name,
        created_at=app.clock.now(),
        result=result,
        nodes=tuple(
            PlannedNode(
                str(call.id),
                node.name,
                call.task.name,
                tuple(places[source] for source in node.sources()),
            )
            for node, call in zip(workflow.nodes, calls, strict=True)
        ),
    )
    revision = new_id()
    change = DocumentChange(
        kind=KIND, name=id, data=msgspec.json.encode(plan), revision=revision, expected=None
    )
    app.transport.write([change])
    try:
        app.submit_many(calls)
    except BaseException:
        app.transport.write([msgspec.structs.replace(change, data=None, expected=revision)])
        raise
    return WorkflowRun(app, plan)


class WorkflowRun:
    """The handle of a workflow. All methods raise `TransportError`.

    >>> run = flow.submit()
    >>> run.get(timeout=60)
    >>> WorkflowRun.find(app, run.id).states()
    """

    def __init__(self, app: App, plan: Plan) -> None:
        self.app = app
        self.plan = plan

    @classmethod
    def find(cls, app: App, workflow_id: str) -> WorkflowRun:
        """Raises `ConfigError` for an id that the store does not know."""
        for document in app.transport.documents(KIND, [workflow_id]):
            return cls(app, msgspec.json.decode(document.data, type=Plan))
        raise ConfigError(f"there is no workflow {workflow_id!r}")

    @property
    def id(self) -> str:
        return self.plan.id

    @property
    def result(self) -> Result[Any]:
        """The handle of the job whose result is the workflow's."""
        return self.app.result(self.plan.result)

    def get(self, timeout: float | None = None) -> Any:
        """Wait for the result; as `Result.get`."""
        return self.result.get(timeout)

    async def aget(self, timeout: float | None = None) -> Any:
        """`get` for asyncio callers."""
        return await self.result.aget(timeout)

    def jobs(self) -> list[JobRecord]:
        """Every job of it that is stored, added ones included, in store order."""
        found: list[JobRecord] = []
        while True:
            after = found[-1].id if found else None
            page = self.app.transport.find(JobFilter(workflow=self.id, after=after, limit=PAGE))
            found += page
            if len(page) < PAGE:
                return found

    def states(self) -> dict[str, JobState]:
        """The state of each node, by its name; UNKNOWN for one that is past its retention."""
        known = {job.id: job.state for job in self.jobs()}
        return {node.name: known.get(node.id, JobState.UNKNOWN) for node in self.plan.nodes}

    def is_finished(self) -> bool:
        """Whether no job of it runs, or will."""
        return all(job.state in TERMINAL for job in self.jobs())

    def cancel(self, *, terminate: bool = False, by: str | None = None) -> int:
        """Revoke all that has not ended; how many jobs that were."""
        return self.app.revoke(workflow=self.id, terminate=terminate, by=by)

    def retry(self, nodes: Sequence[str] = ()) -> int:
        """Replay its dead letters (of these nodes, if named): what was skipped because of them
        waits again, and the workflow goes on. How many there were. Raises `ConfigError` for a
        name that is no node of it."""
        names = {node.name: node.id for node in self.plan.nodes}
        for name in nodes:
            if name not in names:
                raise ConfigError(f"workflow {self.plan.name!r} has no node {name!r}")
        wanted = {names[name] for name in nodes}
        dead = [
            job.id
            for job in self.jobs()
            if job.state is JobState.FAILED and (not nodes or job.id in wanted)
        ]
        return sum(self.app.transport.replay(dead, {})) if dead else 0
