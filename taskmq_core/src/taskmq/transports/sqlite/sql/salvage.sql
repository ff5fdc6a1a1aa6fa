-- name: adopt
-- A job that was made from an envelope without one becomes a dead letter.
UPDATE jobs SET
    phase = 1, state = 'FAILED', due_at = NULL, finished_at = ?, dead_reason = 'salvaged'
WHERE seq = ?;

-- name: orphans
-- Envelopes whose job is lost.
SELECT seq, data FROM envelopes WHERE seq NOT IN (SELECT seq FROM jobs);

-- name: discard_orphans
-- What belongs to jobs that are lost for good.
DELETE FROM envelopes WHERE seq NOT IN (SELECT seq FROM jobs);

-- name: discard_results
-- What belongs to jobs that are lost for good.
DELETE FROM results WHERE seq NOT IN (SELECT seq FROM jobs);

-- name: discard_edges
-- What belongs to jobs that are lost for good.
DELETE FROM edges WHERE child NOT IN (SELECT seq FROM jobs);

-- name: discard_patterns
-- What belongs to jobs that are lost for good.
DELETE FROM patterns WHERE seq NOT IN (SELECT pattern FROM jobs WHERE pattern IS NOT NULL);

-- name: drop_parts
-- An envelope is lost if only what is its own is there.
UPDATE jobs SET envelope = NULL, pattern = NULL
WHERE pattern NOT IN (SELECT seq FROM patterns);

-- name: give_up_empty
-- Unfinished jobs whose envelope is lost cannot run.
UPDATE jobs SET
    phase = 1, state = 'FAILED', due_at = NULL, finished_at = ?, dead_reason = 'salvaged',
    parked_reason = NULL, parked_at = NULL, park_until = NULL
WHERE phase IN (-1, 0, 2, 3, 4) AND envelope IS NULL AND seq NOT IN (SELECT seq FROM envelopes);

-- name: fill_empty
-- A dead letter has an envelope, if only an empty one.
UPDATE jobs SET envelope = x''
WHERE phase = 1 AND envelope IS NULL AND seq NOT IN (SELECT seq FROM envelopes);

-- name: give_up_unlinked
-- Jobs would wait for ever if what they wait for is lost, or too short if they no longer know it.
UPDATE jobs SET
    phase = 1, state = 'FAILED', finished_at = ?, dead_reason = 'salvaged'
WHERE phase = 0 AND (
    dependencies > (SELECT count(*) FROM edges WHERE edges.child = jobs.seq)
    OR EXISTS (
        SELECT 1 FROM edges
        WHERE edges.child = jobs.seq AND edges.met = 0
        AND edges.parent NOT IN (SELECT id FROM jobs)
    )
);

-- name: count_pending
-- How much is left to wait for.
UPDATE jobs SET
    pending = (SELECT count(*) FROM edges WHERE edges.child = jobs.seq AND edges.met = 0)
WHERE dependencies > 0;

-- name: let_go
-- Who was held stands in line again, until a limit holds it.
UPDATE jobs SET phase = CASE WHEN phase = -1 THEN 2 ELSE phase END, gate = NULL
WHERE gate IS NOT NULL AND phase IN (-1, 2, 3);

-- name: envelopes
-- How many there are, in the rows of jobs and apart.
SELECT
    (SELECT count(*) FROM jobs WHERE envelope IS NOT NULL) + (SELECT count(*) FROM envelopes);

-- name: given_up
-- The dead letters that this made.
SELECT count(*) FROM jobs WHERE dead_reason = 'salvaged';
