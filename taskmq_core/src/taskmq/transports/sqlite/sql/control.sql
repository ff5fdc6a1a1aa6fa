-- name: pause
-- Let nobody reserve from a queue, unless that is so already.
INSERT OR IGNORE INTO paused (queue, by, paused_at, reason) VALUES (?, ?, ?, ?);

-- name: resume
-- End a pause.
DELETE FROM paused WHERE queue = ?;

-- name: paused
-- Every paused queue, by name.
SELECT queue, by, paused_at, reason FROM paused ORDER BY queue;

-- name: names
-- The same, in short: every reservation asks.
SELECT queue FROM paused;
