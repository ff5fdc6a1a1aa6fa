"""A workflow that was submitted: what was stored of it, how it goes, and what can be done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taskmq import plans
from taskmq.app import App
from taskmq.checks import nearest
from taskmq.control import whoami
from taskmq.demands import refuse_pause
from taskmq.errors import ConfigError, UnknownWorkflow
from taskmq.ids import new_id, origin_of
from taskmq.plans import Plan, PlannedNode
from taskmq.records import JobRecord
from taskmq.result import Result
from taskmq.states import JobState

from .builder import Workflow
from .status import UNFINISHED, WorkflowStatus, jobs_of, status_of

__all__ = ["Plan", "PlannedNode", "WorkflowRun", "store"]


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
        size=len(calls),
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
    plans.save(app.transport, plan)
    try:
        app.submit_many(calls)
    except BaseException:
        plans.drop(app.transport, [id])
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
        """Raises `UnknownWorkflow` for an id that the store does not know."""
        plan = plans.load(app.transport, workflow_id)
        if plan is None:
            raise UnknownWorkflow(
                f"the store knows no workflow {workflow_id} (never stored, or none of its jobs is "
                "left)"
            )
        return cls(app, plan)

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
        return list(jobs_of(self.app.transport, self.id))

    def status(self) -> WorkflowStatus:
        """How it goes: every node's state, attempts and instants, what was added to it, its
        critical path, and how much is done. Reads each of its jobs once, a thousand at a time."""
        return status_of(self.app.transport, self.plan, self.app.clock.now())

    def states(self) -> dict[str, JobState]:
        """The state of each node, by its name; UNKNOWN for one that is past its retention."""
        known = {job.id: job.state for job in self.jobs()}
        return {node.name: known.get(node.id, JobState.UNKNOWN) for node in self.plan.nodes}

    def is_finished(self) -> bool:
        """Whether no job of it runs, or will."""
        return not any(jobs_of(self.app.transport, self.id, UNFINISHED))

    def pause(self, *, reason: str = "", by: str | None = None) -> bool:
        """Let nothing more of it be begun, until `resume`; false if it is paused already, which
        then stays as it is (who, when, why), or has been forgotten.

        From then on no worker takes a job of it from the store: nodes, those of workflows nested
        in it, and what they replace themselves by or add. What runs goes on, is settled and
        retried later; what expires, does. What a worker has fetched and not begun it may begin
        within half a second, and gives back then, uncounted. Raises `ConfigError` where the store
        cannot (`Capabilities.workflow_pauses`).

        >>> run.pause(reason="wrong prices")
        True
        """
        refuse_pause(self.app.store_name, self.app.transport.capabilities)
        by = whoami() if by is None else by
        return self.app.transport.pause_workflow(self.id, by=by, reason=reason)

    def resume(self) -> bool:
        """End a pause: all of it has its place back, and waiting workers take it at once. False if
        it is not paused."""
        refuse_pause(self.app.store_name, self.app.transport.capabilities)
        return self.app.transport.resume_workflow(self.id)

    def cancel(self, *, terminate: bool = False, by: str | None = None) -> int:
        """Revoke all that has not ended; how many jobs that were."""
        return self.app.revoke(workflow=self.id, terminate=terminate, by=by)

    def retry(self, nodes: Sequence[str] = ()) -> int:
        """Replay its dead letters (of these nodes and what they have added, if named): what was
        skipped because of them waits again, and the workflow goes on. How many there were. Raises
        `ConfigError` for a name that is no node of it."""
        names = {node.name: node.id for node in self.plan.nodes}
        for name in nodes:
            if name not in names:
                raise ConfigError(
                    f"workflow {self.plan.name!r} has no node {name!r}{nearest(name, names)}"
                )
        wanted = {names[name] for name in nodes}
        dead = [
            job.id
            for job in jobs_of(self.app.transport, self.id, (JobState.FAILED,))
            if not nodes or origin_of(job.id) in wanted
        ]
        return sum(self.app.transport.replay(dead, {})) if dead else 0
