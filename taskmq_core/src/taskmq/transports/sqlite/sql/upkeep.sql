-- name: places
-- Where each of these jobs is.
SELECT id, seq, phase, limits, queue, priority FROM jobs WHERE id IN (SELECT value FROM json_each(?));

-- name: timed_queues
-- The queues with a job in a phase that ends by itself. From one name to the next by index.
WITH RECURSIVE names (queue) AS (
    SELECT min(queue) FROM jobs WHERE phase = :phase AND due_at IS NOT NULL
    UNION ALL
    SELECT (
        SELECT min(queue) FROM jobs
        WHERE phase = :phase AND due_at IS NOT NULL AND queue > names.queue
    )
    FROM names WHERE names.queue IS NOT NULL
)
SELECT queue FROM names WHERE queue IS NOT NULL;

-- name: expiring_queues
-- The queues with a job that can expire. From one name to the next by index.
WITH RECURSIVE names (queue) AS (
    SELECT min(queue) FROM jobs WHERE phase IN (-1, 0, 2, 3) AND expires_at IS NOT NULL
    UNION ALL
    SELECT (
        SELECT min(queue) FROM jobs
        WHERE phase IN (-1, 0, 2, 3) AND expires_at IS NOT NULL AND queue > names.queue
    )
    FROM names WHERE names.queue IS NOT NULL
)
SELECT queue FROM names WHERE queue IS NOT NULL;

-- name: next_timed
-- When the first job of a queue leaves a phase by itself.
SELECT min(due_at) FROM jobs WHERE phase = ? AND queue = ? AND due_at IS NOT NULL;

-- name: next_expiry
-- When the first job of a queue expires.
SELECT min(expires_at) FROM jobs
WHERE phase IN (-1, 0, 2, 3) AND queue = ? AND expires_at IS NOT NULL;

-- name: next_forsaken
-- When the first parked job becomes a dead letter.
SELECT park_until FROM jobs WHERE park_until IS NOT NULL AND +phase IN (-1, 2, 3)
ORDER BY park_until LIMIT 1;

-- name: next_key
-- When the first key stops standing for its job.
SELECT min(expires_at) FROM keys;

-- name: forsaken
-- The jobs that were parked for too long.
SELECT seq FROM jobs
WHERE park_until IS NOT NULL AND park_until <= ? AND +phase IN (-1, 2, 3)
ORDER BY park_until LIMIT ?;

-- name: retire
-- Delete finished jobs of a queue whose retention has ended.
DELETE FROM jobs WHERE seq IN (
    SELECT seq FROM jobs
    WHERE phase = 5 AND queue = ? AND due_at IS NOT NULL AND due_at <= ?
    ORDER BY due_at LIMIT ?
);

-- name: retire_keys
-- Forget keys whose time has ended.
DELETE FROM keys WHERE key IN (
    SELECT key FROM keys WHERE expires_at <= ? ORDER BY expires_at LIMIT ?
);

-- name: retire_rates
-- Forget rates that limit nothing any more.
DELETE FROM rates WHERE gate IN (
    SELECT gate FROM rates WHERE until <= ? ORDER BY until LIMIT ?
);

-- name: next_rate
-- When the first rate has nothing to remember.
SELECT min(until) FROM rates;

-- name: any_parked
-- Whether any job is parked.
SELECT EXISTS (SELECT 1 FROM jobs WHERE park_until IS NOT NULL);

-- name: unpark
-- Parked jobs of these tasks, which are visible later, are visible now.
UPDATE jobs SET phase = 2, due_at = NULL, visible_at = :now
WHERE park_until IS NOT NULL AND +phase = 3 AND due_at > :now
AND task IN (SELECT value FROM json_each(:tasks));

-- name: depended_on
-- The jobs among those that a purge deletes which others wait for.
SELECT DISTINCT edges.parent
FROM edges JOIN jobs ON jobs.id = edges.parent
WHERE edges.met = 0 AND jobs.queue = ? AND jobs.phase IN (-1, 2, 3);

-- name: queued
-- What a purge of a queue deletes.
SELECT seq FROM jobs WHERE phase = 2 AND queue = :queue
UNION ALL
SELECT seq FROM jobs WHERE phase = 3 AND queue = :queue AND due_at IS NOT NULL
UNION ALL
SELECT seq FROM jobs WHERE phase <= 1 AND phase = -1 AND queue = :queue;

-- name: free_keys
-- Keys that stand for a job which a purge deletes.
DELETE FROM keys
WHERE key IN (
    SELECT key FROM jobs WHERE queue = :queue AND phase = 2 AND key IS NOT NULL
    UNION ALL
    SELECT key FROM jobs WHERE queue = :queue AND phase = 3 AND due_at IS NOT NULL AND key IS NOT NULL
    UNION ALL
    SELECT key FROM jobs WHERE phase <= 1 AND phase = -1 AND queue = :queue AND key IS NOT NULL
)
AND EXISTS (
    SELECT 1 FROM jobs WHERE jobs.id = keys.job_id AND jobs.queue = :queue AND jobs.phase IN (-1, 2, 3)
);

-- name: purge_ready
-- Delete the ready jobs of a queue.
DELETE FROM jobs WHERE phase = 2 AND queue = ?;

-- name: purge_held
-- Delete the jobs of a queue that a limit holds.
DELETE FROM jobs WHERE phase <= 1 AND phase = -1 AND queue = ?;

-- name: purge_delayed
-- Delete the delayed jobs of a queue, parked ones included.
DELETE FROM jobs WHERE phase = 3 AND queue = ? AND due_at IS NOT NULL;
