"""Whatever is done to them, the PostgreSQL store and the reference answer alike."""

from __future__ import annotations

import psycopg
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from tests.property.test_transports_agree import Agreement

from taskmq.plugins import open_transport

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
SELECT phase, state, due_at FROM taskmq.jobs WHERE NOT (
    CASE phase
        WHEN 2 THEN state IN ('QUEUED', 'RETRYING')
        WHEN 4 THEN state = 'RUNNING'
        WHEN 5 THEN state IN ('SUCCEEDED', 'EXPIRED', 'REVOKED', 'SKIPPED')
        WHEN 3 THEN state IN ('QUEUED', 'RETRYING')
        WHEN -1 THEN state IN ('QUEUED', 'RETRYING')
        WHEN 0 THEN state = 'WAITING'
        WHEN 1 THEN state = 'FAILED'
        ELSE false
    END
    AND (due_at IS NOT NULL) = (phase >= 3)
)
"""
"""Jobs whose phase does not go with their state."""


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

        def teardown(self) -> None:
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                assert connection.execute(STRAY).fetchall() == []
            super().teardown()

    run_state_machine_as_test(
        WithPostgres, settings=settings(max_examples=8, stateful_step_count=30, deadline=None)
    )
