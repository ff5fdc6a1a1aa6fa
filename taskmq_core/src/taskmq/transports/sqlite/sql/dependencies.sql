-- name: any_edges
-- Whether any job depends on any other.
SELECT EXISTS (SELECT 1 FROM edges);

-- name: any_nodes
-- Whether any job has a condition, or has delegated.
SELECT EXISTS (SELECT 1 FROM nodes);

-- name: parents
-- Those of these jobs that others wait for.
SELECT DISTINCT edges.parent
FROM json_each(?) AS wanted
JOIN edges ON edges.parent = wanted.value
WHERE edges.met = 0;

-- name: meet
-- Jobs have succeeded: mark what waited for them, and tell what that is.
UPDATE edges SET met = 1
WHERE parent IN (SELECT value FROM json_each(?)) AND met = 0
RETURNING child;

-- name: count_down
-- A job waits for so many less, unless it has ended and will never run.
UPDATE jobs SET pending = pending - ? WHERE seq = ? AND state IN ('WAITING', 'SKIPPED');

-- name: queue_met
-- WAITING to QUEUED, of these jobs, where nothing is left to wait for. Tells which.
UPDATE jobs SET
    state = 'QUEUED',
    phase = CASE WHEN visible_at > :now THEN 3 ELSE 2 END,
    due_at = CASE WHEN visible_at > :now THEN visible_at END,
    visible_at = max(visible_at, :now)
WHERE phase = 0 AND pending = 0 AND seq IN (SELECT value FROM json_each(:seqs))
RETURNING id, queue, priority, visible_at;

-- name: drop_edges
-- What these jobs were handed is needed no longer.
DELETE FROM edges WHERE child IN (SELECT value FROM json_each(?));

-- name: skip
-- WAITING to SKIPPED: what waits for these jobs, and what waits for that. Where no job has a
-- condition.
WITH RECURSIVE lost (id, seq) AS (
    SELECT value, NULL FROM json_each(:ids)
    UNION
    SELECT child.id, child.seq
    FROM lost
    JOIN edges ON edges.parent = lost.id AND edges.met = 0
    JOIN jobs AS child ON child.seq = edges.child AND child.phase = 0
)
UPDATE jobs SET phase = 5, state = 'SKIPPED', finished_at = :now, due_at = :now + result_ttl
WHERE seq IN (SELECT seq FROM lost WHERE seq IS NOT NULL);

-- name: insert_losses
-- How these jobs ended, for those that run all the same.
INSERT OR REPLACE INTO losses (parent, data)
SELECT jobs.id, json_object(
    'state', CASE WHEN phase IN (1, 5) THEN state ELSE 'UNKNOWN' END,
    'reason', coalesce(dead_reason, ''),
    'failure', json(failure)
)
FROM jobs
WHERE id IN (SELECT value FROM json_each(?)) AND EXISTS (
    SELECT 1 FROM edges JOIN nodes ON nodes.seq = edges.child
    WHERE edges.parent = jobs.id AND edges.met = 0 AND nodes.run_if <> 'succeeded'
);

-- name: meet_lost
-- Jobs are lost: mark what waited for them and runs all the same, and tell what that is.
UPDATE edges SET met = 2
WHERE parent IN (SELECT value FROM json_each(?)) AND met = 0
AND EXISTS (
    SELECT 1 FROM nodes JOIN jobs ON jobs.seq = nodes.seq
    WHERE nodes.seq = edges.child AND nodes.run_if <> 'succeeded' AND jobs.phase = 0
)
RETURNING child;

-- name: skip_waiting
-- WAITING to SKIPPED: what waits for these jobs and needs their success. Tells what that is.
UPDATE jobs SET phase = 5, state = 'SKIPPED', finished_at = :now, due_at = :now + result_ttl
WHERE phase = 0
AND seq IN (
    SELECT child FROM edges WHERE met = 0 AND parent IN (SELECT value FROM json_each(:ids))
)
AND NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.seq = jobs.seq AND run_if <> 'succeeded')
RETURNING id;

-- name: skip_unneeded
-- WAITING to SKIPPED, of these jobs: what runs only if something is lost, where all has succeeded.
UPDATE jobs SET phase = 5, state = 'SKIPPED', finished_at = :now, due_at = :now + result_ttl
WHERE phase = 0 AND pending = 0 AND seq IN (SELECT value FROM json_each(:seqs))
AND EXISTS (SELECT 1 FROM nodes WHERE nodes.seq = jobs.seq AND run_if = 'failed')
AND NOT EXISTS (SELECT 1 FROM edges WHERE child = jobs.seq AND met = 2)
RETURNING id;

-- name: delegates
-- Of these jobs those whose delegate has given its result.
SELECT jobs.seq, jobs.id, jobs.keep_result, jobs.result_ttl, nodes.delegated_to
FROM json_each(?) AS wanted
JOIN jobs ON jobs.seq = wanted.value AND jobs.phase = 0 AND jobs.pending = 0
JOIN nodes ON nodes.seq = jobs.seq AND nodes.delegated_to IS NOT NULL;

-- name: forward
-- WAITING to SUCCEEDED, for many at once.
UPDATE jobs SET
    phase = 5, state = 'SUCCEEDED', finished_at = :now, due_at = :now + result_ttl, failure = NULL,
    envelope = NULL
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: restore
-- SKIPPED to WAITING: what waited for these jobs and for nothing else that is lost. Tells what
-- that is, for the next round.
UPDATE jobs SET phase = 0, state = 'WAITING', finished_at = NULL, due_at = NULL
WHERE phase = 5 AND state = 'SKIPPED'
AND seq IN (
    SELECT child FROM edges WHERE met = 0 AND parent IN (SELECT value FROM json_each(?))
)
AND NOT EXISTS (
    SELECT 1
    FROM edges AS other
    LEFT JOIN jobs AS parent ON parent.id = other.parent
    WHERE other.child = jobs.seq AND other.met = 0
    AND (parent.id IS NULL OR parent.state IN ('FAILED', 'EXPIRED', 'REVOKED', 'SKIPPED'))
)
AND NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.seq = jobs.seq AND run_if <> 'succeeded')
RETURNING id;

-- name: await_again
-- These jobs were lost, and are not any more: who still waits takes them into account again. Tells
-- who that is.
UPDATE edges SET met = 0
WHERE parent IN (SELECT value FROM json_each(?)) AND met = 2
AND EXISTS (SELECT 1 FROM jobs WHERE jobs.seq = edges.child AND jobs.phase = 0)
RETURNING child;

-- name: fail_fast
-- The workflows that the end of these jobs ends.
SELECT jobs.workflow
FROM json_each(?) AS wanted
JOIN jobs ON jobs.id = wanted.value
JOIN nodes ON nodes.seq = jobs.seq
WHERE nodes.fail_fast AND jobs.workflow IS NOT NULL AND jobs.state IN ('FAILED', 'EXPIRED');

-- name: members
-- The unfinished jobs of a workflow, but for those that see to its end.
SELECT id FROM jobs
WHERE workflow = ? AND phase IN (-1, 0, 2, 3, 4)
AND NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.seq = jobs.seq AND run_if <> 'succeeded')
ORDER BY seq;

-- name: insert_node
-- What few jobs have.
INSERT INTO nodes (seq, run_if, fail_fast) VALUES (?, ?, ?);

-- name: delegators
-- The jobs that wait for this one to end as it does.
SELECT jobs.id
FROM edges
JOIN jobs ON jobs.seq = edges.child AND jobs.phase = 0
JOIN nodes ON nodes.seq = edges.child AND nodes.delegated_to = edges.parent
WHERE edges.parent = :id AND edges.met = 0;

-- name: join
-- Whoever waits for a job waits for others, too, but for those that have delegated to it. Tells who
-- that is, once for each of them.
INSERT INTO edges (parent, child, met)
SELECT wanted.value, edges.child, 0
FROM edges
JOIN jobs ON jobs.seq = edges.child AND jobs.phase = 0
JOIN json_each(:spawned) AS wanted ON EXISTS (SELECT 1 FROM jobs WHERE jobs.id = wanted.value)
WHERE edges.parent = :id AND edges.met = 0
AND NOT EXISTS (
    SELECT 1 FROM nodes WHERE nodes.seq = edges.child AND nodes.delegated_to = edges.parent
)
ON CONFLICT DO NOTHING
RETURNING child;

-- name: count_up
-- A job waits for so many more.
UPDATE jobs SET pending = pending + :count, dependencies = dependencies + :count WHERE seq = :seq;

-- name: delegate
-- A job is to wait for a single other one, and to end as that does.
UPDATE jobs SET pending = 1, dependencies = 1, expires_at = NULL WHERE seq = ?;

-- name: insert_delegate
-- Which one that is.
INSERT INTO nodes (seq, run_if, fail_fast, delegated_to) VALUES (:seq, 'succeeded', 0, :to)
ON CONFLICT (seq) DO UPDATE SET run_if = 'succeeded', delegated_to = :to;
