-- name: running
-- How many jobs run behind a concurrency gate.
SELECT count(*) FROM jobs WHERE gate = 'runs ' || ?;

-- name: until
-- What a rate gate remembers.
SELECT until FROM rates WHERE gate = ?;

-- name: set_until
-- What a rate gate remembers, from now on.
INSERT OR REPLACE INTO rates (gate, until) VALUES (?, ?);

-- name: representatives
-- How many jobs of a lane are ready or delayed, before the first that is held (or NULL).
SELECT count(*) FROM jobs
WHERE gate = 'next ' || :gate AND queue = :queue AND priority = :priority AND (
    (rank, seq) < (
        SELECT rank, seq FROM jobs
        WHERE gate = 'held ' || :gate AND queue = :queue AND priority = :priority
        ORDER BY rank, seq LIMIT 1
    )
) IS NOT FALSE;

-- name: first_held
-- The limits of the first job in a lane.
SELECT limits FROM jobs
WHERE gate = 'held ' || ? AND queue = ? AND priority = ? ORDER BY rank, seq LIMIT 1;

-- name: next_priority
-- The next less urgent lane of a gate in a queue.
SELECT queue, priority FROM jobs
WHERE gate = 'held ' || ? AND queue = ? AND priority < ? ORDER BY priority DESC LIMIT 1;

-- name: next_queue
-- The most urgent lane of a gate in its next queue.
SELECT queue, priority FROM jobs
WHERE gate = 'held ' || ? AND queue > ? ORDER BY queue, priority DESC LIMIT 1;

-- name: promote
-- Make the first held jobs of a lane ready.
UPDATE jobs SET phase = 2, gate = 'next ' || :gate
WHERE seq IN (
    SELECT seq FROM jobs
    WHERE gate = 'held ' || :gate AND queue = :queue AND priority = :priority
    ORDER BY rank, seq LIMIT :count
);

-- name: delay
-- Make the first held jobs of a lane visible later.
UPDATE jobs SET phase = 3, gate = 'next ' || :gate, visible_at = :at, due_at = :at
WHERE seq IN (
    SELECT seq FROM jobs
    WHERE gate = 'held ' || :gate AND queue = :queue AND priority = :priority
    ORDER BY rank, seq LIMIT :count
);

-- name: hasten
-- Make the jobs that a rate delays due earlier.
UPDATE jobs SET visible_at = :at, due_at = :at
WHERE gate = 'next ' || :gate AND phase = 3 AND due_at > :at;

-- name: hold
-- A ready job is held.
UPDATE jobs SET phase = -1, gate = 'held ' || ? WHERE seq = ?;

-- name: open
-- All that is held behind a gate is ready.
UPDATE jobs SET phase = 2, gate = NULL WHERE gate = 'held ' || ?;

-- name: limit
-- A new job's limits.
UPDATE jobs SET limits = ? WHERE seq = ?;

-- name: next
-- A ready job stands for a lane.
UPDATE jobs SET gate = 'next ' || ? WHERE seq = ?;

-- name: pass
-- What a job runs behind, or that it does so no longer.
UPDATE jobs SET gate = 'runs ' || ? WHERE seq = ?;
