"""Whatever is done to them, the PostgreSQL store and the reference answer alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test
from tests.property.test_transports_agree import INDEXES, QUEUES, Agreement

from taskmq.plugins import open_transport
from taskmq.testing.conformance.subject import text
from taskmq.transport import Ack, Delegate, Delivery, Settled, Transport

EMPTY = """
DO $$
DECLARE t text;
BEGIN
    FOR t IN
        SELECT tablename FROM pg_tables WHERE schemaname = 'taskmq' AND tablename <> 'meta'
    LOOP
        EXECUTE 'DELETE FROM taskmq.' || t;
    END LOOP;
END $$
"""

STRAY = """
SELECT seq, phase, state, lease_until, purge_at FROM taskmq.jobs WHERE NOT (
    CASE phase
        WHEN 2 THEN state IN ('QUEUED', 'RETRYING')
        WHEN 4 THEN state = 'RUNNING' OR state = 'SUCCEEDED' AND limits IS NULL AND rank = 0
        WHEN 5 THEN state IN ('SUCCEEDED', 'EXPIRED', 'REVOKED', 'SKIPPED')
        WHEN 3 THEN state IN ('QUEUED', 'RETRYING')
        WHEN -1 THEN state IN ('QUEUED', 'RETRYING')
        WHEN 0 THEN state = 'WAITING'
        WHEN 1 THEN state = 'FAILED'
        ELSE false
    END
    AND (lease_until IS NOT NULL) = (state = 'RUNNING')
    AND (purge_at IS NOT NULL) = (state IN ('EXPIRED', 'REVOKED', 'SKIPPED'))
)
"""
"""Jobs whose phase does not go with their state."""

UNLISTED = """
SELECT seq, state FROM taskmq.jobs
WHERE state = 'RUNNING' AND NOT EXISTS (
    SELECT 1 FROM taskmq.handouts AS h
    WHERE h.id = handout AND seq = ANY (seqs) AND h.due_at = lease_until
    AND (h.queue, h.worker) = (jobs.queue, jobs.worker)
)
OR state = 'SUCCEEDED' AND NOT EXISTS (SELECT 1 FROM taskmq.finished WHERE seq = ANY (seqs))
UNION ALL
SELECT id, 'handed out' FROM taskmq.handouts
WHERE held < 1 OR held <> (
    SELECT count(*) FROM taskmq.jobs WHERE handout = handouts.id AND state = 'RUNNING'
)
"""
"""Jobs that are in no list of what runs, or has succeeded; lists that count wrongly."""

MEMBERS = st.fixed_dictionaries(
    {
        "queue": st.sampled_from(QUEUES),
        "after": INDEXES,
        "run_if": st.sampled_from(["succeeded", "succeeded", "finished", "failed"]),
        "fail_fast": st.booleans(),
        "store_result": st.booleans(),
        "result_ttl": st.sampled_from([0.0, 1_000.0]),
        "expires_at": st.none() | st.sampled_from([2.0, 20.0]),
    }
)


# Thousands of round trips, each of which waits for its turn on a busy machine. Cut short in one of
# them, Hypothesis takes that for a failure, and calls the machine flaky.
@pytest.mark.timeout(400)
def test_postgres_agrees_with_the_reference(postgres_url: str) -> None:
    class WithPostgres(Agreement):
        """Does everything twice: to the reference, and to an empty PostgreSQL store."""

        def __init__(self) -> None:
            super().__init__()
            self.real.close()
            self.real = open_transport(f"{postgres_url}?timeout=60", clock=self.clock)
            self.real.paused()
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                connection.execute(EMPTY)

        @rule(
            members=st.lists(MEMBERS, min_size=1, max_size=5),
            workflow=st.sampled_from(["w1", "w2", None]),
        )
        def enqueue_workflow(self, members: list[dict[str, Any]], workflow: str | None) -> None:
            sealed = [self._job({**fields, "workflow": workflow}) for fields in members]
            self._alike(lambda store: store.enqueue(sealed))

        @rule(
            pick=st.integers(0, 5),
            members=st.lists(MEMBERS, min_size=1, max_size=3),
            delegates=st.booleans(),
        )
        def add_to_workflow(
            self, pick: int, members: list[dict[str, Any]], delegates: bool
        ) -> None:
            if not self.held:
                return
            jobs = [self._job({**fields, "after": ()}) for fields in members]
            to, result = jobs[0].envelope.id, text("spawner")

            def settle(store: Transport, delivery: Delivery) -> Sequence[Settled]:
                if delegates:
                    return list(store.settle([Delegate(delivery, jobs, to)]))
                return list(store.settle([Ack(delivery, result, spawn=jobs)]))

            ours, theirs = self.held[-1 - pick % len(self.held)]
            assert settle(self.real, theirs) == settle(self.model, ours)

        def teardown(self) -> None:
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                assert connection.execute(STRAY).fetchall() == []
                assert connection.execute(UNLISTED).fetchall() == []
            super().teardown()

    run_state_machine_as_test(
        WithPostgres, settings=settings(max_examples=8, stateful_step_count=30, deadline=None)
    )
