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

-- name: pause_workflow
-- Let nobody reserve a job of a workflow, unless that is so already, or no job of it is stored.
INSERT OR IGNORE INTO paused_workflows (workflow, by, paused_at, reason)
SELECT :workflow, :by, :at, :reason WHERE EXISTS (SELECT 1 FROM jobs WHERE workflow = :workflow);

-- name: resume_workflow
-- End a pause.
DELETE FROM paused_workflows WHERE workflow = ?;

-- name: paused_workflows
-- Every paused workflow, by id.
SELECT workflow, by, paused_at, reason FROM paused_workflows ORDER BY workflow;

-- name: any_paused_workflow
-- Whether there is one: every reservation asks.
SELECT EXISTS (SELECT 1 FROM paused_workflows);

-- name: stopped
-- Which of some jobs are of a paused workflow, and their limits.
SELECT seq, workflow, limits FROM jobs
WHERE seq IN (SELECT value FROM json_each(?))
AND workflow IN (SELECT workflow FROM paused_workflows);

-- name: any_idle_pause
-- Whether a workflow is paused none of whose jobs is left.
SELECT EXISTS (
    SELECT 1 FROM paused_workflows
    WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.workflow = paused_workflows.workflow)
);

-- name: forget_idle_pauses
-- Forget those.
DELETE FROM paused_workflows
WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.workflow = paused_workflows.workflow);
