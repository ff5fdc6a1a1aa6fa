-- The store, version 1. docs/reference/sqlite.md draws it.
--
-- `phase` says where a job stands, for the indexes; `state` what it is, for people:
--  -1 held       behind `gate`                        QUEUED, RETRYING
--   0 waiting    for other jobs                        WAITING
--   1 dead       in the dead letters                   FAILED
--   2 ready      reservable                            QUEUED, RETRYING
--   3 delayed    reservable from `due_at` on           QUEUED, RETRYING
--   4 running    leased until `due_at`                 RUNNING
--   5 finished   kept until `due_at`                   SUCCEEDED, EXPIRED, REVOKED, SKIPPED
-- Each partial index holds the rows of its phases only, so that a claim costs the same beside a
-- million delayed or finished jobs.

CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY,  -- the order of the store
    id TEXT NOT NULL UNIQUE,
    phase INTEGER NOT NULL,
    state TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    token INTEGER NOT NULL,  -- of the newest delivery; raised by each
    settled_as TEXT,  -- how the newest delivery ended, if it was settled
    attempt INTEGER NOT NULL DEFAULT 1,
    deliveries INTEGER NOT NULL DEFAULT 0,
    reclaims INTEGER NOT NULL DEFAULT 0,
    yields INTEGER NOT NULL DEFAULT 0,
    dependencies INTEGER NOT NULL DEFAULT 0,
    pending INTEGER NOT NULL DEFAULT 0,  -- dependencies that are still awaited
    cancel_requested INTEGER NOT NULL DEFAULT 0,  -- 1: asked to stop, 2: to be ended by force
    visible_at REAL NOT NULL,
    due_at REAL,
    expires_at REAL,
    result_ttl REAL NOT NULL,
    keep_result INTEGER NOT NULL,
    on_receipt INTEGER NOT NULL,
    max_deliveries INTEGER NOT NULL,
    task TEXT NOT NULL,
    enqueued_at REAL NOT NULL,
    started_at REAL,
    finished_at REAL,
    worker TEXT,
    key TEXT,
    workflow TEXT,
    rank INTEGER NOT NULL DEFAULT 0,  -- when its turn begins; 0 if it has none
    limits TEXT,  -- JSON list of limits.Limit, if there are any
    gate TEXT,  -- of one: 'held …' behind it, 'next …' in its lane, or 'runs …' behind it
    parked_reason TEXT,
    parked_at REAL,
    park_until REAL,
    dead_reason TEXT,
    revoked_by TEXT,  -- who revoked it first, and when
    revoked_at REAL,
    failure TEXT,  -- JSON of records.Failure
    history TEXT,  -- JSON list of records.HistoryEntry
    pattern INTEGER,  -- of `patterns`, if `envelope` is only what is its own
    envelope BLOB,  -- until it has succeeded; a large one is in `envelopes`
    -- The likeliest first: SQLite stops at the first that holds.
    CHECK (
        (phase = 2 AND (state = 'QUEUED' OR state = 'RETRYING'))
        OR (phase = 4 AND state = 'RUNNING')
        OR (phase = 5 AND (state = 'SUCCEEDED' OR state = 'EXPIRED' OR state = 'REVOKED'
                           OR state = 'SKIPPED'))
        OR (phase = 3 AND (state = 'QUEUED' OR state = 'RETRYING'))
        OR (phase = -1 AND (state = 'QUEUED' OR state = 'RETRYING'))
        OR (phase = 0 AND state = 'WAITING')
        OR (phase = 1 AND state = 'FAILED')
    ),
    CHECK ((due_at IS NOT NULL) = (phase >= 3))
);

CREATE INDEX jobs_ready ON jobs (queue, priority DESC, rank, seq, visible_at, phase)
    WHERE phase = 2;
CREATE INDEX jobs_timed ON jobs (phase, queue, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_resting ON jobs (phase, queue) WHERE phase <= 1;
CREATE INDEX jobs_expiring ON jobs (queue, expires_at)
    WHERE expires_at IS NOT NULL AND phase IN (-1, 0, 2, 3);
-- Only jobs with limits or of a paused workflow have a gate, and only while they are not finished. It
-- says the phase as well, so that a change of phase leaves this index alone.
CREATE INDEX jobs_gated ON jobs (gate, queue, priority DESC, rank, seq) WHERE gate IS NOT NULL;
CREATE INDEX jobs_workflow ON jobs (workflow, seq) WHERE workflow IS NOT NULL;
CREATE INDEX jobs_revoked ON jobs (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX jobs_parked ON jobs (park_until, task) WHERE park_until IS NOT NULL;

-- Large envelopes, apart from the jobs, whose rows are rewritten with every change: one is written
-- once, and deleted when its job has succeeded. A small one costs less in its job's row.
CREATE TABLE envelopes (
    seq INTEGER PRIMARY KEY,
    data BLOB NOT NULL
);

-- What the envelopes of jobs have in common that were stored at once: for them to have short rows.
-- It is there as long as one of them is.
CREATE TABLE patterns (
    seq INTEGER PRIMARY KEY,  -- of the first
    last INTEGER NOT NULL,  -- the place of the last one
    head BLOB NOT NULL,  -- up to the id
    middle BLOB NOT NULL,  -- from there to what is a job's own
    tail BLOB NOT NULL
);

CREATE TABLE results (
    seq INTEGER PRIMARY KEY,
    codec TEXT NOT NULL,
    data BLOB NOT NULL
);

-- Job `child` waits, or waited, for job `parent`.
CREATE TABLE edges (
    parent TEXT NOT NULL,
    child INTEGER NOT NULL,
    met INTEGER NOT NULL,  -- 1: it has succeeded, 2: it is lost, and `child` runs all the same
    PRIMARY KEY (parent, child)
) WITHOUT ROWID;

CREATE INDEX edges_by_child ON edges (child, parent);

-- What a parent handed over and does not keep itself: one copy, for all of its edges and as long as
-- there is one. Where its result is kept that is read, and comes here when the job is deleted.
CREATE TABLE inputs (
    parent TEXT PRIMARY KEY,
    codec TEXT NOT NULL,
    data BLOB NOT NULL
);

-- How a parent ended, for children that run although it did not succeed. JSON of records.Loss.
CREATE TABLE losses (
    parent TEXT PRIMARY KEY,
    data TEXT NOT NULL
);

-- What few jobs have, and no others need a column for.
CREATE TABLE nodes (
    seq INTEGER PRIMARY KEY,
    run_if TEXT NOT NULL,
    fail_fast INTEGER NOT NULL,
    delegated_to TEXT
);

CREATE TABLE keys (
    key TEXT PRIMARY KEY,
    job_id TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    expires_at REAL NOT NULL
) WITHOUT ROWID;

CREATE INDEX keys_expiring ON keys (expires_at);

-- What a rate limit remembers: when the next job would be due if all came evenly spaced.
CREATE TABLE rates (
    gate TEXT PRIMARY KEY,
    until REAL NOT NULL
) WITHOUT ROWID;

CREATE INDEX rates_over ON rates (until);

-- Whose turn a job takes, in a line that has turns, and how long it is. Apart from the jobs: their
-- rows are rewritten with every change, and most have none.
CREATE TABLE turns (
    seq INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    key TEXT,  -- NULL if nobody has to pay for it
    length INTEGER NOT NULL
);

CREATE INDEX turns_last ON turns (key, queue, priority, rank);

-- The lines (a queue and a priority) that have turns, and the highest rank that was handed out.
CREATE TABLE lines (
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    present INTEGER NOT NULL,
    PRIMARY KEY (queue, priority)
) WITHOUT ROWID;

-- When the last turn of a key that was handed out ends.
CREATE TABLE served (
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    key TEXT NOT NULL,
    ends INTEGER NOT NULL,
    PRIMARY KEY (queue, priority, key)
) WITHOUT ROWID;

CREATE INDEX served_over ON served (queue, priority, ends);

CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    record TEXT NOT NULL  -- JSON of records.WorkerRecord
) WITHOUT ROWID;

CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    expires_at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX leases_by_end ON leases (expires_at);

-- The queues that nobody reserves from.
CREATE TABLE paused (
    queue TEXT PRIMARY KEY,
    by TEXT NOT NULL,
    paused_at REAL NOT NULL,
    reason TEXT NOT NULL
) WITHOUT ROWID;

-- The workflows of which nothing more is reserved. What was ready of one is held behind the gate
-- 'workflow:ID' once its turn has come.
CREATE TABLE paused_workflows (
    workflow TEXT PRIMARY KEY,
    by TEXT NOT NULL,
    paused_at REAL NOT NULL,
    reason TEXT NOT NULL
) WITHOUT ROWID;

-- What programs share, by kind and name.
CREATE TABLE documents (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    data BLOB NOT NULL,
    revision TEXT NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;

-- Nothing that belongs to a job outlives it, whatever deletes it.
CREATE TRIGGER jobs_delete AFTER DELETE ON jobs
BEGIN
    INSERT OR IGNORE INTO inputs (parent, codec, data)
    SELECT old.id, codec, data FROM results
    WHERE seq = old.seq AND EXISTS (SELECT 1 FROM edges WHERE parent = old.id AND met = 1);
    DELETE FROM envelopes WHERE seq = old.seq;
    DELETE FROM results WHERE seq = old.seq;
    DELETE FROM edges WHERE child = old.seq;
    DELETE FROM nodes WHERE seq = old.seq;
    DELETE FROM turns WHERE seq = old.seq AND old.rank > 0;
    DELETE FROM patterns WHERE seq = old.pattern AND NOT EXISTS (
        SELECT 1 FROM jobs
        WHERE seq BETWEEN patterns.seq AND patterns.last AND pattern = patterns.seq
    );
END;

CREATE TRIGGER jobs_pattern AFTER UPDATE OF pattern ON jobs
BEGIN
    DELETE FROM patterns WHERE seq = old.pattern AND NOT EXISTS (
        SELECT 1 FROM jobs
        WHERE seq BETWEEN patterns.seq AND patterns.last AND pattern = patterns.seq
    );
END;

CREATE TRIGGER edges_delete AFTER DELETE ON edges
WHEN NOT EXISTS (SELECT 1 FROM edges WHERE parent = old.parent)
BEGIN
    DELETE FROM inputs WHERE parent = old.parent;
    DELETE FROM losses WHERE parent = old.parent;
END;
