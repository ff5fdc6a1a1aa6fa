-- Storing a batch of jobs: all of them, or none.
--
-- Jobs of a batch mostly differ in their ids and envelopes only. What else a row needs is its shape,
-- a JSON object in the list `p_shapes`; `p_shape` says which one each job has. The envelopes are one
-- byte string, and `p_ends` where each of them ends.

-- Jobs that need nothing but a place. The ids that are new; NULL if all are.
CREATE OR REPLACE FUNCTION taskmq.insert_jobs(
    p_now double precision, p_ids text[], p_shape integer[], p_shapes json, p_ends integer[],
    p_data bytea
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    v_created text[];
BEGIN
    WITH added AS (
        INSERT INTO taskmq.jobs (
            id, phase, state, queue, priority, visible_at, due_at, expires_at, result_ttl,
            keep_result, on_receipt, max_deliveries, task, enqueued_at, workflow, key, limits,
            dependencies, envelope
        )
        SELECT
            job.id,
            CASE WHEN s.eta > p_now THEN 3 ELSE 2 END,
            'QUEUED',
            s.queue,
            s.priority,
            greatest(p_now, s.eta),
            CASE WHEN s.eta > p_now THEN s.eta END,
            s.expires_at,
            s.result_ttl,
            s.keep_result,
            s.on_receipt,
            s.max_deliveries,
            s.task,
            p_now,
            s.workflow,
            s.key,
            s.limits,
            0,
            substring(p_data FROM job.start + 1 FOR job.stop - job.start)
        FROM (
            SELECT id, shape, stop, n, lag(stop, 1, 0) OVER (ORDER BY n) AS start
            FROM unnest(p_ids, p_shape, p_ends) WITH ORDINALITY AS given (id, shape, stop, n)
        ) AS job
        JOIN (
            SELECT * FROM ROWS FROM (json_to_recordset(p_shapes) AS (
                queue text, priority smallint, task text, eta double precision,
                expires_at double precision, result_ttl double precision, keep_result boolean,
                on_receipt boolean, max_deliveries integer, workflow text, key text, limits text
            )) WITH ORDINALITY
        ) AS s ON s.ordinality = job.shape
        ORDER BY job.n
        ON CONFLICT (id) DO NOTHING
        RETURNING id
    )
    SELECT array_agg(id) INTO v_created FROM added;
    IF cardinality(v_created) = cardinality(p_ids) THEN
        RETURN NULL;
    END IF;
    RETURN coalesce(v_created, '{}');
END $$;

-- A batch of plain jobs.
CREATE OR REPLACE FUNCTION taskmq.enqueue(
    p_now double precision, p_ids text[], p_shape integer[], p_shapes json, p_ends integer[],
    p_data bytea
) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off AS $$
DECLARE
    v_created text[];
BEGIN
    p_now := coalesce(p_now, extract(epoch FROM clock_timestamp()));
    IF EXISTS (SELECT 1 FROM taskmq.lines) THEN
        RETURN 'linked';
    END IF;
    v_created := taskmq.insert_jobs(p_now, p_ids, p_shape, p_shapes, p_ends, p_data);
    PERFORM taskmq.announce('w', ARRAY(SELECT value->>'queue' FROM json_array_elements(p_shapes)), NULL);
    RETURN array_to_json(v_created)::text;
END $$;

-- A batch with keys, dependencies, limits, turns, or for a queue with a capacity. `p_links` has an
-- object for each job. The answer: for each its id and whether it is new, or why none was stored.
-- Without `p_alone` (in a caller's transaction) nobody is kept waiting until its end.
CREATE OR REPLACE FUNCTION taskmq.enqueue_linked(
    p_now double precision, p_ids text[], p_shape integer[], p_shapes json, p_ends integer[],
    p_data bytea, p_links json, p_alone boolean
) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off AS $$
DECLARE
    v_sqlstate text;
    v_detail text;
BEGIN
    IF p_alone IS NOT NULL THEN
        PERFORM taskmq.enter(p_alone);
    END IF;
    BEGIN
        RETURN taskmq.accept(
            coalesce(p_now, extract(epoch FROM clock_timestamp())),
            p_ids, p_shape, p_shapes, p_ends, p_data, p_links, p_alone IS NOT NULL
        );
    EXCEPTION WHEN SQLSTATE 'TQ001' OR SQLSTATE 'TQ002' OR SQLSTATE 'TQ003' THEN
        GET STACKED DIAGNOSTICS v_sqlstate = RETURNED_SQLSTATE, v_detail = PG_EXCEPTION_DETAIL;
        RETURN json_build_object('refused', v_sqlstate, 'why', v_detail::json)::text;
    END;
END $$;

CREATE OR REPLACE FUNCTION taskmq.accept(
    p_now double precision, p_ids text[], p_shape integer[], p_shapes json, p_ends integer[],
    p_data bytea, p_links json, p_place boolean
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_links json[] := ARRAY(
        SELECT value FROM json_array_elements(p_links) WITH ORDINALITY AS e (value, n) ORDER BY n
    );
    v_answers json[] := '{}';
    v_new integer[] := '{}';  -- positions in the batch
    v_new_ids text[] := '{}';
    v_stored text[];
    v_parents text[];
    v_ended text[] := '{}';
    v_queues text[] := '{}';
    v_seqs bigint[];
    v_lost bigint[];
    v_lanes taskmq.lane[];
    v_dropped taskmq.jobs;
    v_waiting integer;
    k taskmq.keys;
    r record;
BEGIN
    SELECT array_agg(id) INTO v_stored FROM taskmq.jobs WHERE id = ANY (p_ids);
    FOR n IN 1 .. cardinality(p_ids) LOOP
        IF p_ids[n] = ANY (v_stored) OR p_ids[n] = ANY (v_new_ids) THEN
            v_answers := v_answers || json_build_array(p_ids[n], false);
            CONTINUE;
        END IF;
        IF v_links[n]->>'key' IS NOT NULL THEN
            INSERT INTO taskmq.keys AS held (key, job_id, fingerprint, expires_at) VALUES (
                v_links[n]->>'key', p_ids[n], v_links[n]->>'fingerprint',
                p_now + (v_links[n]->>'key_ttl')::double precision
            )
            ON CONFLICT (key) DO UPDATE SET
                job_id = excluded.job_id, fingerprint = excluded.fingerprint,
                expires_at = excluded.expires_at
            -- A key whose time is over at once holds within its batch all the same.
            WHERE held.expires_at <= p_now AND NOT held.job_id = ANY (v_new_ids);
            IF NOT FOUND THEN
                SELECT * INTO k FROM taskmq.keys WHERE key = v_links[n]->>'key';
                IF k.fingerprint <> v_links[n]->>'fingerprint' THEN
                    RAISE EXCEPTION 'taskmq: key in use' USING ERRCODE = 'TQ001',
                        DETAIL = json_build_array(n, k.job_id)::text;
                END IF;
                v_answers := v_answers || json_build_array(k.job_id, false);
                CONTINUE;
            END IF;
        END IF;
        v_answers := v_answers || json_build_array(p_ids[n], true);
        v_new := v_new || n;
        v_new_ids := v_new_ids || p_ids[n];
    END LOOP;
    IF cardinality(v_new) = 0 THEN
        RETURN array_to_json(v_answers)::text;
    END IF;

    -- Dependencies must be known. Their rows are locked: none of them ends before this is stored.
    SELECT array_agg(DISTINCT parent) INTO v_parents
    FROM unnest(v_new) AS n, json_array_elements_text(v_links[n]->'after') AS parent
    WHERE NOT parent = ANY (v_new_ids);
    IF v_parents IS NOT NULL THEN
        PERFORM 1 FROM taskmq.jobs WHERE id = ANY (v_parents) ORDER BY seq FOR SHARE;
        SELECT n, parent INTO r
        FROM unnest(v_new) WITH ORDINALITY AS e (n, place),
            json_array_elements_text(v_links[n]->'after') AS parent
        WHERE NOT parent = ANY (v_new_ids)
        AND NOT EXISTS (SELECT 1 FROM taskmq.jobs WHERE id = parent)
        ORDER BY place LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'taskmq: unknown dependency' USING ERRCODE = 'TQ002',
                DETAIL = json_build_array(r.n, r.parent)::text;
        END IF;
    END IF;

    -- Room.
    v_lanes := '{}';
    FOR r IN
        SELECT
            s.queue,
            max((v_links[n]->>'capacity')::integer) AS capacity,
            bool_or(v_links[n]->>'overflow' = 'drop_oldest') AS may_drop,
            count(*) FILTER (WHERE v_links[n]->'after' IS NULL) AS coming
        FROM unnest(v_new) AS n
        JOIN (
            SELECT value->>'queue' AS queue, o
            FROM json_array_elements(p_shapes) WITH ORDINALITY AS e (value, o)
        ) AS s ON s.o = p_shape[n]
        GROUP BY s.queue
        HAVING max((v_links[n]->>'capacity')::integer) IS NOT NULL
        ORDER BY min(n)
    LOOP
        CONTINUE WHEN r.coming = 0;
        UPDATE taskmq.jobs SET phase = 2, due_at = NULL
        WHERE phase = 3 AND queue = r.queue AND due_at <= p_now;
        v_waiting := (SELECT count(*) FROM taskmq.jobs WHERE phase = 2 AND queue = r.queue);
        DECLARE
            v_depth integer := v_waiting
                + (SELECT count(*) FROM taskmq.jobs WHERE phase = 3 AND queue = r.queue)
                + (SELECT count(*) FROM taskmq.jobs WHERE phase = -1 AND phase <= 1 AND queue = r.queue);
            v_excess integer := v_depth + r.coming - r.capacity;
        BEGIN
            IF v_excess > (CASE WHEN r.may_drop THEN v_waiting ELSE 0 END) THEN
                RAISE EXCEPTION 'taskmq: queue full' USING ERRCODE = 'TQ003',
                    DETAIL = json_build_array(r.queue, v_depth, r.coming, r.capacity)::text;
            END IF;
            IF v_excess > 0 THEN
                SELECT array_agg(seq) INTO v_seqs FROM (
                    SELECT seq FROM taskmq.jobs WHERE phase = 2 AND queue = r.queue
                    ORDER BY priority, rank, seq LIMIT v_excess
                ) AS lowest;
                PERFORM taskmq.forfeit(v_seqs);
                FOR v_dropped IN SELECT * FROM taskmq.jobs WHERE seq = ANY (v_seqs) ORDER BY seq LOOP
                    IF v_dropped.limits IS NOT NULL THEN
                        v_lanes := v_lanes || taskmq.leave(v_dropped.limits, v_dropped.queue, v_dropped.priority);
                    END IF;
                    v_ended := v_ended || v_dropped.id;
                    PERFORM taskmq.save(taskmq.given_up(v_dropped, 'queue_full', p_now, NULL, '"queue_full"'));
                END LOOP;
            END IF;
        END;
    END LOOP;
    IF cardinality(v_ended) > 0 THEN
        v_ended := v_ended || taskmq.skip(v_ended, p_now);
        v_queues := (taskmq.refill(v_lanes, p_now)).ready;
    END IF;

    -- The jobs themselves, and what they wait for.
    PERFORM taskmq.insert_jobs(
        p_now, v_new_ids, ARRAY(SELECT p_shape[n] FROM unnest(v_new) AS n), p_shapes,
        ARRAY(SELECT sum(p_ends[n] - CASE WHEN n > 1 THEN p_ends[n - 1] ELSE 0 END) OVER (ORDER BY n)
              FROM unnest(v_new) AS n)::integer[],
        (SELECT string_agg(substring(
            p_data FROM 1 + CASE WHEN n > 1 THEN p_ends[n - 1] ELSE 0 END
            FOR p_ends[n] - CASE WHEN n > 1 THEN p_ends[n - 1] ELSE 0 END), '' ORDER BY n)
         FROM unnest(v_new) AS n)
    );
    v_seqs := ARRAY(SELECT seq FROM taskmq.jobs WHERE id = ANY (v_new_ids) ORDER BY seq);
    IF EXISTS (SELECT 1 FROM unnest(v_new) AS n WHERE v_links[n]->'after' IS NOT NULL) THEN
        INSERT INTO taskmq.edges (parent, child, met)
        SELECT DISTINCT parent.id, child.seq, parent.state = 'SUCCEEDED'
        FROM unnest(v_new) AS n
        CROSS JOIN json_array_elements_text(v_links[n]->'after') AS name
        JOIN taskmq.jobs AS child ON child.id = p_ids[n]
        JOIN taskmq.jobs AS parent ON parent.id = name;
        INSERT INTO taskmq.inputs (parent, codec, data)
        SELECT DISTINCT jobs.id, jobs.result_codec, jobs.result
        FROM taskmq.jobs
        WHERE jobs.id = ANY (v_parents) AND jobs.state = 'SUCCEEDED'
        AND jobs.result_codec IS NOT NULL
        ON CONFLICT (parent) DO NOTHING;
        UPDATE taskmq.jobs SET
            dependencies = number, pending = unmet,
            phase = CASE WHEN unmet > 0 THEN 0 ELSE phase END,
            state = CASE WHEN unmet > 0 THEN 'WAITING' ELSE state END,
            due_at = CASE WHEN unmet > 0 THEN NULL ELSE due_at END
        FROM (
            SELECT child, count(*) AS number, count(*) FILTER (WHERE NOT met) AS unmet
            FROM taskmq.edges WHERE child = ANY (v_seqs) GROUP BY child
        ) AS counted
        WHERE seq = child;
        PERFORM taskmq.skip(v_parents_lost, p_now) FROM (
            SELECT array_agg(id) AS v_parents_lost FROM taskmq.jobs
            WHERE id = ANY (v_parents) AND state IN ('FAILED', 'EXPIRED', 'REVOKED', 'SKIPPED')
        ) AS lost WHERE v_parents_lost IS NOT NULL;
    END IF;

    -- Turns and gates.
    IF EXISTS (SELECT 1 FROM taskmq.lines)
        OR EXISTS (SELECT 1 FROM unnest(v_new) AS n WHERE v_links[n]->'fair_key' IS NOT NULL)
    THEN
        FOR r IN
            SELECT jobs.seq, jobs.queue, jobs.priority, n FROM unnest(v_new) AS n
            JOIN taskmq.jobs ON jobs.id = p_ids[n] ORDER BY n
        LOOP
            PERFORM taskmq.take_turn(
                r.seq, r.queue, r.priority, v_links[r.n]->>'fair_key',
                (v_links[r.n]->>'fair_weight')::double precision
            );
        END LOOP;
    END IF;
    IF p_place THEN
        PERFORM taskmq.place(
            ARRAY(SELECT seq FROM taskmq.jobs WHERE seq = ANY (v_seqs) AND dependencies = 0), p_now
        );
    ELSE
        -- The gates are asked when it is reserved.
        UPDATE taskmq.jobs SET gate = 'next ' || (
            SELECT taskmq.gate_of(value)
            FROM json_array_elements(limits::json) WITH ORDINALITY AS e (value, n) ORDER BY n DESC LIMIT 1
        )
        WHERE seq = ANY (v_seqs) AND limits IS NOT NULL AND phase = 2 AND dependencies = 0;
    END IF;
    PERFORM taskmq.announce(
        'w', v_queues || ARRAY(SELECT value->>'queue' FROM json_array_elements(p_shapes)), v_ended
    );
    RETURN array_to_json(v_answers)::text;
END $$;
