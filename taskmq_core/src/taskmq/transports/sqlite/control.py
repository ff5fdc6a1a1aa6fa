"""What people decided about queues and workflows: which are paused."""

from __future__ import annotations

from sqlite3 import Connection

import msgspec

from taskmq.records import PausedQueue, PausedWorkflow
from taskmq.transport import Reservation
from taskmq.transports._gates import pause_gate

from .statements import CONTROL as SQL
from .statements import GATES

__all__ = [
    "any_paused_workflow",
    "pause",
    "pause_workflow",
    "paused",
    "paused_workflows",
    "respect_pauses",
    "resume",
    "resume_workflow",
]


def pause(connection: Connection, wanted: PausedQueue) -> bool:
    """See `taskmq.transport.QueueControl.pause`."""
    values = (wanted.queue, wanted.by, wanted.paused_at, wanted.reason)
    return connection.execute(SQL["pause"], values).rowcount == 1


def resume(connection: Connection, queue: str) -> bool:
    """See `taskmq.transport.QueueControl.resume`."""
    return connection.execute(SQL["resume"], (queue,)).rowcount == 1


def paused(connection: Connection) -> list[PausedQueue]:
    """See `taskmq.transport.QueueControl.paused`."""
    return [
        PausedQueue(queue=queue, by=by, paused_at=at, reason=reason)
        for queue, by, at, reason in connection.execute(SQL["paused"]).fetchall()
    ]


def respect_pauses(connection: Connection, wanted: Reservation) -> Reservation:
    """The same, with a quota of 0 for the queues that are paused."""
    rows = connection.execute(SQL["names"]).fetchall()
    if not rows:
        return wanted
    quotas = {**wanted.quotas, **dict.fromkeys((queue for (queue,) in rows), 0)}
    return msgspec.structs.replace(wanted, quotas=quotas)


def pause_workflow(connection: Connection, wanted: PausedWorkflow) -> bool:
    """See `taskmq.transport.WorkflowControl.pause_workflow`."""
    values = {
        "workflow": wanted.workflow,
        "by": wanted.by,
        "at": wanted.paused_at,
        "reason": wanted.reason,
    }
    return connection.execute(SQL["pause_workflow"], values).rowcount == 1


def resume_workflow(connection: Connection, workflow: str) -> bool:
    """See `taskmq.transport.WorkflowControl.resume_workflow`."""
    if connection.execute(SQL["resume_workflow"], (workflow,)).rowcount < 1:
        return False
    connection.execute(GATES["open"], (pause_gate(workflow),))
    return True


def paused_workflows(connection: Connection) -> list[PausedWorkflow]:
    """See `taskmq.transport.WorkflowControl.paused_workflows`."""
    return [
        PausedWorkflow(workflow=workflow, by=by, paused_at=at, reason=reason)
        for workflow, by, at, reason in connection.execute(SQL["paused_workflows"]).fetchall()
    ]


def any_paused_workflow(connection: Connection) -> bool:
    """Whether jobs have to be looked at before they are leased."""
    return bool(connection.execute(SQL["any_paused_workflow"]).fetchone()[0])
