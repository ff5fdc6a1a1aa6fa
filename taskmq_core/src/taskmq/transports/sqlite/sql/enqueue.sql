-- name: last_seq
-- The newest place in the store's sequence.
SELECT coalesce(max(seq), 0) FROM jobs;

-- name: insert_jobs
-- A new job. An id that is stored already is left as it is.
INSERT INTO jobs (
    seq, id, envelope, phase, state, queue, priority, token, dependencies, pending, visible_at,
    due_at, expires_at, result_ttl, keep_result, on_receipt, max_deliveries, task, enqueued_at,
    finished_at, key, workflow
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING;

-- name: insert_alone
-- A new job with which nothing else has to be done: no line has turns, and its id is new. Otherwise
-- nothing is stored.
INSERT INTO jobs (
    seq, id, envelope, phase, state, queue, priority, token, dependencies, pending, visible_at,
    due_at, expires_at, result_ttl, keep_result, on_receipt, max_deliveries, task, enqueued_at,
    finished_at, key, workflow
)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
WHERE NOT EXISTS (SELECT 1 FROM lines)
ON CONFLICT (id) DO NOTHING;

-- name: insert_alike
-- New jobs that differ in nothing but id and envelope, or what is their own in it: the other values are
-- bound once for all of them. The VALUES are repeated for several rows, whose places follow each other behind the newest one.
INSERT INTO jobs (
    id, envelope, phase, state, queue, priority, token, dependencies, pending, visible_at,
    due_at, expires_at, result_ttl, keep_result, on_receipt, max_deliveries, task, enqueued_at,
    finished_at, key, workflow, pattern
)
SELECT new.*, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
FROM (VALUES (?, ?)) AS new
WHERE true
ON CONFLICT (id) DO NOTHING;

-- name: insert_pattern
-- What the envelopes of new jobs have in common. (What was there would be nobody's.)
INSERT OR REPLACE INTO patterns (seq, last, head, middle, tail) VALUES (?, ?, ?, ?, ?);

-- name: insert_envelopes
-- Large envelopes.
INSERT INTO envelopes (seq, data) VALUES (?, ?);

-- name: added
-- The jobs behind that place.
SELECT id, seq FROM jobs WHERE seq > ?;

-- name: stored
-- Which of these ids are stored, in what state, with which result, and why they failed.
SELECT jobs.id, jobs.state, results.codec, results.data, jobs.dead_reason, jobs.failure
FROM json_each(?) AS wanted
JOIN jobs ON jobs.id = wanted.value
LEFT JOIN results ON results.seq = jobs.seq;

-- name: depths
-- How many jobs of a queue are ready, and how many delayed or held. By index, but one by one.
SELECT
    (SELECT count(*) FROM jobs WHERE phase = 2 AND queue = :queue),
    (SELECT count(*) FROM jobs WHERE phase = 3 AND queue = :queue AND due_at IS NOT NULL)
    + (SELECT count(*) FROM jobs WHERE phase <= 1 AND phase = -1 AND queue = :queue);

-- name: promote_all
-- Make due jobs ready.
UPDATE jobs SET phase = 2, due_at = NULL
WHERE phase = 3 AND queue = ? AND due_at IS NOT NULL AND due_at <= ?;

-- name: lowest
-- The first ready jobs of the lowest priority above one.
SELECT seq, priority FROM jobs
WHERE phase = 2 AND queue = :queue AND priority = (
    SELECT priority FROM jobs WHERE phase = 2 AND queue = :queue AND priority > :above
    ORDER BY priority LIMIT 1
)
ORDER BY rank, seq LIMIT :count;

-- name: keys
-- The keys that stand for a job now: of these names, after that instant.
SELECT keys.key, keys.job_id, keys.fingerprint
FROM json_each(?) AS wanted
JOIN keys ON keys.key = wanted.value
WHERE keys.expires_at > ?;

-- name: insert_key
-- Let a key stand for a job; what it stood for before is over.
INSERT OR REPLACE INTO keys (key, job_id, fingerprint, expires_at) VALUES (?, ?, ?, ?);

-- name: insert_edge
-- A job waits for another one, or would have if that had not succeeded.
INSERT INTO edges (parent, child, met) VALUES (?, ?, ?);

-- name: insert_input
-- What a job hands over to those that wait for it.
INSERT OR IGNORE INTO inputs (parent, codec, data) VALUES (?, ?, ?);

-- name: insert_loss
-- How a job ended, for those that run although it did not succeed.
INSERT OR REPLACE INTO losses (parent, data) VALUES (?, ?);
