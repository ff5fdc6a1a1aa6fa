-- name: any_edges
-- Whether any job depends on any other.
SELECT EXISTS (SELECT 1 FROM edges);

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
-- A job waits for so many less.
UPDATE jobs SET pending = pending - ? WHERE seq = ?;

-- name: queue_met
-- WAITING to QUEUED, of these jobs, where nothing is left to wait for.
UPDATE jobs SET
    state = 'QUEUED',
    phase = CASE WHEN visible_at > :now THEN 3 ELSE 2 END,
    due_at = CASE WHEN visible_at > :now THEN visible_at END,
    visible_at = max(visible_at, :now)
WHERE phase = 0 AND pending = 0 AND seq IN (SELECT value FROM json_each(:seqs));

-- name: drop_edges
-- What these jobs were handed is needed no longer.
DELETE FROM edges WHERE child IN (SELECT value FROM json_each(?));

-- name: skip
-- WAITING to SKIPPED: what waits for these jobs, and what waits for that.
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
RETURNING id;
