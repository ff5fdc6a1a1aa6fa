-- name: register
-- The newest description of a worker; not that of a predecessor, held up on its way.
INSERT INTO workers (id, record) VALUES (?, ?)
ON CONFLICT (id) DO UPDATE SET record = excluded.record
WHERE json_extract(workers.record, '$.started_at') <= json_extract(excluded.record, '$.started_at')
   OR json_extract(workers.record, '$.heartbeat_at')
      <= json_extract(excluded.record, '$.heartbeat_at');

-- name: deregister
-- A worker left.
DELETE FROM workers WHERE id = ?;

-- name: workers
-- Every worker, by id.
SELECT record FROM workers ORDER BY id;

-- name: entry
-- What one worker said of itself.
SELECT record FROM workers WHERE id = ?;

-- name: silent
-- Whether there is a worker that was not heard since an instant.
SELECT EXISTS (SELECT 1 FROM workers WHERE json_extract(record, '$.heartbeat_at') <= ?);

-- name: forget
-- Drop the workers that were not heard since an instant.
DELETE FROM workers WHERE json_extract(record, '$.heartbeat_at') <= ?;

-- name: holder
-- Who has a named lease at an instant.
SELECT owner FROM leases WHERE name = ? AND expires_at > ?;

-- name: acquire
-- Take or renew a named lease, unless somebody else has it.
INSERT INTO leases (name, owner, expires_at) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
WHERE leases.owner = excluded.owner OR leases.expires_at <= ?;

-- name: surrender
-- Give a named lease up.
DELETE FROM leases WHERE name = ? AND owner = ? AND expires_at > ?;

-- name: next_lease_end
-- When the first named lease ends.
SELECT min(expires_at) FROM leases;

-- name: retire_leases
-- Forget named leases that have ended.
DELETE FROM leases WHERE name IN (
    SELECT name FROM leases WHERE expires_at <= ? ORDER BY expires_at LIMIT ?
);
