-- How jobs wait for each other, once they are stored.
--
-- Who ends jobs locks what waits for them in the order of the store, and decides in a later statement,
-- which sees what others did meanwhile: two members of a fan-in can be settled at the same time. Steps
-- that go on to the dependents of dependents are made alone.

-- Jobs that will not run again need no longer what they were handed.
CREATE OR REPLACE FUNCTION taskmq.let_go(p_children bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_parents text[];
BEGIN
    IF NOT EXISTS (SELECT 1 FROM taskmq.edges) THEN
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT 1 FROM taskmq.inputs) AND NOT EXISTS (SELECT 1 FROM taskmq.losses) THEN
        DELETE FROM taskmq.edges WHERE child = ANY (p_children);
        RETURN;
    END IF;
    WITH gone AS (DELETE FROM taskmq.edges WHERE child = ANY (p_children) RETURNING parent)
    SELECT array_agg(DISTINCT parent) INTO v_parents FROM gone;
    IF v_parents IS NULL THEN
        RETURN;
    END IF;
    DELETE FROM taskmq.inputs
    WHERE parent = ANY (v_parents)
    AND NOT EXISTS (SELECT 1 FROM taskmq.edges WHERE edges.parent = inputs.parent);
    DELETE FROM taskmq.losses
    WHERE parent = ANY (v_parents)
    AND NOT EXISTS (SELECT 1 FROM taskmq.edges WHERE edges.parent = losses.parent);
END $$;

-- What a job has handed over: its result, while that is kept, or what was put aside.
CREATE OR REPLACE FUNCTION taskmq.handed(p_parent text, OUT codec text, OUT data bytea)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT result_codec, result INTO codec, data FROM taskmq.jobs
    WHERE id = p_parent AND result_codec IS NOT NULL;
    IF NOT FOUND THEN
        SELECT inputs.codec, inputs.data INTO codec, data FROM taskmq.inputs
        WHERE inputs.parent = p_parent;
    END IF;
END $$;

-- These jobs wait for less, each as often as it is named, unless they have ended and will never run:
-- queue what waits for nothing else, unless that hangs on how the others ended. The queues of what
-- is ready, and those jobs.
CREATE OR REPLACE FUNCTION taskmq.count_down(
    p_children bigint[], p_now double precision, INOUT queues text[], OUT undecided bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    v_queues text[];
BEGIN
    PERFORM 1 FROM taskmq.jobs WHERE seq = ANY (p_children) ORDER BY seq FOR UPDATE;
    WITH moved AS (
        UPDATE taskmq.jobs SET
            pending = pending - number,
            state = CASE WHEN phase = 0 AND pending = number AND run_if IS DISTINCT FROM 'failed'
                    AND delegated_to IS NULL THEN 'QUEUED' ELSE state END,
            phase = CASE WHEN phase <> 0 OR pending <> number OR run_if = 'failed'
                    OR delegated_to IS NOT NULL THEN phase
                    WHEN visible_at > p_now THEN 3 ELSE 2 END,
            visible_at = CASE WHEN phase <> 0 OR pending <> number OR run_if = 'failed'
                         OR delegated_to IS NOT NULL THEN visible_at
                         ELSE greatest(visible_at, p_now) END
        FROM (
            SELECT child, count(*)::integer AS number FROM unnest(p_children) AS c (child) GROUP BY child
        ) AS fed
        WHERE seq = fed.child AND state IN ('WAITING', 'SKIPPED')
        RETURNING jobs.seq, jobs.queue, jobs.phase, jobs.pending
    )
    SELECT array_agg(DISTINCT queue) FILTER (WHERE phase <> 0), array_agg(seq) FILTER (WHERE phase = 0)
    INTO v_queues, undecided FROM moved WHERE pending = 0;
    queues := queues || v_queues;
END $$;

-- Jobs have succeeded, and their results were handed over: queue what waited for nothing else. What
-- delegated to them succeeds, too, and so on.
CREATE OR REPLACE FUNCTION taskmq.feed(
    p_parents text[], p_now double precision, INOUT queues text[], INOUT ended text[]
) LANGUAGE plpgsql AS $$
DECLARE
    v_parents text[] := p_parents;
    v_children bigint[];
    v_undecided bigint[];
    v_unneeded text[];
    v_queues text[];
    v_forwarded bigint[];
    v_forgotten bigint[];
BEGIN
    WHILE v_parents IS NOT NULL LOOP
        WITH met AS (
            UPDATE taskmq.edges SET met = 1 WHERE parent = ANY (v_parents) AND met = 0
            RETURNING child
        )
        SELECT array_agg(child) INTO v_children FROM met;
        EXIT WHEN v_children IS NULL;
        SELECT * INTO queues, v_undecided FROM taskmq.count_down(v_children, p_now, queues);
        EXIT WHEN v_undecided IS NULL;
        WITH skipped AS (
            UPDATE taskmq.jobs SET
                phase = 5, state = 'SKIPPED', finished_at = p_now, purge_at = p_now + result_ttl
            WHERE seq = ANY (v_undecided) AND run_if = 'failed'
            AND NOT EXISTS (SELECT 1 FROM taskmq.edges WHERE child = jobs.seq AND met = 2)
            RETURNING id
        )
        SELECT array_agg(id) INTO v_unneeded FROM skipped;
        queues := queues || taskmq.queue_met(v_undecided, p_now);
        SELECT array_agg(seq), array_agg(id), array_agg(seq) FILTER (WHERE result_ttl <= 0)
        INTO v_forwarded, v_parents, v_forgotten
        FROM taskmq.jobs WHERE seq = ANY (v_undecided) AND delegated_to IS NOT NULL AND phase = 0;
        IF v_forwarded IS NOT NULL THEN
            PERFORM taskmq.need_alone();
            UPDATE taskmq.jobs SET
                phase = 5, state = 'SUCCEEDED', finished_at = p_now,
                failure = NULL, envelope = '',
                result_codec = CASE WHEN keep_result THEN (taskmq.handed(delegated_to)).codec END,
                result = CASE WHEN keep_result THEN (taskmq.handed(delegated_to)).data END
            WHERE seq = ANY (v_forwarded);
            INSERT INTO taskmq.inputs (parent, codec, data)
            SELECT jobs.id, handed.codec, handed.data
            FROM taskmq.jobs, LATERAL taskmq.handed(jobs.delegated_to) AS handed
            WHERE jobs.seq = ANY (v_forwarded) AND handed.codec IS NOT NULL
            AND EXISTS (SELECT 1 FROM taskmq.edges WHERE edges.parent = jobs.id AND met = 0)
            ON CONFLICT (parent) DO NOTHING;
            ended := ended || v_parents;
            INSERT INTO taskmq.finished (due_at, seqs)
            SELECT p_now + result_ttl, array_agg(seq) FROM taskmq.jobs
            WHERE seq = ANY (v_forwarded) AND result_ttl > 0 GROUP BY result_ttl;
            PERFORM taskmq.let_go(v_forwarded);
            IF v_forgotten IS NOT NULL THEN
                PERFORM taskmq.remove(v_forgotten);
            END IF;
        END IF;
        IF v_unneeded IS NOT NULL THEN
            SELECT * INTO queues, ended
            FROM taskmq.spread(v_unneeded, p_now, queues, ended || v_unneeded);
        END IF;
    END LOOP;
END $$;

-- Queue those of some jobs that wait for nothing any more, and were not decided otherwise. Their queues.
CREATE OR REPLACE FUNCTION taskmq.queue_met(p_children bigint[], p_now double precision)
RETURNS text[] LANGUAGE sql AS $$
    WITH moved AS (
        UPDATE taskmq.jobs SET
            state = 'QUEUED',
            phase = CASE WHEN visible_at > p_now THEN 3 ELSE 2 END,
            visible_at = greatest(visible_at, p_now)
        WHERE seq = ANY (p_children) AND phase = 0 AND pending = 0 AND delegated_to IS NULL
        RETURNING queue
    )
    SELECT array_agg(DISTINCT queue) FROM moved
$$;

-- Jobs are lost, or about to be deleted: what needs them cannot run, nor what needs that; what runs all
-- the same may be ready. Again and again, since each statement sees the dependents that were stored
-- until then.
CREATE OR REPLACE FUNCTION taskmq.spread(
    p_lost text[], p_now double precision, INOUT queues text[], INOUT ended text[]
) LANGUAGE plpgsql AS $$
DECLARE
    v_lost text[] := p_lost;
    v_new text[] := p_lost;
    v_children bigint[];
    v_parents text[];
    v_undecided bigint[];
BEGIN
    IF NOT EXISTS (SELECT 1 FROM taskmq.edges WHERE parent = ANY (p_lost) AND met = 0) THEN
        RETURN;
    END IF;
    LOOP
        v_children := ARRAY(
            WITH RECURSIVE lost (id, seq) AS (
                SELECT id COLLATE "C", NULL::bigint FROM unnest(v_new) AS given (id)
                UNION
                SELECT child.id, child.seq
                FROM lost
                CROSS JOIN LATERAL (
                    SELECT edges.child FROM taskmq.edges
                    WHERE edges.parent = lost.id AND edges.met = 0 OFFSET 0
                ) AS edge
                -- Not by phase, which would lead to the index of all that waits.
                JOIN taskmq.jobs AS child ON child.seq = edge.child
                    AND child.state = 'WAITING' AND child.run_if IS NULL
            )
            SELECT seq FROM lost WHERE seq IS NOT NULL
        );
        EXIT WHEN cardinality(v_children) = 0;
        WITH skipped AS (
            UPDATE taskmq.jobs SET
                phase = 5, state = 'SKIPPED', finished_at = p_now, purge_at = p_now + result_ttl
            WHERE phase = 0 AND seq = ANY (v_children)
            RETURNING id
        )
        SELECT array_agg(id) INTO v_new FROM skipped;
        EXIT WHEN v_new IS NULL;
        v_lost := v_lost || v_new;
        ended := ended || v_new;
    END LOOP;
    WITH met AS (
        UPDATE taskmq.edges SET met = 2
        WHERE parent = ANY (v_lost) AND met = 0
        AND EXISTS (
            SELECT 1 FROM taskmq.jobs
            WHERE seq = edges.child AND state = 'WAITING' AND run_if IS NOT NULL
        )
        RETURNING child, parent
    )
    SELECT array_agg(child), array_agg(DISTINCT parent) INTO v_children, v_parents FROM met;
    IF v_children IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO taskmq.losses (parent, data)
    SELECT id, json_build_object(
        'state', CASE WHEN phase IN (1, 5) THEN state ELSE 'UNKNOWN' END,
        'reason', coalesce(dead_reason, ''), 'failure', failure::json
    )::text
    FROM taskmq.jobs WHERE id = ANY (v_parents)
    ON CONFLICT (parent) DO UPDATE SET data = excluded.data;
    SELECT * INTO queues, v_undecided FROM taskmq.count_down(v_children, p_now, queues);
    queues := queues || taskmq.queue_met(v_undecided, p_now);
END $$;

-- Jobs are lost: others hear of it, and workflows end that are to fail fast. `p_beside`: in a
-- transaction of the caller's, which keeps nobody waiting.
CREATE OR REPLACE FUNCTION taskmq.lose(
    p_lost text[], p_now double precision, INOUT queues text[], INOUT ended text[],
    INOUT lanes taskmq.lane[], p_beside boolean DEFAULT false
) LANGUAGE plpgsql AS $$
DECLARE
    v_workflows text[];
    v_members text[];
BEGIN
    IF EXISTS (SELECT 1 FROM taskmq.edges WHERE parent = ANY (p_lost) AND met = 0) THEN
        IF NOT p_beside THEN
            PERFORM taskmq.need_alone();
        END IF;
        SELECT * INTO queues, ended FROM taskmq.spread(p_lost, p_now, queues, ended);
    END IF;
    SELECT array_agg(DISTINCT workflow) INTO v_workflows FROM taskmq.jobs
    WHERE id = ANY (p_lost) AND fail_fast AND workflow IS NOT NULL AND state IN ('FAILED', 'EXPIRED');
    IF v_workflows IS NULL THEN
        RETURN;
    END IF;
    IF NOT p_beside THEN
        PERFORM taskmq.need_alone();
    END IF;
    v_members := ARRAY(
        SELECT job.id
        FROM taskmq.members
        CROSS JOIN LATERAL (
            SELECT id, phase, state, run_if FROM taskmq.jobs WHERE jobs.seq = members.seq OFFSET 0
        ) AS job
        WHERE members.workflow = ANY (v_workflows) AND job.phase IN (-1, 0, 2, 3, 4)
        AND job.state <> 'SUCCEEDED' AND job.run_if IS NULL
    );
    IF cardinality(v_members) > 0 THEN
        SELECT i.queues, i.ended, i.lanes INTO queues, ended, lanes
        FROM taskmq.take_out(p_now, v_members, 1, 'workflow', queues, ended, lanes) AS i;
    END IF;
END $$;

-- Take jobs out, or ask them to stop. The ids of those that were open.
CREATE OR REPLACE FUNCTION taskmq.take_out(
    p_now double precision, p_ids text[], p_how integer, p_by text, INOUT queues text[],
    INOUT ended text[], INOUT lanes taskmq.lane[], OUT open text[]
) LANGUAGE plpgsql AS $$
DECLARE
    r record;
    v_running bigint[] := '{}';
    v_others bigint[] := '{}';
    v_ids text[] := '{}';
BEGIN
    open := '{}';
    FOR r IN
        SELECT seq, id, phase, limits, queue, priority FROM taskmq.jobs
        WHERE id = ANY (p_ids) AND phase NOT IN (1, 5) AND state <> 'SUCCEEDED' ORDER BY seq FOR UPDATE
    LOOP
        open := open || r.id;
        IF r.phase = 4 THEN
            v_running := v_running || r.seq;
            CONTINUE;
        END IF;
        v_others := v_others || r.seq;
        v_ids := v_ids || r.id;
        IF r.limits IS NOT NULL AND r.phase <> 0 THEN
            lanes := lanes || taskmq.leave(r.limits, r.queue, r.priority);
        END IF;
    END LOOP;
    UPDATE taskmq.jobs SET
        cancel_requested = greatest(cancel_requested, p_how),
        revoked_by = CASE WHEN revoked_at IS NULL THEN p_by ELSE revoked_by END,
        revoked_at = coalesce(revoked_at, p_now)
    WHERE seq = ANY (v_running);
    IF cardinality(v_others) > 0 THEN
        UPDATE taskmq.jobs SET
            phase = 5, state = 'REVOKED', finished_at = p_now, purge_at = p_now + result_ttl,
            gate = NULL, parked_reason = NULL, parked_at = NULL, park_until = NULL,
            revoked_by = CASE WHEN revoked_at IS NULL THEN p_by ELSE revoked_by END,
            revoked_at = coalesce(revoked_at, p_now)
        WHERE seq = ANY (v_others);
        PERFORM taskmq.forfeit(v_others);
        SELECT * INTO queues, ended FROM taskmq.spread(v_ids, p_now, queues, ended || v_ids);
    END IF;
END $$;

-- What waited for some of these jobs, which ended in this step, and now waits for nothing: at most 1000.
CREATE OR REPLACE FUNCTION taskmq.readied(p_ended text[], p_now double precision)
RETURNS json LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM taskmq.edges) THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT json_agg(json_build_array(id, queue, priority, visible_at))
        FROM (
            SELECT id, queue, priority, visible_at FROM taskmq.jobs
            WHERE seq = ANY (ARRAY(
                SELECT DISTINCT child FROM taskmq.edges WHERE parent = ANY (p_ended) AND met > 0
            ))
            AND phase IN (2, 3) AND visible_at >= p_now
            LIMIT 1000
        ) AS found
    );
END $$;

-- Jobs are out of the dead letters: who still waits takes them into account again, and what was skipped
-- because of them waits again.
CREATE OR REPLACE FUNCTION taskmq.restore(p_replayed text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_level text[] := p_replayed;
BEGIN
    WHILE v_level IS NOT NULL LOOP
        WITH awaited AS (
            UPDATE taskmq.edges SET met = 0
            WHERE parent = ANY (v_level) AND met = 2
            AND EXISTS (SELECT 1 FROM taskmq.jobs WHERE seq = edges.child AND state = 'WAITING')
            RETURNING child
        )
        UPDATE taskmq.jobs SET pending = pending + number
        FROM (SELECT child, count(*) AS number FROM awaited GROUP BY child) AS counted
        WHERE seq = child;
        WITH restored AS (
            UPDATE taskmq.jobs SET phase = 0, state = 'WAITING', finished_at = NULL, purge_at = NULL
            WHERE phase = 5 AND state = 'SKIPPED' AND run_if IS NULL
            AND seq = ANY (ARRAY(
                SELECT child FROM taskmq.edges WHERE met = 0 AND parent = ANY (v_level)
            ))
            -- Counted for each, by index: a join would go through all edges for every level.
            AND 0 = (
                SELECT count(*)
                FROM taskmq.edges AS other
                LEFT JOIN taskmq.jobs AS parent ON parent.id = other.parent
                WHERE other.child = jobs.seq AND other.met = 0
                AND (parent.id IS NULL OR parent.state IN ('FAILED', 'EXPIRED', 'REVOKED', 'SKIPPED'))
            )
            RETURNING id
        )
        SELECT array_agg(id) INTO v_level FROM restored;
    END LOOP;
END $$;
