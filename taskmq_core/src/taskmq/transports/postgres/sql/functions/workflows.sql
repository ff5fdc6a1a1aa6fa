-- What settlements do to workflows: jobs that are added to them, and jobs that delegate. A batch is an
-- object with the values of `accept`, apart from the envelopes. Whoever calls these is alone in the
-- store, or will be.

-- The envelopes of the jobs that come with a settlement, behind what it has itself.
CREATE OR REPLACE FUNCTION taskmq.batch_of(p_settlement json, p_blob bytea)
RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT substring(
        p_blob FROM (p_settlement->>'start')::integer + (p_settlement->>'length')::integer + 1
        FOR (p_settlement->'batch'->>'size')::integer)
$$;

-- Store the jobs of a settlement.
CREATE OR REPLACE FUNCTION taskmq.accept_batch(p_now double precision, p_batch json, p_data bytea)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM taskmq.need_alone();
    PERFORM taskmq.accept(
        p_now, (p_batch->>'ids')::text[], (p_batch->>'shape')::integer[], (p_batch->>'shapes')::json,
        (p_batch->>'ends')::integer[], p_data, (p_batch->>'links')::json,
        (p_batch->>'children')::integer[], (p_batch->>'parents')::text[], true);
END $$;

-- Some jobs have just begun to wait for these, which may have ended before, or are not there.
CREATE OR REPLACE FUNCTION taskmq.tell(
    p_parents text[], p_now double precision, INOUT queues text[], INOUT ended text[]
) LANGUAGE plpgsql AS $$
DECLARE
    v_succeeded text[];
    v_lost text[];
BEGIN
    SELECT array_agg(given.id) FILTER (WHERE state = 'SUCCEEDED'),
        array_agg(given.id) FILTER (WHERE state IS DISTINCT FROM 'SUCCEEDED')
    INTO v_succeeded, v_lost
    FROM unnest(p_parents) AS given (id) LEFT JOIN taskmq.jobs ON jobs.id = given.id COLLATE "C"
    WHERE phase IS NULL OR phase IN (1, 5) OR state = 'SUCCEEDED';
    IF v_succeeded IS NOT NULL THEN
        INSERT INTO taskmq.inputs (parent, codec, data)
        SELECT id, result_codec, result FROM taskmq.jobs
        WHERE id = ANY (v_succeeded) AND result_codec IS NOT NULL
        ON CONFLICT (parent) DO NOTHING;
        SELECT * INTO queues, ended FROM taskmq.feed(v_succeeded, p_now, queues, ended);
    END IF;
    IF v_lost IS NOT NULL THEN
        SELECT * INTO queues, ended FROM taskmq.spread(v_lost, p_now, queues, ended);
    END IF;
END $$;

-- Store jobs; whoever waits for the one that spawned them waits for them, too, and so do those that wait
-- for one that has delegated to it, which itself does not.
CREATE OR REPLACE FUNCTION taskmq.spawn(
    p_id text, p_now double precision, p_batch json, p_data bytea, INOUT queues text[],
    INOUT ended text[]
) LANGUAGE plpgsql AS $$
DECLARE
    v_spawned text[] := (p_batch->>'ids')::text[];
BEGIN
    PERFORM taskmq.accept_batch(p_now, p_batch, p_data);
    WITH RECURSIVE spawners (id) AS (
        SELECT p_id COLLATE "C"
        UNION
        SELECT jobs.id
        FROM spawners
        JOIN taskmq.edges ON edges.parent = spawners.id AND edges.met = 0
        JOIN taskmq.jobs
            ON jobs.seq = edges.child AND jobs.phase = 0 AND jobs.delegated_to = spawners.id
    ), joined AS (
        INSERT INTO taskmq.edges (parent, child, met)
        SELECT DISTINCT spawned.id, edges.child, 0
        FROM spawners
        JOIN taskmq.edges ON edges.parent = spawners.id AND edges.met = 0
        JOIN taskmq.jobs
            ON jobs.seq = edges.child AND jobs.phase = 0
            AND jobs.delegated_to IS DISTINCT FROM spawners.id
        JOIN taskmq.jobs AS spawned ON spawned.id = ANY (v_spawned)
        ON CONFLICT DO NOTHING
        RETURNING child
    )
    UPDATE taskmq.jobs SET pending = pending + number, dependencies = dependencies + number
    FROM (SELECT child, count(*) AS number FROM joined GROUP BY child) AS counted
    WHERE seq = child;
    IF FOUND THEN
        SELECT * INTO queues, ended FROM taskmq.tell(v_spawned, p_now, queues, ended);
    END IF;
END $$;

-- Store jobs, and let a job, which is WAITING already, wait for one of them.
CREATE OR REPLACE FUNCTION taskmq.delegate(
    p_seq bigint, p_to text, p_now double precision, p_batch json, p_data bytea,
    INOUT queues text[], INOUT ended text[]
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM taskmq.accept_batch(p_now, p_batch, p_data);
    PERFORM taskmq.let_go(ARRAY[p_seq]);
    UPDATE taskmq.jobs SET pending = 1, dependencies = 1, run_if = NULL, delegated_to = p_to
    WHERE seq = p_seq;
    INSERT INTO taskmq.edges (parent, child, met) VALUES (p_to, p_seq, 0);
    SELECT * INTO queues, ended FROM taskmq.tell(ARRAY[p_to], p_now, queues, ended);
END $$;
