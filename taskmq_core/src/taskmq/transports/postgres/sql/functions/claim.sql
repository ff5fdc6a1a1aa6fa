-- What can be handed out, and taking it: beside others, or alone where limits and turns decide.

-- What there is to do for some queues: for each the highest ready priority; the earliest future
-- visibility, lease end and expiry of all. Four look-ups in an index for each queue.
CREATE OR REPLACE FUNCTION taskmq.survey(
    p_queues text[], OUT tops integer[], OUT visible_at double precision,
    OUT lease_until double precision, OUT expires_at double precision
) LANGUAGE plpgsql AS $$
DECLARE
    q text;
    v_at double precision;
BEGIN
    tops := '{}';
    FOREACH q IN ARRAY p_queues LOOP
        tops := tops || (SELECT jobs.priority::integer FROM taskmq.jobs
            WHERE jobs.phase = 2 AND jobs.queue = q ORDER BY jobs.priority DESC LIMIT 1);
        SELECT jobs.visible_at INTO v_at FROM taskmq.jobs
            WHERE jobs.phase = 3 AND jobs.queue = q ORDER BY jobs.visible_at LIMIT 1;
        visible_at := least(visible_at, v_at);
        SELECT due_at INTO v_at FROM taskmq.handouts
            WHERE queue = q ORDER BY due_at LIMIT 1;
        lease_until := least(lease_until, v_at);
        SELECT jobs.expires_at INTO v_at FROM taskmq.jobs
            WHERE jobs.phase IN (-1, 0, 2, 3) AND jobs.queue = q AND jobs.expires_at IS NOT NULL
            ORDER BY jobs.expires_at LIMIT 1;
        expires_at := least(expires_at, v_at);
    END LOOP;
END $$;

-- The highest ready priorities of some queues; NULL where the quota is used up.
CREATE OR REPLACE FUNCTION taskmq.tops(p_queues text[], p_left integer[])
RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    v_tops integer[] := '{}';
BEGIN
    FOR i IN 1 .. cardinality(p_queues) LOOP
        v_tops := v_tops || CASE WHEN coalesce(p_left[i], 1) > 0 THEN (
            SELECT jobs.priority::integer FROM taskmq.jobs
            WHERE jobs.phase = 2 AND jobs.queue = p_queues[i] ORDER BY jobs.priority DESC LIMIT 1
        ) END;
    END LOOP;
    RETURN v_tops;
END $$;

-- List jobs that have just been leased, and give them as the worker gets them.
CREATE OR REPLACE FUNCTION taskmq.handed(p_seqs bigint[])
RETURNS SETOF taskmq.answer LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO taskmq.handouts (id, due_at, held, queue, worker, seqs)
    SELECT handout, lease_until, count(*), queue, worker, array_agg(seq)
    FROM taskmq.jobs WHERE seq = ANY (p_seqs) GROUP BY handout, lease_until, queue, worker;
    RETURN QUERY
        SELECT 'job', id, queue, priority::integer, token, attempt, deliveries, reclaims, yields,
            parked_at, envelope, NULL
        FROM taskmq.jobs JOIN unnest(p_seqs) WITH ORDINALITY AS a (place, n) ON seq = place
        ORDER BY n;
END $$;

-- Lease the first ready jobs of a queue, of one priority or (NULL) any, beside others who do so.
-- A row that is locked stays where it is: it need not be looked up again for its change.
CREATE OR REPLACE FUNCTION taskmq.claim(
    p_queue text, p_level integer, p_count integer, p_now double precision,
    p_lease_until double precision, p_worker text, p_handout bigint, p_stopped text[]
) RETURNS SETOF taskmq.answer LANGUAGE plpgsql AS $$
BEGIN
    IF p_level IS NULL THEN
        RETURN QUERY
            WITH leased AS (
                UPDATE taskmq.jobs SET
                    phase = 4, state = 'RUNNING', settled_as = NULL,
                    token = greatest(token, seq << 20) + 1, handout = p_handout,
                    deliveries = deliveries + 1, lease_until = p_lease_until, started_at = p_now,
                    worker = p_worker
                WHERE ctid = ANY (ARRAY(
                    SELECT ctid FROM taskmq.jobs
                    WHERE phase = 2 AND queue = p_queue
                    AND (expires_at IS NULL OR expires_at > p_now) AND limits IS NULL AND rank = 0
                    AND (p_stopped IS NULL OR workflow IS NULL OR workflow <> ALL (p_stopped))
                    ORDER BY priority DESC, rank, seq LIMIT p_count FOR UPDATE SKIP LOCKED))
                RETURNING seq, id, queue, priority, token, attempt, deliveries, reclaims, yields,
                    parked_at, envelope
            ), listed AS (
                INSERT INTO taskmq.handouts (id, due_at, held, queue, worker, seqs)
                SELECT p_handout, p_lease_until, count(*), p_queue, p_worker, array_agg(seq)
                FROM leased HAVING count(*) > 0
            )
            SELECT 'job', id, queue, priority::integer, token, attempt, deliveries, reclaims, yields,
                parked_at, envelope, NULL
            FROM leased ORDER BY priority DESC, seq;
    ELSE
        RETURN QUERY
            WITH leased AS (
                UPDATE taskmq.jobs SET
                    phase = 4, state = 'RUNNING', settled_as = NULL,
                    token = greatest(token, seq << 20) + 1, handout = p_handout,
                    deliveries = deliveries + 1, lease_until = p_lease_until, started_at = p_now,
                    worker = p_worker
                WHERE ctid = ANY (ARRAY(
                    SELECT ctid FROM taskmq.jobs
                    WHERE phase = 2 AND queue = p_queue AND priority = p_level
                    AND (expires_at IS NULL OR expires_at > p_now) AND limits IS NULL AND rank = 0
                    AND (p_stopped IS NULL OR workflow IS NULL OR workflow <> ALL (p_stopped))
                    ORDER BY rank, seq LIMIT p_count FOR UPDATE SKIP LOCKED))
                RETURNING seq, id, queue, priority, token, attempt, deliveries, reclaims, yields,
                    parked_at, envelope
            ), listed AS (
                INSERT INTO taskmq.handouts (id, due_at, held, queue, worker, seqs)
                SELECT p_handout, p_lease_until, count(*), p_queue, p_worker, array_agg(seq)
                FROM leased HAVING count(*) > 0
            )
            SELECT 'job', id, queue, priority::integer, token, attempt, deliveries, reclaims, yields,
                parked_at, envelope, NULL
            FROM leased ORDER BY priority DESC, seq;
    END IF;
END $$;

-- Hold the jobs of paused workflows that are among the first ready ones of a queue, so that nobody
-- has to step over them again; how many are held.
CREATE OR REPLACE FUNCTION taskmq.stop(
    p_queue text, p_level integer, p_stopped text[], INOUT held integer
) LANGUAGE plpgsql AS $$
DECLARE
    v_seqs bigint[];
    v_count integer;
BEGIN
    LOOP
        v_seqs := ARRAY(
            SELECT seq FROM taskmq.jobs
            WHERE phase = 2 AND queue = p_queue AND (p_level IS NULL OR priority = p_level)
            ORDER BY priority DESC, rank, seq LIMIT 200);
        UPDATE taskmq.jobs SET phase = -1, gate = 'held workflow:' || workflow
        WHERE seq IN (
            SELECT seq FROM taskmq.jobs
            WHERE seq = ANY (v_seqs) AND phase = 2 AND workflow = ANY (p_stopped)
            AND limits IS NULL AND rank = 0 FOR UPDATE SKIP LOCKED);
        GET DIAGNOSTICS v_count = ROW_COUNT;
        held := held + v_count;
        EXIT WHEN v_count = 0 OR held >= 5000;
    END LOOP;
END $$;

-- The same, alone: jobs with limits ask their gates, and are held where they may not pass; those
-- with turns are served. Also the lanes that have to be seen to, and how many are held.
CREATE OR REPLACE FUNCTION taskmq.claim_alone(
    p_queue text, p_level integer, p_count integer, p_now double precision,
    p_lease_until double precision, p_worker text, p_handout bigint,
    p_stopped text[], INOUT lanes taskmq.lane[], INOUT held integer, OUT seqs bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    r record;
    v_gate text;
    v_is_stale boolean := true;
    v_filled taskmq.lane[] := '{}';  -- of rates: as many represent them as may pass
BEGIN
    seqs := '{}';
    WHILE v_is_stale LOOP
        v_is_stale := false;
        FOR r IN
            SELECT seq, priority, limits, rank, workflow FROM taskmq.jobs
            WHERE phase = 2 AND queue = p_queue AND (p_level IS NULL OR priority = p_level)
            AND (expires_at IS NULL OR expires_at > p_now)
            ORDER BY priority DESC, rank, seq
        LOOP
            -- Some 50 ms of holding in one exchange: then others may come in between.
            EXIT WHEN v_is_stale OR cardinality(seqs) >= p_count OR held >= 5000;
            v_gate := NULL;
            IF r.workflow = ANY (p_stopped) THEN
                lanes := lanes || taskmq.lanes_of(r.limits, p_queue, r.priority);
                v_gate := 'workflow:' || r.workflow;
            ELSIF r.limits IS NOT NULL THEN
                lanes := lanes || taskmq.lanes_of(r.limits, p_queue, r.priority);
                v_gate := taskmq.admit(r.limits, p_now);
            END IF;
            IF v_gate IS NOT NULL THEN
                UPDATE taskmq.jobs SET phase = -1, gate = 'held ' || v_gate WHERE seq = r.seq;
                held := held + 1;
            ELSE
                UPDATE taskmq.jobs SET
                    phase = 4, state = 'RUNNING', settled_as = NULL, handout = p_handout,
                    token = greatest(token, seq << 20) + 1, deliveries = deliveries + 1,
                    lease_until = p_lease_until, started_at = p_now, worker = p_worker,
                    gate = CASE WHEN limits IS NOT NULL THEN 'runs ' || taskmq.concurrency_gate(limits) END
                WHERE seq = r.seq;
                IF r.rank > 0 THEN
                    PERFORM taskmq.serve(r.seq);
                END IF;
                seqs := seqs || r.seq;
            END IF;
            IF r.limits IS NOT NULL THEN
                SELECT * INTO v_filled, v_is_stale
                FROM taskmq.press_on(r.limits, p_queue, r.priority, v_gate, p_now, v_filled);
            END IF;
        END LOOP;
    END LOOP;
END $$;

-- Lease the first of some named jobs, in the order of the names, beside others or alone. Of the
-- queues, only those count whose place in `p_tops` is not NULL; `p_left_of` are their quotas.
CREATE OR REPLACE FUNCTION taskmq.claim_named(
    p_names text[], p_queues text[], p_tops integer[], p_count integer, p_now double precision,
    p_lease_until double precision, p_worker text, p_handouts bigint[], p_stopped text[], p_alone boolean,
    INOUT left_of integer[], INOUT lanes taskmq.lane[], INOUT held integer, OUT seqs bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    r record;
    v_gate text;
    v_is_stale boolean := true;
    v_filled taskmq.lane[] := '{}';
BEGIN
    seqs := '{}';
    WHILE v_is_stale LOOP
        v_is_stale := false;
        FOR r IN
            SELECT j.seq, j.queue, j.priority, j.limits, j.rank, j.workflow, array_position(p_queues, j.queue) AS i
            FROM (SELECT name, min(n) AS n FROM unnest(p_names) WITH ORDINALITY AS g (name, n) GROUP BY name) AS named
            JOIN taskmq.jobs AS j ON j.id = named.name
            WHERE j.phase = 2 AND j.queue = ANY (p_queues) AND (j.expires_at IS NULL OR j.expires_at > p_now)
            ORDER BY named.n FOR UPDATE OF j SKIP LOCKED
        LOOP
            EXIT WHEN v_is_stale OR cardinality(seqs) >= p_count OR held >= 5000;
            CONTINUE WHEN p_tops[r.i] IS NULL OR left_of[r.i] < 1;
            CONTINUE WHEN NOT p_alone AND (r.limits IS NOT NULL OR r.rank > 0);
            v_gate := NULL;
            IF r.workflow = ANY (p_stopped) THEN
                lanes := lanes || taskmq.lanes_of(r.limits, r.queue, r.priority);
                v_gate := 'workflow:' || r.workflow;
            ELSIF r.limits IS NOT NULL THEN
                lanes := lanes || taskmq.lanes_of(r.limits, r.queue, r.priority);
                v_gate := taskmq.admit(r.limits, p_now);
            END IF;
            IF v_gate IS NOT NULL THEN
                UPDATE taskmq.jobs SET phase = -1, gate = 'held ' || v_gate WHERE seq = r.seq;
                held := held + 1;
            ELSE
                UPDATE taskmq.jobs SET
                    phase = 4, state = 'RUNNING', settled_as = NULL, handout = p_handouts[r.i],
                    token = greatest(token, seq << 20) + 1, deliveries = deliveries + 1,
                    lease_until = p_lease_until, started_at = p_now, worker = p_worker,
                    gate = CASE WHEN limits IS NOT NULL THEN 'runs ' || taskmq.concurrency_gate(limits) END
                WHERE seq = r.seq;
                IF r.rank > 0 THEN
                    PERFORM taskmq.serve(r.seq);
                END IF;
                seqs := seqs || r.seq;
                left_of[r.i] := left_of[r.i] - 1;
            END IF;
            IF r.limits IS NOT NULL THEN
                SELECT * INTO v_filled, v_is_stale
                FROM taskmq.press_on(r.limits, r.queue, r.priority, v_gate, p_now, v_filled);
            END IF;
        END LOOP;
    END LOOP;
END $$;
