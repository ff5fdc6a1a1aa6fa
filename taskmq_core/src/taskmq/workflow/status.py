"""How a workflow goes: its state, every node's, and what it spends its time on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum

import msgspec

from taskmq.control import paused_workflows
from taskmq.ids import origin_of
from taskmq.plans import PAGE, Head, Plan, PlannedNode
from taskmq.records import JobFilter, JobRecord, PausedWorkflow
from taskmq.states import TERMINAL, JobState
from taskmq.transport import Transport

__all__ = [
    "Leg",
    "NodeStatus",
    "WorkflowState",
    "WorkflowStatus",
    "jobs_of",
    "state_of",
    "status_of",
]

UNFINISHED = tuple(s for s in JobState if s not in TERMINAL and s is not JobState.UNKNOWN)
BROKEN = (JobState.FAILED, JobState.EXPIRED)


class WorkflowState(str, Enum):
    """RUNNING while a job of it runs or will, or PAUSED, if no more of it is begun; what runs may
    still run then. After that as the job whose result is the workflow's;
    where that was skipped: FAILED if a job of it failed or expired, REVOKED otherwise. UNKNOWN if
    the store has forgotten that job."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    REVOKED = "REVOKED"
    UNKNOWN = "UNKNOWN"

    def __str__(self) -> str:
        return self.value


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A node. Instants are epoch seconds; those of the last attempt."""

    name: str
    id: str
    task: str
    state: JobState
    after: tuple[str, ...] = ()
    """The names of what it waits for."""
    attempt: int = 0
    queued_at: float | None = None
    """When all that it waits for had ended."""
    started_at: float | None = None
    finished_at: float | None = None
    worker: str | None = None
    error: str = ""
    """Of its last attempt that failed; one line."""
    added: Mapping[str, int] = {}
    """The jobs that it, or what it added, has added to the workflow: how many in which state."""

    def seconds(self, now: float) -> float:
        """From when it could run until it ended, or until now."""
        if self.queued_at is None:
            return 0.0
        return max(0.0, (now if self.finished_at is None else self.finished_at) - self.queued_at)


class Leg(msgspec.Struct, frozen=True, kw_only=True):
    """One node of the critical path: ``waited`` seconds for a worker, ``ran`` seconds."""

    name: str
    waited: float
    ran: float


class WorkflowStatus(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, at one time."""

    id: str
    name: str
    state: WorkflowState
    created_at: float
    finished_at: float | None
    done: int
    """Jobs that have ended, of ``total``; added ones included."""
    total: int
    counts: Mapping[str, int]
    """How many jobs are in which state."""
    nodes: tuple[NodeStatus, ...]
    paused: PausedWorkflow | None
    """Who wants that no more of it is begun, since when and why."""
    critical_path: tuple[Leg, ...]
    """The chain of nodes that took longest up to now; the rest had time."""

    @property
    def critical_seconds(self) -> float:
        return sum(leg.waited + leg.ran for leg in self.critical_path)


def jobs_of(
    store: Transport, workflow: str, states: tuple[JobState, ...] = ()
) -> Iterator[JobRecord]:
    """Its jobs in store order, page by page."""
    after = None
    while True:
        page = store.find(JobFilter(workflow=workflow, states=states, after=after, limit=PAGE))
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].id


def state_of(store: Transport, heads: Sequence[Head]) -> list[WorkflowState]:
    """The state of each, in a few look-ups that do not read all of their jobs."""
    if not heads:
        return []
    results = store.get([head.result for head in heads])
    paused = {pause.workflow for pause in paused_workflows(store)}
    return [
        _state(store, head.id, result, head.id in paused)
        for head, result in zip(heads, results, strict=True)
    ]


def status_of(store: Transport, plan: Plan, now: float) -> WorkflowStatus:
    """Reads each job once, in pages."""
    planned = {node.id for node in plan.nodes}
    records: dict[str, JobRecord] = {}
    added: dict[str, Counter[str]] = {}
    counts: Counter[str] = Counter()
    for job in jobs_of(store, plan.id):
        counts[job.state.value] += 1
        if job.id in planned:
            records[job.id] = job
        else:
            added.setdefault(origin_of(job.id), Counter())[job.state.value] += 1
    nodes = tuple(
        _node(node, plan, records.get(node.id), added.get(node.id, {})) for node in plan.nodes
    )
    total = counts.total() + len(planned) - len(records)
    done = total - sum(counts[state.value] for state in UNFINISHED)
    ended = [node.finished_at for node in nodes if node.finished_at is not None]
    failed = any(counts[state.value] for state in BROKEN)
    paused = next((one for one in paused_workflows(store) if one.workflow == plan.id), None)
    state = WorkflowState.RUNNING if paused is None else WorkflowState.PAUSED
    return WorkflowStatus(
        id=plan.id,
        name=plan.name,
        state=state if done < total else _judge(records.get(plan.result), failed),
        created_at=plan.created_at,
        finished_at=max(ended, default=None) if done == total else None,
        done=done,
        total=total,
        counts=dict(counts),
        nodes=nodes,
        paused=paused,
        critical_path=_critical(plan, nodes, now),
    )


def _state(
    store: Transport, workflow: str, result: JobRecord | None, is_paused: bool
) -> WorkflowState:
    if _has(store, workflow, UNFINISHED):
        return WorkflowState.PAUSED if is_paused else WorkflowState.RUNNING
    decided = result is not None and result.state is not JobState.SKIPPED
    return _judge(result, not decided and _has(store, workflow, BROKEN))


def _has(store: Transport, workflow: str, states: tuple[JobState, ...]) -> bool:
    return bool(store.find(JobFilter(workflow=workflow, states=states, limit=1)))


def _judge(result: JobRecord | None, failed: bool) -> WorkflowState:
    """What has become of one that has ended."""
    if result is None:
        return WorkflowState.FAILED if failed else WorkflowState.UNKNOWN
    if result.state in BROKEN:
        return WorkflowState.FAILED
    if result.state is JobState.SKIPPED:
        return WorkflowState.FAILED if failed else WorkflowState.REVOKED
    return WorkflowState(result.state.value)


def _node(
    node: PlannedNode, plan: Plan, job: JobRecord | None, added: Mapping[str, int]
) -> NodeStatus:
    after = tuple(plan.nodes[place].name for place in node.after)
    if job is None:
        return NodeStatus(
            name=node.name,
            id=node.id,
            task=node.task,
            state=JobState.UNKNOWN,
            after=after,
            added=added,
        )
    failure = job.failure
    error = "" if failure is None else f"{failure.type}: {failure.message}".removesuffix(": ")
    return NodeStatus(
        name=node.name,
        id=node.id,
        task=node.task,
        state=job.state,
        after=after,
        attempt=job.attempt,
        queued_at=_queued_at(job),
        started_at=job.started_at,
        finished_at=job.finished_at,
        worker=job.worker,
        error=error or (job.dead_reason or ""),
        added=added,
    )


def _queued_at(job: JobRecord) -> float | None:
    """``None`` for a job that still waits for others, or ended so."""
    if job.started_at is not None:
        return min(job.visible_at, job.started_at)
    return job.visible_at if job.state in (JobState.QUEUED, JobState.RETRYING) else None


def _critical(plan: Plan, nodes: Sequence[NodeStatus], now: float) -> tuple[Leg, ...]:
    """Each node stands behind what it waits for: one walk finds the longest chain."""
    length: list[float] = []
    before: list[int | None] = []
    last: int | None
    for place, node in enumerate(nodes):
        last = max(plan.nodes[place].after, key=length.__getitem__, default=None)
        before.append(last)
        length.append(node.seconds(now) + (0.0 if last is None else length[last]))
    path: list[NodeStatus] = []
    last = max(range(len(nodes)), key=lambda place: (length[place], place), default=None)
    while last is not None:
        path.append(nodes[last])
        last = before[last]
    return tuple(_leg(node, now) for node in _without_idle(path[::-1]))


def _without_idle(path: Iterable[NodeStatus]) -> list[NodeStatus]:
    """What has not begun has taken no time yet."""
    return [node for node in path if node.queued_at is not None]


def _leg(node: NodeStatus, now: float) -> Leg:
    total = node.seconds(now)
    waited = total
    if node.started_at is not None and node.queued_at is not None:
        waited = min(total, max(0.0, node.started_at - node.queued_at))
    return Leg(name=node.name, waited=waited, ran=total - waited)
