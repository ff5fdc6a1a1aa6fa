"""Whatever is done to workflows, however they are searched: Redis answers as the reference does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test
from tests import services
from tests.property.test_transports_agree import DELAYS, INDEXES, ONE, QUEUES, Agreement

from taskmq.ids import new_id
from taskmq.records import JobFilter
from taskmq.states import JobState
from taskmq.testing.conformance.subject import text
from taskmq.transport import Ack, Delegate, Reservation, Settlement

STATES = [state for state in JobState if state is not JobState.UNKNOWN]
NODES = st.fixed_dictionaries(
    {
        "queue": st.sampled_from(QUEUES),
        "max_deliveries": st.integers(1, 3),
        "store_result": st.booleans(),
        "result_ttl": st.sampled_from([0.0, 6.0, 1_000.0, 1_000.0]),
        "eta": st.none() | st.none() | DELAYS,
        "expires_at": st.none() | st.none() | st.sampled_from([2.0, 5.0, 20.0]),
        "after": INDEXES,
        "run_if": st.sampled_from(["succeeded", "succeeded", "failed", "finished"]),
        "workflow": st.sampled_from([None, "v", "w"]),
        "fail_fast": st.booleans(),
        "limits": st.sampled_from([(), (), (), (ONE,)]),
    }
)


def _settled(fields: dict[str, Any]) -> dict[str, Any]:
    """Of several lost at once, the first one given up revokes the others where it fails fast; no
    store promises which that is. Those that fail fast are never lost too often here."""
    return {**fields, "max_deliveries": 1_000} if fields["fail_fast"] else fields


class WorkflowAgreement(Agreement):
    """The same with workflows."""

    @rule(batch=st.lists(NODES, min_size=1, max_size=4))
    def enqueue_nodes(self, batch: list[dict[str, Any]]) -> None:
        sealed = [self._job(_settled(fields)) for fields in batch]
        self._alike(lambda store: store.enqueue(sealed))

    @rule(limit=st.integers(1, 8))
    def work(self, limit: int) -> None:
        queues = dict.fromkeys(QUEUES, 1)
        wanted = Reservation(queues=queues, worker="w", lease=30.0, limit=limit)
        expected, actual = self.model.reserve(wanted), self.real.reserve(wanted)
        found = {delivery.job_id: delivery for delivery in actual}
        assert sorted(found) == sorted(delivery.job_id for delivery in expected)
        pairs = [(delivery, found[delivery.job_id]) for delivery in expected]
        assert all((a.inputs, a.losses) == (b.inputs, b.losses) for a, b in pairs)
        self.held += pairs

    @rule(
        batch=st.lists(NODES, min_size=1, max_size=3),
        pick=st.integers(0, 30),
        delegates=st.booleans(),
    )
    def grow(self, batch: list[dict[str, Any]], pick: int, delegates: bool) -> None:
        if not self.held:
            return
        more = [self._job(_settled({**fields, "after": ()})) for fields in batch]
        to = more[-1].envelope.id
        settlements: list[Settlement] = [
            Delegate(delivery, more, to)
            if delegates
            else Ack(delivery, text(delivery.job_id), spawn=more)
            for delivery in self.held[-1 - pick % len(self.held)]
        ]
        ours, theirs = settlements
        assert list(self.real.settle([theirs])) == list(self.model.settle([ours]))

    @rule(
        states=st.sets(st.sampled_from(STATES), max_size=3),
        queue=st.sampled_from([None, *QUEUES]),
        workflow=st.sampled_from([None, None, "v", "w"]),
        dead=st.sampled_from([None, None, True, False]),
        parked=st.sampled_from([None, None, True, False]),
        limit=st.integers(1, 6),
        after=st.lists(st.integers(0, 30), max_size=1),
    )
    def search(self, states: set[JobState], after: list[int], **fields: Any) -> None:
        behind = next(iter(self._pick(self.ids, after)), None)
        wanted = JobFilter(states=tuple(states), after=behind, **fields)
        found = [[record.id for record in store.find(wanted)] for store in (self.real, self.model)]
        assert found[0] == found[1]


# Thousands of round trips, each of which waits for its turn on a busy machine. Cut short in one of
# them, Hypothesis takes that for a failure, and calls the machine flaky.
@pytest.mark.timeout(400)
def test_redis_agrees_with_the_reference_on_workflows(redis_server: services.Redis) -> None:
    class WithRedis(WorkflowAgreement):
        def url(self) -> str:
            return f"{redis_server.url}?namespace={new_id()}&timeout=60"

    run_state_machine_as_test(
        WithRedis, settings=settings(max_examples=15, stateful_step_count=40, deadline=None)
    )
