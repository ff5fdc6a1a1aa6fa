-- name: any_lines
-- Whether any line has turns: mostly not, and then nothing more is asked. (Without EXISTS or LIMIT
-- it takes half the time; one row is fetched.)
SELECT 1 FROM lines;

-- name: present
-- The highest rank that a line has handed out.
SELECT present FROM lines WHERE queue = ? AND priority = ?;

-- name: set_present
-- The highest rank that a line has handed out, from now on.
INSERT OR REPLACE INTO lines (queue, priority, present) VALUES (?, ?, ?);

-- name: served
-- When the last turn that a key had ends.
SELECT ends FROM served WHERE queue = ? AND priority = ? AND key = ?;

-- name: set_served
-- When the last turn that a key had ends, from now on.
INSERT OR REPLACE INTO served (queue, priority, key, ends) VALUES (?, ?, ?, ?);

-- name: last
-- The last turn of a key.
SELECT rank, key, length FROM turns
WHERE queue = ? AND priority = ? AND key = ? ORDER BY rank DESC LIMIT 1;

-- name: enter
-- A new job's turn.
INSERT INTO turns (seq, queue, priority, rank, key, length) VALUES (?, ?, ?, ?, ?, ?);

-- name: set_rank
-- When a job's turn begins.
UPDATE jobs SET rank = ? WHERE seq = ?;

-- name: turns
-- The turns of some jobs.
SELECT queue, priority, rank, key, length FROM turns
WHERE seq IN (SELECT value FROM json_each(?));

-- name: forfeit
-- These jobs never ran: their keys have nothing to pay for.
UPDATE turns SET key = NULL WHERE seq IN (SELECT value FROM json_each(?));

-- name: leave
-- A job went to another line, in which it has no turn.
DELETE FROM turns WHERE seq = ?;

-- name: forget_served
-- Drop what makes no difference any more.
DELETE FROM served WHERE (queue, priority, key) IN (
    SELECT over.queue, over.priority, over.key
    FROM lines CROSS JOIN served AS over
    ON over.queue = lines.queue AND over.priority = lines.priority AND over.ends <= lines.present
);
