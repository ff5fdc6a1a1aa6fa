"""All cases, and the run of them."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType

from taskmq.errors import ConfigError
from taskmq.ids import new_id
from taskmq.transport import Capabilities

from . import (
    concurrency,
    control,
    deadletter,
    defer,
    dependencies,
    documents,
    durability,
    enqueue,
    expiry,
    flow_capacity,
    flow_concurrency,
    flow_fair,
    flow_order,
    flow_quota,
    flow_rate,
    idempotency,
    leader,
    lease,
    listen,
    maintenance,
    named,
    park,
    priority,
    query,
    reserve,
    retry,
    revoke,
    settle,
    skipping,
    transitions,
    workers,
    workflow_pauses,
    workflows,
)
from .case import Case
from .subject import OpenStore, Subject
from .target import resolve

__all__ = ["Outcome", "Report", "Status", "cases", "run", "run_case"]

FACETS: tuple[ModuleType, ...] = (
    transitions,
    enqueue,
    query,
    reserve,
    named,
    priority,
    settle,
    retry,
    lease,
    defer,
    park,
    deadletter,
    expiry,
    dependencies,
    skipping,
    workflows,
    workflow_pauses,
    revoke,
    leader,
    documents,
    workers,
    idempotency,
    flow_concurrency,
    flow_rate,
    flow_capacity,
    flow_fair,
    flow_order,
    flow_quota,
    control,
    maintenance,
    listen,
    concurrency,
    durability,
)


class Status(Enum):
    PASSED = "passed"
    FAILED = "FAILED"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    """What became of a case. ``detail`` is the failure, or what the transport cannot do."""

    case: Case
    status: Status
    detail: str = ""
    error: BaseException | None = None
    seconds: float = 0.0


@dataclass
class Report:
    """What became of all of them."""

    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def failures(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.status is Status.FAILED]

    @property
    def ok(self) -> bool:
        """Whether every promise that applies was kept."""
        return not self.failures

    def count(self, status: Status) -> int:
        return sum(outcome.status is status for outcome in self.outcomes)


def cases(capabilities: Capabilities | None = None) -> list[Case]:
    """Every case; only those that apply, if the transport's capabilities are given."""
    every = [item for facet in FACETS for item in vars(facet).values() if isinstance(item, Case)]
    return [case for case in every if capabilities is None or not case.missing(capabilities)]


def run(
    target: str | OpenStore,
    *,
    only: Iterable[Case] | None = None,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> Report:
    """Check a transport, each case on a new store.

    Raises `ConfigError` where the target names no store; whatever else goes wrong is in the report.

    ``target`` is a URL, ``"module:factory"`` (see `resolve`) or the factory itself:
    ``factory(name, clock)`` opens the store of that name, which is empty if the name is new. The
    cases that use several processes need one of the first two, so that a process can be told.

    >>> from taskmq.testing.conformance import run
    >>> run("memory://").ok
    True
    """
    report = Report()
    for case in cases() if only is None else only:
        outcome = run_case(case, target)
        report.outcomes.append(outcome)
        on_outcome(outcome)
    return report


def run_case(case: Case, target: str | OpenStore) -> Outcome:
    """Check one promise on a new store."""
    open_store, spec = (resolve(target), target) if isinstance(target, str) else (target, None)
    started = time.perf_counter()
    try:
        subject = Subject(open_store, f"{case.facet}-{new_id().lower()}", spec=spec)
        try:
            missing = case.missing(subject.transport.capabilities)
            if missing:
                return Outcome(case, Status.SKIPPED, _cannot(subject, missing))
            case.body(subject)
        finally:
            subject.close()
    except ConfigError:
        raise
    except Exception as error:
        where = traceback.format_exception_only(type(error), error)[-1].strip()
        return Outcome(case, Status.FAILED, where, error, time.perf_counter() - started)
    return Outcome(case, Status.PASSED, seconds=time.perf_counter() - started)


def _cannot(subject: Subject, missing: list[str]) -> str:
    limitations = subject.transport.capabilities.limitations
    return f"not {', '.join(missing)}" + (f" ({'; '.join(limitations)})" if limitations else "")
