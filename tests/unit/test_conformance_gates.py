"""A store that claims less is asked for less, by its capabilities and not by its name."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from taskmq.clock import Clock
from taskmq.testing.conformance import Report, Status, cases, run
from taskmq.transport import Capabilities
from taskmq.transports.memory import MemoryTransport
from taskmq.transports.memory.job import Job
from taskmq.transports.memory.lanes import Lanes

MEMORY = MemoryTransport.capabilities
FULL = msgspec.structs.replace(MEMORY, durable=True, shared=True)


class Stack(Lanes):
    """Last in, first out."""

    def place(self, job: Job, now: float) -> None:
        super().place(job, now)
        lane = self.ready.get(job.priority)
        if lane is not None and job.id in set(lane):
            lane.put(job.id, -job.sequence)


class Unordered(MemoryTransport):
    """Promises no order, and says so."""

    capabilities = msgspec.structs.replace(MEMORY, fifo=False, weighted_turns=False)

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._store.lanes = defaultdict(Stack)


class Boastful(Unordered):
    """Keeps no order, and says that it does."""

    capabilities = MEMORY


def _check(kind: type[MemoryTransport]) -> Report:
    quick = [case for case in cases() if "many" not in case.name and "large" not in case.name]
    return run(lambda name, clock: kind(clock), only=quick)


def test_store_without_order_passes_what_applies() -> None:
    report = _check(Unordered)
    assert [(str(outcome.case), outcome.detail) for outcome in report.failures] == []
    skipped = {need for o in report.outcomes if o.status is Status.SKIPPED for need in o.case.needs}
    assert {"fifo", "weighted_turns"} <= skipped


def test_store_that_claims_an_order_has_to_keep_it() -> None:
    broken = {str(outcome.case) for outcome in _check(Boastful).failures}
    assert "reserve/first_in_first_out" in broken


def test_every_need_is_a_capability() -> None:
    fields = set(Capabilities.__struct_fields__) - {"limitations"}
    assert {need for case in cases() for need in case.needs} <= fields


def test_every_case_applies_to_a_store_that_can_do_everything() -> None:
    assert cases(FULL) == cases()


def test_names_of_cases_are_unique_and_every_promise_is_a_sentence() -> None:
    every = cases()
    assert len({str(case) for case in every}) == len(every)
    assert all(case.promise.endswith(".") for case in every)
