-- How jobs wait for each other, once they are stored.

-- Jobs that will not run again need no longer what they were handed.
CREATE OR REPLACE FUNCTION taskmq.let_go(p_children bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_parents text[];
BEGIN
    IF NOT EXISTS (SELECT 1 FROM taskmq.edges) THEN
        RETURN;
    END IF;
    WITH gone AS (DELETE FROM taskmq.edges WHERE child = ANY (p_children) RETURNING parent)
    SELECT array_agg(DISTINCT parent) INTO v_parents FROM gone;
    DELETE FROM taskmq.inputs
    WHERE parent = ANY (v_parents)
    AND NOT EXISTS (SELECT 1 FROM taskmq.edges WHERE edges.parent = inputs.parent);
END $$;

-- Jobs have succeeded, and their results were handed over: queue what waited for nothing else. The
-- queues of those.
CREATE OR REPLACE FUNCTION taskmq.set_free(p_parents text[], p_now double precision)
RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    v_children bigint[];
    v_counts integer[];
    v_queues text[];
BEGIN
    WITH met AS (
        UPDATE taskmq.edges SET met = true WHERE parent = ANY (p_parents) AND NOT met
        RETURNING child
    ), counted AS (SELECT child, count(*) AS number FROM met GROUP BY child ORDER BY child)
    SELECT array_agg(child), array_agg(number) INTO v_children, v_counts FROM counted;
    -- In this order everywhere, so that two who end jobs never wait for each other.
    PERFORM 1 FROM taskmq.jobs WHERE seq = ANY (v_children) ORDER BY seq FOR UPDATE;
    WITH moved AS (
        UPDATE taskmq.jobs SET
            pending = pending - number,
            state = CASE WHEN phase = 0 AND pending = number THEN 'QUEUED' ELSE state END,
            phase = CASE WHEN phase <> 0 OR pending <> number THEN phase
                    WHEN visible_at > p_now THEN 3 ELSE 2 END,
            due_at = CASE WHEN phase <> 0 OR pending <> number THEN due_at
                     WHEN visible_at > p_now THEN visible_at END,
            visible_at = CASE WHEN phase <> 0 OR pending <> number THEN visible_at
                         ELSE greatest(visible_at, p_now) END
        FROM unnest(v_children, v_counts) AS fed (child, number)
        WHERE seq = fed.child
        RETURNING jobs.queue, jobs.pending
    )
    SELECT array_agg(DISTINCT queue) INTO v_queues FROM moved WHERE pending = 0;
    RETURN v_queues;
END $$;

-- Jobs are lost: nothing that waits for them can run, nor what waits for that. Again and again, since
-- each statement sees the dependents that were stored until then. The jobs that are skipped.
CREATE OR REPLACE FUNCTION taskmq.skip(p_lost text[], p_now double precision)
RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    v_all text[] := '{}';
    v_new text[] := p_lost;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM taskmq.edges) THEN
        RETURN v_all;
    END IF;
    LOOP
        WITH RECURSIVE lost (id, seq) AS (
            SELECT id COLLATE "C", NULL::bigint FROM unnest(v_new) AS given (id)
            UNION
            SELECT child.id, child.seq
            FROM lost
            JOIN taskmq.edges ON edges.parent = lost.id AND NOT edges.met
            JOIN taskmq.jobs AS child ON child.seq = edges.child AND child.phase = 0
        ), skipped AS (
            UPDATE taskmq.jobs SET
                phase = 5, state = 'SKIPPED', finished_at = p_now, due_at = p_now + result_ttl
            WHERE phase = 0 AND seq = ANY (ARRAY(SELECT seq FROM lost WHERE seq IS NOT NULL))
            RETURNING id
        )
        SELECT array_agg(id) INTO v_new FROM skipped;
        EXIT WHEN v_new IS NULL;
        v_all := v_all || v_new;
    END LOOP;
    RETURN v_all;
END $$;

-- Jobs are out of the dead letters: what was skipped because of them waits again.
CREATE OR REPLACE FUNCTION taskmq.restore(p_replayed text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_level text[] := p_replayed;
BEGIN
    WHILE v_level IS NOT NULL LOOP
        WITH restored AS (
            UPDATE taskmq.jobs SET phase = 0, state = 'WAITING', finished_at = NULL, due_at = NULL
            WHERE phase = 5 AND state = 'SKIPPED'
            AND seq = ANY (ARRAY(
                SELECT child FROM taskmq.edges WHERE NOT met AND parent = ANY (v_level)
            ))
            -- Counted for each, by index: a join would go through all edges for every level.
            AND 0 = (
                SELECT count(*)
                FROM taskmq.edges AS other
                LEFT JOIN taskmq.jobs AS parent ON parent.id = other.parent
                WHERE other.child = jobs.seq AND NOT other.met
                AND (parent.id IS NULL OR parent.state IN ('FAILED', 'EXPIRED', 'REVOKED', 'SKIPPED'))
            )
            RETURNING id
        )
        SELECT array_agg(id) INTO v_level FROM restored;
    END LOOP;
END $$;
