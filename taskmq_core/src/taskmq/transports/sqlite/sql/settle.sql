-- name: span
-- Between which places two jobs are.
SELECT min(seq), max(seq) FROM jobs WHERE id IN (?, ?);

-- name: alike
-- The jobs from one to another that run with a token, and whose success has no consequences: their ids in
-- the order of the store (by its key), how many, their places, and whether their results are kept.
SELECT group_concat(id), count(*), min(seq), max(seq), min(keep_result), max(keep_result)
FROM jobs
WHERE seq BETWEEN (SELECT seq FROM jobs WHERE id = ?) AND (SELECT seq FROM jobs WHERE id = ?)
AND phase = 4 AND token = ? AND dependencies = 0 AND result_ttl > 0 AND limits IS NULL
AND envelope IS NOT NULL;

-- name: examine_between
-- The same as examine, of all jobs between two places.
SELECT
    seq, id, phase, token, settled_as, keep_result, result_ttl, dependencies, limits,
    envelope IS NULL
FROM jobs WHERE seq BETWEEN ? AND ?;

-- name: examine
-- What decides whether a settlement counts, and what an acknowledgement needs to know.
SELECT
    seq, id, phase, token, settled_as, keep_result, result_ttl, dependencies, limits,
    envelope IS NULL
FROM jobs WHERE id IN (SELECT value FROM json_each(?));

-- name: load
-- All that the end of a delivery may change, in the order of rows.Row.
SELECT
    seq, id, phase, state, settled_as, attempt, deliveries, reclaims, yields, cancel_requested,
    visible_at, due_at, task, queue, priority, expires_at, result_ttl, keep_result, on_receipt,
    max_deliveries, started_at, finished_at, worker, parked_reason, parked_at, park_until,
    dead_reason, failure, history, limits, gate
FROM jobs WHERE seq IN (SELECT value FROM json_each(?));

-- name: save
-- The same, back.
UPDATE jobs SET
    phase = :phase, state = :state, settled_as = :settled_as, attempt = :attempt,
    deliveries = :deliveries, reclaims = :reclaims, yields = :yields,
    cancel_requested = :cancel_requested, visible_at = :visible_at, due_at = :due_at,
    task = :task, queue = :queue, priority = :priority, expires_at = :expires_at,
    result_ttl = :result_ttl, keep_result = :keep_result, on_receipt = :on_receipt,
    max_deliveries = :max_deliveries, started_at = :started_at, finished_at = :finished_at,
    worker = :worker, parked_reason = :parked_reason, parked_at = :parked_at,
    park_until = :park_until, dead_reason = :dead_reason, failure = :failure, history = :history,
    limits = :limits, gate = :gate
WHERE seq = :seq;

-- name: succeed
-- RUNNING to SUCCEEDED, for many at once. See rows.update_many.
UPDATE OR ROLLBACK jobs SET
    phase = 5, state = 'SUCCEEDED', settled_as = 'ack', finished_at = ?, due_at = ? + result_ttl,
    failure = NULL, parked_reason = NULL, parked_at = NULL, park_until = NULL, envelope = NULL
WHERE seq IN (SELECT value FROM json_each(?));

-- name: drop_envelopes
-- The large envelopes of jobs that will not run again.
DELETE FROM envelopes WHERE seq IN (SELECT value FROM json_each(?));

-- name: insert_results
-- Results. The values are repeated for several rows in one statement.
INSERT INTO results (seq, codec, data) VALUES (?, ?, ?);

-- name: replace_envelope
-- Another envelope for a job; NULL: a large one.
UPDATE jobs SET envelope = ?, pattern = NULL WHERE seq = ?;

-- name: expire
-- EXPIRED, for many at once.
UPDATE jobs SET
    phase = 5, state = 'EXPIRED', finished_at = :now, due_at = :now + result_ttl, gate = NULL,
    parked_reason = NULL, parked_at = NULL, park_until = NULL
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: revoke
-- REVOKED, for many at once that have not started.
UPDATE jobs SET
    phase = 5, state = 'REVOKED', finished_at = :now, due_at = :now + result_ttl, gate = NULL,
    revoked_by = :by, revoked_at = :now,
    parked_reason = NULL, parked_at = NULL, park_until = NULL
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: ask_to_stop
-- Running jobs are asked to stop: 1, or to be ended by force: 2, which is not taken back.
UPDATE jobs SET
    cancel_requested = max(cancel_requested, :how),
    revoked_by = CASE WHEN revoked_at IS NULL THEN :by ELSE revoked_by END,
    revoked_at = coalesce(revoked_at, :now)
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: forget_revocation
-- Jobs that run again although somebody had asked them to stop.
UPDATE jobs SET revoked_by = NULL, revoked_at = NULL
WHERE revoked_at IS NOT NULL AND seq IN (SELECT value FROM json_each(?));

-- name: delete
-- Delete jobs, with all that belongs to them.
DELETE FROM jobs WHERE seq IN (SELECT value FROM json_each(?));

-- name: holders
-- What decides whether a delivery is still current.
SELECT seq, id, phase, token, cancel_requested
FROM jobs WHERE id IN (SELECT value FROM json_each(?));

-- name: extend
-- Let leases end at another instant.
UPDATE jobs SET due_at = ? WHERE seq IN (SELECT value FROM json_each(?));
