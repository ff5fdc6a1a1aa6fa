-- name: running
-- How many jobs run behind a concurrency gate.
SELECT count(*) FROM jobs WHERE gate = ? AND phase = 4;

-- name: until
-- What a rate gate remembers.
SELECT until FROM rates WHERE gate = ?;

-- name: set_until
-- What a rate gate remembers, from now on.
INSERT OR REPLACE INTO rates (gate, until) VALUES (?, ?);

-- name: representatives
-- How many jobs of a lane are ready or delayed.
SELECT count(*) FROM jobs WHERE gate = ? AND phase IN (2, 3) AND queue = ? AND priority = ?;

-- name: first_held
-- The limits of the first job in a lane.
SELECT limits FROM jobs
WHERE gate = ? AND phase = -1 AND queue = ? AND priority = ? ORDER BY seq LIMIT 1;

-- name: next_priority
-- The next less urgent lane of a gate in a queue.
SELECT queue, priority FROM jobs
WHERE gate = ? AND phase = -1 AND queue = ? AND priority < ? ORDER BY priority DESC LIMIT 1;

-- name: next_queue
-- The most urgent lane of a gate in its next queue.
SELECT queue, priority FROM jobs
WHERE gate = ? AND phase = -1 AND queue > ? ORDER BY queue, priority DESC LIMIT 1;

-- name: promote
-- Make the first held jobs of a lane ready.
UPDATE jobs SET phase = 2
WHERE seq IN (
    SELECT seq FROM jobs
    WHERE gate = ? AND phase = -1 AND queue = ? AND priority = ? ORDER BY seq LIMIT ?
);

-- name: delay
-- Make the first held jobs of a lane visible later.
UPDATE jobs SET phase = 3, visible_at = ?, due_at = ?
WHERE seq IN (
    SELECT seq FROM jobs
    WHERE gate = ? AND phase = -1 AND queue = ? AND priority = ? ORDER BY seq LIMIT ?
);

-- name: hold
-- A ready job is held.
UPDATE jobs SET phase = -1, gate = ? WHERE seq = ?;

-- name: place
-- A new job's limits, and where they put it.
UPDATE jobs SET phase = coalesce(?, phase), limits = ?, gate = ? WHERE seq = ?;

-- name: pass
-- What a job runs behind, or that it does so no longer.
UPDATE jobs SET gate = ? WHERE seq = ?;
