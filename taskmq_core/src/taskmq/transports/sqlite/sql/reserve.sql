-- name: survey
-- What there is to do for some queues: for each the highest ready priority, the earliest future
-- visibility, lease end and expiry. Four look-ups in an index each, however many jobs there are.
SELECT
    wanted.value,
    (SELECT priority FROM jobs WHERE phase = 2 AND queue = wanted.value
     ORDER BY priority DESC LIMIT 1),
    (SELECT due_at FROM jobs WHERE phase = 3 AND queue = wanted.value AND due_at IS NOT NULL
     ORDER BY due_at LIMIT 1),
    (SELECT due_at FROM jobs WHERE phase = 4 AND queue = wanted.value AND due_at IS NOT NULL
     ORDER BY due_at LIMIT 1),
    (SELECT expires_at FROM jobs WHERE phase IN (-1, 0, 2, 3) AND queue = wanted.value
     AND expires_at IS NOT NULL ORDER BY expires_at LIMIT 1)
FROM json_each(?) AS wanted;

-- name: tops
-- The highest ready priority of each of these queues.
SELECT
    wanted.value,
    (SELECT priority FROM jobs WHERE phase = 2 AND queue = wanted.value
     ORDER BY priority DESC LIMIT 1)
FROM json_each(?) AS wanted;

-- name: available
-- How many jobs of a queue are ready with a priority; no more than a limit are counted.
SELECT count(*) FROM (
    SELECT 1 FROM jobs WHERE phase = 2 AND queue = ? AND priority = ? LIMIT ?
);

-- name: claim
-- The most urgent ready jobs of a queue that have not expired, in the order of the store.
SELECT
    jobs.seq, jobs.id, jobs.priority, jobs.token, jobs.attempt, jobs.deliveries, jobs.reclaims,
    jobs.yields, jobs.dependencies, jobs.parked_at,
    coalesce(jobs.envelope, (SELECT data FROM envelopes WHERE envelopes.seq = jobs.seq)),
    jobs.rank > 0 OR jobs.limits IS NOT NULL, jobs.pattern
FROM jobs
WHERE jobs.phase = 2 AND jobs.queue = ? AND (jobs.expires_at IS NULL OR jobs.expires_at > ?)
ORDER BY jobs.priority DESC, jobs.rank, jobs.seq
LIMIT ?;

-- name: claim_level
-- The same, of one priority only.
SELECT
    jobs.seq, jobs.id, jobs.priority, jobs.token, jobs.attempt, jobs.deliveries, jobs.reclaims,
    jobs.yields, jobs.dependencies, jobs.parked_at,
    coalesce(jobs.envelope, (SELECT data FROM envelopes WHERE envelopes.seq = jobs.seq)),
    jobs.rank > 0 OR jobs.limits IS NOT NULL, jobs.pattern
FROM jobs
WHERE jobs.phase = 2 AND jobs.queue = ? AND jobs.priority = ?
AND (jobs.expires_at IS NULL OR jobs.expires_at > ?)
ORDER BY jobs.rank, jobs.seq
LIMIT ?;

-- name: claim_named
-- The same, of these jobs and queues only, in any order; the queue comes last. (Few are named: the plus
-- signs keep SQLite from going through all that are ready.)
SELECT
    jobs.seq, jobs.id, jobs.priority, jobs.token, jobs.attempt, jobs.deliveries, jobs.reclaims,
    jobs.yields, jobs.dependencies, jobs.parked_at,
    coalesce(jobs.envelope, (SELECT data FROM envelopes WHERE envelopes.seq = jobs.seq)),
    jobs.rank > 0 OR jobs.limits IS NOT NULL, jobs.pattern, jobs.queue
FROM json_each(:jobs) AS named
CROSS JOIN jobs ON jobs.id = named.value
WHERE +jobs.phase = 2 AND (jobs.expires_at IS NULL OR jobs.expires_at > :now)
AND +jobs.queue IN (SELECT value FROM json_each(:queues));

-- name: patterns
-- What the envelopes of jobs have in common.
SELECT seq, head, middle, tail FROM patterns WHERE seq IN (SELECT value FROM json_each(?));

-- name: controlled
-- The limits and turns of some jobs.
SELECT seq, limits, rank FROM jobs WHERE seq IN (SELECT value FROM json_each(?));

-- name: lease
-- Lease jobs to a worker. The counters are raised before the worker sees the delivery. See
-- rows.update_many.
UPDATE OR ROLLBACK jobs SET
    phase = 4, state = 'RUNNING', token = token + 1, settled_as = NULL,
    deliveries = deliveries + 1, due_at = ?, started_at = ?, worker = ?
WHERE seq IN (SELECT value FROM json_each(?));

-- name: inputs
-- What was handed over to these jobs.
SELECT edges.child, edges.parent,
    coalesce(inputs.codec, results.codec), coalesce(inputs.data, results.data)
FROM json_each(?) AS wanted
JOIN edges ON edges.child = wanted.value AND edges.met = 1
LEFT JOIN jobs ON jobs.id = edges.parent
LEFT JOIN results ON results.seq = jobs.seq
LEFT JOIN inputs ON results.seq IS NULL AND inputs.parent = edges.parent
WHERE coalesce(inputs.codec, results.codec) IS NOT NULL;

-- name: losses
-- How those ended that these jobs waited for, and that did not succeed.
SELECT edges.child, edges.parent, losses.data
FROM json_each(?) AS wanted
JOIN edges ON edges.child = wanted.value AND edges.met = 2
JOIN losses ON losses.parent = edges.parent;

-- name: promote
-- Make due jobs ready.
UPDATE jobs SET phase = 2, due_at = NULL
WHERE seq IN (
    SELECT seq FROM jobs WHERE phase = 3 AND queue = ? AND due_at IS NOT NULL AND due_at <= ?
    ORDER BY due_at LIMIT ?
);

-- name: overdue
-- The running jobs of a queue whose lease has ended.
SELECT seq FROM jobs
WHERE phase = 4 AND queue = ? AND due_at IS NOT NULL AND due_at <= ?
ORDER BY due_at LIMIT ?;

-- name: held_by
-- The running jobs of a worker. (All running jobs are looked at: there are few.)
SELECT seq FROM jobs WHERE phase = 4 AND due_at IS NOT NULL AND worker = ?;

-- name: expired
-- The jobs of a queue that nobody started in time.
SELECT seq, id, task, limits, priority, phase FROM jobs
WHERE phase IN (-1, 0, 2, 3) AND queue = ? AND expires_at IS NOT NULL AND expires_at <= ?
ORDER BY expires_at LIMIT ?;
