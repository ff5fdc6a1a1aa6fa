-- name: record
-- All that readers see of a job, in the order of query._record.
SELECT
    jobs.id, jobs.task, jobs.queue, jobs.state, jobs.priority, jobs.attempt, jobs.deliveries,
    jobs.reclaims, jobs.max_deliveries, jobs.enqueued_at, jobs.visible_at,
    CASE
        WHEN jobs.envelope IS NULL THEN (SELECT data FROM envelopes WHERE envelopes.seq = jobs.seq)
        WHEN jobs.pattern IS NULL THEN jobs.envelope
        ELSE (
            SELECT CAST(head || jobs.id || middle || jobs.envelope || tail AS BLOB)
            FROM patterns WHERE patterns.seq = jobs.pattern
        )
    END,
    jobs.expires_at, jobs.started_at, jobs.finished_at, jobs.phase, jobs.due_at, jobs.worker,
    results.codec, results.data, jobs.failure, jobs.dead_reason, jobs.parked_reason,
    jobs.parked_at, jobs.cancel_requested, jobs.pending, jobs.workflow, jobs.history, jobs.limits,
    substr(jobs.gate, 6),
    CASE WHEN jobs.phase = -1 THEN (
        SELECT count(*) FROM jobs AS holder WHERE holder.gate = 'runs ' || substr(jobs.gate, 6)
    ) END,
    jobs.revoked_by, jobs.revoked_at,
    (SELECT delegated_to FROM nodes WHERE nodes.seq = jobs.seq)
FROM jobs
LEFT JOIN results ON results.seq = jobs.seq;

-- name: by_id
-- The condition of a get.
jobs.id IN (SELECT value FROM json_each(?));

-- name: with_state
-- A condition of a find.
jobs.state IN (SELECT value FROM json_each(?));

-- name: in_queue
-- A condition of a find.
jobs.queue = ?;

-- name: of_task
-- A condition of a find.
jobs.task = ?;

-- name: with_key
-- A condition of a find.
jobs.key = ?;

-- name: in_workflow
-- A condition of a find.
jobs.workflow = ?;

-- name: is_stopping
-- A condition of a find.
jobs.cancel_requested > 0;

-- name: not_stopping
-- A condition of a find.
jobs.cancel_requested = 0;

-- name: is_revoked
-- A condition of a find. By index.
jobs.revoked_at IS NOT NULL;

-- name: not_revoked
-- A condition of a find.
jobs.revoked_at IS NULL;

-- name: behind
-- A condition of a find: later in the store than that job, which must be known.
jobs.seq > (SELECT seq FROM jobs WHERE id = ?);

-- name: dead
-- A condition of a find. By index.
jobs.phase <= 1 AND jobs.phase = 1;

-- name: not_dead
-- A condition of a find.
jobs.phase <> 1;

-- name: is_parked
-- A condition of a find.
jobs.park_until IS NOT NULL;

-- name: not_parked
-- A condition of a find.
jobs.park_until IS NULL;

-- name: queues
-- The queues with a job that is unfinished or dead. From one name to the next by index, so that
-- the number of jobs does not matter.
WITH RECURSIVE names (queue) AS (
    SELECT ''
    UNION ALL
    SELECT (
        SELECT min(queue) FROM (
            SELECT min(queue) AS queue FROM jobs WHERE phase = 2 AND queue > names.queue
            UNION ALL
            SELECT min(queue) FROM jobs
            WHERE phase = 3 AND due_at IS NOT NULL AND queue > names.queue
            UNION ALL
            SELECT min(queue) FROM jobs
            WHERE phase = 4 AND due_at IS NOT NULL AND queue > names.queue
            UNION ALL
            SELECT min(queue) FROM jobs WHERE phase <= 1 AND phase = 0 AND queue > names.queue
            UNION ALL
            SELECT min(queue) FROM jobs WHERE phase <= 1 AND phase = -1 AND queue > names.queue
            UNION ALL
            SELECT min(queue) FROM jobs WHERE phase <= 1 AND phase = 1 AND queue > names.queue
        )
    )
    FROM names WHERE names.queue IS NOT NULL
)
SELECT queue FROM names WHERE queue <> '';

-- name: ready
-- The ready jobs of a queue, by priority: how many, and since when the oldest is visible.
SELECT priority, count(*), min(visible_at) FROM jobs
WHERE phase = 2 AND queue = ? GROUP BY priority;

-- name: due
-- The same for jobs that have become visible, but were not made ready yet.
SELECT priority, count(*), min(visible_at) FROM jobs
WHERE phase = 3 AND queue = ? AND due_at IS NOT NULL AND due_at <= ? GROUP BY priority;

-- name: delayed
-- How many jobs of a queue are visible later.
SELECT count(*) FROM jobs
WHERE phase = 3 AND queue = ? AND due_at IS NOT NULL AND due_at > ?;

-- name: parked
-- How many of those wait for a worker that can run them. (Parked jobs are the fewer: the plus signs
-- keep SQLite from going through the delayed ones.)
SELECT count(*) FROM jobs
WHERE park_until IS NOT NULL AND +phase = 3 AND +queue = ? AND due_at > ?;

-- name: running
-- How many jobs of a queue are leased.
SELECT count(*) FROM jobs WHERE phase = 4 AND queue = ? AND due_at IS NOT NULL;

-- name: resting
-- How many jobs of a queue are held (-1), wait for others (0), or are dead (1).
SELECT count(*) FROM jobs WHERE queue = ? AND phase <= 1 AND phase = ?;
