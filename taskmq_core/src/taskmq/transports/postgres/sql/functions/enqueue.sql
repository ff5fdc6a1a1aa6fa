-- Storing a batch of jobs: all of them, or none.
--
-- Jobs of a batch mostly differ in their ids and envelopes only. What else a row needs is its shape,
-- a JSON object in the list `p_shapes`; `p_shape` says which one each job has (NULL: all the first). The
-- envelopes are one byte string, and `p_ends` where each of them ends.

-- The shapes of a batch, numbered, with where their jobs stand.
CREATE OR REPLACE FUNCTION taskmq.shapes(p_shapes json, p_now double precision) RETURNS TABLE (
    number bigint, phase smallint, visible_at double precision, queue text,
    priority smallint, task text, expires_at double precision, result_ttl double precision,
    keep_result boolean, on_receipt boolean, max_deliveries integer, workflow text, key text,
    limits text, fail_fast boolean, run_if text
) LANGUAGE sql STABLE AS $$
    SELECT
        ordinality, CASE WHEN s.eta > p_now THEN 3::smallint ELSE 2::smallint END,
        greatest(p_now, s.eta), s.queue, s.priority, s.task,
        s.expires_at, s.result_ttl, s.keep_result, s.on_receipt, s.max_deliveries, s.workflow, s.key,
        s.limits, s.fail_fast, s.run_if
    FROM ROWS FROM (json_to_recordset(p_shapes) AS (
        queue text, priority smallint, task text, eta double precision,
        expires_at double precision, result_ttl double precision, keep_result boolean,
        on_receipt boolean, max_deliveries integer, workflow text, key text, limits text,
        fail_fast boolean, run_if text
    )) WITH ORDINALITY AS s
$$;

-- The rows of new jobs, in the order of the batch.
CREATE OR REPLACE FUNCTION taskmq.new_rows(
    p_now double precision, p_ids text[], p_shape integer[], p_shapes json, p_ends integer[],
    p_data bytea
) RETURNS TABLE (
    id text, phase smallint, state text, queue text, priority smallint, visible_at double precision,
    expires_at double precision, result_ttl double precision,
    keep_result boolean, on_receipt boolean, max_deliveries integer, task text,
    enqueued_at double precision, workflow text, key text, limits text, fail_fast boolean,
    run_if text, envelope bytea
) LANGUAGE sql STABLE AS $$
    SELECT
        job.id, s.phase, 'QUEUED', s.queue, s.priority, s.visible_at, s.expires_at,
        s.result_ttl, s.keep_result, s.on_receipt, s.max_deliveries, s.task, p_now, s.workflow,
        s.key, s.limits, s.fail_fast, s.run_if,
        substring(p_data FROM job.start + 1 FOR job.stop - job.start)
    FROM unnest(p_ids, p_shape, p_ends, array_prepend(0, p_ends[:cardinality(p_ends) - 1]))
        WITH ORDINALITY AS job (id, shape, stop, start, n)
    JOIN taskmq.shapes(p_shapes, p_now) AS s ON s.number = coalesce(job.shape, 1)
    ORDER BY job.n
$$;

-- Jobs that need nothing but a place. The ids that are new; NULL if all are.
-- All of them nearly always are: whether one is stored already is found out by its failure. To ask
-- first, row by row, is a fifth of the work of storing them. And nearly always all have the same shape:
-- then no row has to be joined to its own, nor sorted after that.
CREATE OR REPLACE FUNCTION taskmq.insert_jobs(
    p_now double precision, p_ids text[], p_shape integer[], p_shapes json, p_ends integer[],
    p_data bytea
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    v_created text[];
BEGIN
    BEGIN
        IF json_array_length(p_shapes) = 1 THEN
            INSERT INTO taskmq.jobs (
                id, phase, state, queue, priority, visible_at, expires_at, result_ttl,
                keep_result, on_receipt, max_deliveries, task, enqueued_at, workflow, key, limits,
                fail_fast, run_if, envelope
            )
            SELECT
                job.id, s.phase, 'QUEUED', s.queue, s.priority, s.visible_at, s.expires_at,
                s.result_ttl, s.keep_result, s.on_receipt, s.max_deliveries, s.task, p_now, s.workflow,
                s.key, s.limits, s.fail_fast, s.run_if,
                substring(p_data FROM job.start + 1 FOR job.stop - job.start)
            FROM taskmq.shapes(p_shapes, p_now) AS s
            CROSS JOIN unnest(p_ids, p_ends, array_prepend(0, p_ends[:cardinality(p_ends) - 1]))
                AS job (id, stop, start);
        ELSE
            INSERT INTO taskmq.jobs (
                id, phase, state, queue, priority, visible_at, expires_at, result_ttl,
                keep_result, on_receipt, max_deliveries, task, enqueued_at, workflow, key, limits,
                fail_fast, run_if, envelope
            )
            SELECT * FROM taskmq.new_rows(p_now, p_ids, p_shape, p_shapes, p_ends, p_data);
        END IF;
    EXCEPTION WHEN unique_violation THEN
        WITH added AS (
            INSERT INTO taskmq.jobs (
                id, phase, state, queue, priority, visible_at, expires_at, result_ttl,
                keep_result, on_receipt, max_deliveries, task, enqueued_at, workflow, key, limits,
                fail_fast, run_if, envelope
            )
            SELECT * FROM taskmq.new_rows(p_now, p_ids, p_shape, p_shapes, p_ends, p_data)
            ON CONFLICT (id) DO NOTHING
            RETURNING id
        )
        SELECT coalesce(array_agg(id), '{}') INTO v_created FROM added;
    END;
    IF strpos(p_shapes::text, '"workflow":"') > 0 THEN
        INSERT INTO taskmq.members (workflow, seq)
        SELECT workflow, seq FROM taskmq.jobs
        WHERE id = ANY (coalesce(v_created, p_ids)) AND workflow IS NOT NULL;
    END IF;
    RETURN v_created;
END $$;

-- One plain job, which is what programs store most: the same for a third of the work, in one statement.
-- NULL if it was not stored: its id is, or its line has turns.
CREATE OR REPLACE FUNCTION taskmq.enqueue_one(
    p_now double precision, p_id text, p_queue text, p_priority smallint, p_task text,
    p_eta double precision, p_expires_at double precision, p_result_ttl double precision,
    p_keep_result boolean, p_on_receipt boolean, p_max_deliveries integer, p_workflow text,
    p_envelope bytea
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_now CONSTANT double precision := coalesce(p_now, extract(epoch FROM clock_timestamp()));
    v_later CONSTANT boolean := coalesce(p_eta > v_now, false);
    v_seq bigint;
BEGIN
    INSERT INTO taskmq.jobs (
        id, phase, state, queue, priority, visible_at, expires_at, result_ttl, keep_result,
        on_receipt, max_deliveries, task, enqueued_at, workflow, envelope
    )
    SELECT
        p_id, CASE WHEN v_later THEN 3 ELSE 2 END, 'QUEUED', p_queue, p_priority,
        CASE WHEN v_later THEN p_eta ELSE v_now END, p_expires_at, p_result_ttl, p_keep_result,
        p_on_receipt, p_max_deliveries, p_task, v_now, p_workflow, p_envelope
    WHERE NOT EXISTS (
        SELECT 1 FROM taskmq.lines WHERE queue = p_queue AND priority = p_priority)
    ON CONFLICT (id) DO NOTHING
    RETURNING seq INTO v_seq;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF p_workflow IS NOT NULL THEN
        INSERT INTO taskmq.members (workflow, seq) VALUES (p_workflow, v_seq);
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtext('taskmq'), 1) THEN
        PERFORM taskmq.announce('w', ARRAY[p_queue], NULL);
    END IF;
    RETURN true;
END $$;

-- A batch of plain jobs.
CREATE OR REPLACE FUNCTION taskmq.enqueue(
    p_now double precision, p_ids text[], p_shape integer[], p_shapes json, p_ends integer[],
    p_data bytea
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_created text[];
BEGIN
    p_now := coalesce(p_now, extract(epoch FROM clock_timestamp()));
    IF EXISTS (SELECT 1 FROM taskmq.lines) AND EXISTS (
        SELECT 1 FROM json_to_recordset(p_shapes) AS s (queue text, priority smallint)
        JOIN taskmq.lines USING (queue, priority)
    ) THEN
        RETURN 'linked';
    END IF;
    v_created := taskmq.insert_jobs(p_now, p_ids, p_shape, p_shapes, p_ends, p_data);
    PERFORM taskmq.announce('w', ARRAY(SELECT value->>'queue' FROM json_array_elements(p_shapes)), NULL);
    RETURN array_to_json(v_created)::text;
END $$;

-- A batch with keys, dependencies, limits, turns, or for a queue with a capacity. `p_links` has an
-- object for each job; NULL if none has a key, a turn or a capacity. `p_children` are the places in
-- the batch of what waits for others, each beside one of the ids in `p_parents`; NULL if nothing does.
-- The answer: for each its id and whether it is new (NULL: all are), or why none was stored.
-- Without `p_alone` (in a caller's transaction) nobody is kept waiting until its end.
CREATE OR REPLACE FUNCTION taskmq.enqueue_linked(
    p_now double precision, p_ids text[], p_shape integer[], p_shapes json, p_ends integer[],
    p_data bytea, p_links json, p_children integer[], p_parents text[], p_alone boolean
) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_sqlstate text;
    v_detail text;
BEGIN
    IF p_alone IS NOT NULL THEN
        PERFORM taskmq.enter(p_alone);
    END IF;
    BEGIN
        RETURN taskmq.accept(
            coalesce(p_now, extract(epoch FROM clock_timestamp())), p_ids, p_shape, p_shapes, p_ends,
            p_data, p_links, p_children, p_parents, p_alone IS NOT NULL
        );
    EXCEPTION WHEN SQLSTATE 'TQ001' OR SQLSTATE 'TQ002' OR SQLSTATE 'TQ003' THEN
        GET STACKED DIAGNOSTICS v_sqlstate = RETURNED_SQLSTATE, v_detail = PG_EXCEPTION_DETAIL;
        RETURN json_build_object('refused', v_sqlstate, 'why', v_detail::json)::text;
    END;
END $$;

CREATE OR REPLACE FUNCTION taskmq.accept(
    p_now double precision, p_ids text[], p_shape integer[], p_shapes json, p_ends integer[],
    p_data bytea, p_links json, p_children integer[], p_parents text[], p_place boolean
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_new integer[];  -- positions in the batch
    v_new_ids text[];
    v_same jsonb := '{}';  -- by position: the job that a key stands for
    v_children integer[] := p_children;  -- of those that are new
    v_parents text[] := p_parents;
    v_stored text[];
    v_lost text[];
    v_ended text[] := '{}';
    v_queues text[] := '{}';
    v_waiting integer[];  -- positions of those that wait for others
    v_seqs bigint[];  -- their places in the store
    v_lanes taskmq.lane[] := '{}';
    -- What no job of the batch has is not looked for in each.
    v_any_key CONSTANT boolean := coalesce(strpos(p_links::text, '"key"') > 0, false);
    v_any_capacity CONSTANT boolean := coalesce(strpos(p_links::text, '"capacity"') > 0, false);
    v_any_turn CONSTANT boolean :=
        coalesce(strpos(p_links::text, '"fair_key"') > 0, false) OR EXISTS (SELECT 1 FROM taskmq.lines);
    v_any_limit CONSTANT boolean := EXISTS (
        SELECT 1 FROM json_array_elements(p_shapes) WHERE value->>'limits' IS NOT NULL);
    k taskmq.keys;
    r record;
BEGIN
    p_shape := coalesce(p_shape, array_fill(1, ARRAY[coalesce(cardinality(p_ids), 0)]));
    IF v_any_key OR v_any_capacity THEN
        SELECT array_agg(n ORDER BY n), array_agg(id ORDER BY n) INTO v_new, v_new_ids
        FROM (SELECT id, min(n)::integer AS n FROM unnest(p_ids) WITH ORDINALITY AS g (id, n) GROUP BY id) AS given
        WHERE NOT EXISTS (SELECT 1 FROM taskmq.jobs WHERE jobs.id = given.id);
    ELSE
        -- Nothing else can stand in the way: who can be stored is new.
        v_new_ids := coalesce(taskmq.insert_jobs(p_now, p_ids, p_shape, p_shapes, p_ends, p_data), p_ids);
        v_new := ARRAY(SELECT n::integer FROM generate_series(1, cardinality(v_new_ids)) AS n);
        IF cardinality(v_new_ids) < cardinality(p_ids) THEN
            SELECT array_agg(n ORDER BY n), array_agg(id ORDER BY n) INTO v_new, v_new_ids
            FROM (SELECT id, min(n)::integer AS n FROM unnest(p_ids) WITH ORDINALITY AS g (id, n) GROUP BY id) AS given
            JOIN unnest(v_new_ids) AS stored (id) USING (id);
        END IF;
    END IF;
    FOR r IN
        SELECT n, id, link FROM unnest(v_new, v_new_ids) AS g (n, id)
        JOIN json_array_elements(p_links) WITH ORDINALITY AS l (link, place) ON place = n
        WHERE v_any_key AND link->>'key' IS NOT NULL ORDER BY n
    LOOP
        INSERT INTO taskmq.keys AS held (key, job_id, fingerprint, expires_at) VALUES (
            r.link->>'key', r.id, r.link->>'fingerprint',
            p_now + (r.link->>'key_ttl')::double precision
        )
        ON CONFLICT (key) DO UPDATE SET
            job_id = excluded.job_id, fingerprint = excluded.fingerprint,
            expires_at = excluded.expires_at
        -- A key whose time is over at once holds within its batch all the same.
        WHERE held.expires_at <= p_now AND NOT held.job_id = ANY (v_new_ids);
        CONTINUE WHEN FOUND;
        SELECT * INTO k FROM taskmq.keys WHERE key = r.link->>'key';
        IF k.fingerprint <> r.link->>'fingerprint' THEN
            RAISE EXCEPTION 'taskmq: key in use' USING ERRCODE = 'TQ001',
                DETAIL = json_build_array(r.id, k.job_id)::text;
        END IF;
        v_same := v_same || jsonb_build_object(r.n, k.job_id);
        v_new := array_remove(v_new, r.n);
        v_new_ids := array_remove(v_new_ids, r.id);
    END LOOP;
    IF coalesce(cardinality(v_new), 0) = 0 THEN
        RETURN (SELECT json_agg(json_build_array(coalesce(v_same->>n::text, id), false) ORDER BY n)
                FROM unnest(p_ids) WITH ORDINALITY AS g (id, n));
    END IF;

    -- Dependencies must be known. Their rows are locked: none of them ends before this is stored.
    IF p_children IS NOT NULL THEN
        IF cardinality(v_new) < cardinality(p_ids) THEN
            SELECT array_agg(child), array_agg(parent) INTO v_children, v_parents
            FROM unnest(p_children, p_parents) AS e (child, parent)
            JOIN unnest(v_new) AS n ON n = child;
        END IF;
        v_stored := (
            SELECT array_agg(DISTINCT parent) FROM unnest(v_parents) AS e (parent)
            LEFT JOIN unnest(v_new_ids) AS own (id) ON own.id = parent WHERE own.id IS NULL
        );
    END IF;
    IF v_stored IS NOT NULL THEN
        PERFORM 1 FROM taskmq.jobs WHERE id = ANY (v_stored) ORDER BY seq FOR SHARE;
        SELECT child, parent INTO r
        FROM unnest(v_children, v_parents) AS e (child, parent)
        WHERE NOT EXISTS (SELECT 1 FROM unnest(v_new_ids) AS own (id) WHERE own.id = parent)
        AND NOT EXISTS (SELECT 1 FROM taskmq.jobs WHERE jobs.id = parent)
        ORDER BY child LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'taskmq: unknown dependency' USING ERRCODE = 'TQ002',
                DETAIL = json_build_array(p_ids[r.child], r.parent)::text;
        END IF;
    END IF;

    -- Room.
    FOR r IN
        SELECT
            s.queue,
            max((link->>'capacity')::integer) AS capacity,
            bool_or(link->>'overflow' = 'drop_oldest') AS may_drop,
            count(*) FILTER (WHERE n <> ALL (coalesce(v_children, '{}'))) AS coming
        FROM unnest(v_new) AS n
        JOIN json_array_elements(p_links) WITH ORDINALITY AS l (link, place) ON place = n
        JOIN unnest(p_shape) WITH ORDINALITY AS h (shape, at) ON at = n
        JOIN (
            SELECT value->>'queue' AS queue, o
            FROM json_array_elements(p_shapes) WITH ORDINALITY AS e (value, o)
        ) AS s ON s.o = h.shape
        WHERE v_any_capacity
        GROUP BY s.queue
        HAVING max((link->>'capacity')::integer) IS NOT NULL
            AND count(*) FILTER (WHERE n <> ALL (coalesce(v_children, '{}'))) > 0
        ORDER BY min(n)
    LOOP
        SELECT * INTO v_ended, v_lanes FROM taskmq.make_room(
            r.queue, r.capacity, r.may_drop, r.coming::integer, p_now, v_ended, v_lanes);
    END LOOP;
    IF cardinality(v_ended) > 0 THEN
        SELECT * INTO v_queues, v_ended, v_lanes
        FROM taskmq.lose(v_ended, p_now, v_queues, v_ended, v_lanes, NOT p_place);
        v_queues := v_queues || (taskmq.refill(v_lanes, p_now)).ready;
    END IF;

    -- The jobs themselves, and what they wait for.
    IF NOT v_any_key AND NOT v_any_capacity THEN
        NULL;  -- they are stored already
    ELSIF cardinality(v_new) = cardinality(p_ids) THEN
        PERFORM taskmq.insert_jobs(p_now, p_ids, p_shape, p_shapes, p_ends, p_data);
    ELSE
        SELECT array_agg(shape ORDER BY n) AS shapes, array_agg(stop ORDER BY n) AS ends,
            string_agg(envelope, '' ORDER BY n) AS data
        INTO r
        FROM (
            SELECT n, shape, envelope, sum(octet_length(envelope)) OVER (ORDER BY n)::integer AS stop
            FROM (
                SELECT place, shape, substring(
                    p_data FROM lag(stop, 1, 0) OVER (ORDER BY place) + 1
                    FOR stop - lag(stop, 1, 0) OVER (ORDER BY place)) AS envelope
                FROM unnest(p_shape, p_ends) WITH ORDINALITY AS g (shape, stop, place)
            ) AS cut
            JOIN unnest(v_new) AS n ON n = place
        ) AS wanted;
        PERFORM taskmq.insert_jobs(p_now, v_new_ids, r.shapes, p_shapes, r.ends, r.data);
    END IF;
    IF v_children IS NOT NULL THEN
        SELECT array_agg(n), array_agg(seq) INTO v_waiting, v_seqs
        FROM (
            SELECT n, (SELECT seq FROM taskmq.jobs WHERE jobs.id = g.id) AS seq
            FROM unnest(p_ids) WITH ORDINALITY AS g (id, n)
            JOIN (SELECT DISTINCT child FROM unnest(v_children) AS c (child)) AS waits ON child = n
        ) AS found;
        WITH added AS (
            INSERT INTO taskmq.edges (parent, child, met)
            SELECT parent, seq, CASE WHEN v_stored IS NOT NULL AND 'SUCCEEDED' = (
                SELECT state FROM taskmq.jobs WHERE jobs.id = parent) THEN 1 ELSE 0 END
            FROM unnest(v_children, v_parents) AS e (child, parent)
            JOIN unnest(v_waiting, v_seqs) AS w (place, seq) ON place = child
            RETURNING child, met
        ), counted AS (
            SELECT child, count(*) AS number, count(*) FILTER (WHERE met = 0) AS unmet
            FROM added GROUP BY child
        )
        UPDATE taskmq.jobs SET
            dependencies = number, pending = unmet,
            phase = CASE WHEN unmet > 0 THEN 0 WHEN run_if = 'failed' THEN 5 ELSE phase END,
            state = CASE WHEN unmet > 0 THEN 'WAITING' WHEN run_if = 'failed' THEN 'SKIPPED' ELSE state END,
            purge_at = CASE WHEN unmet = 0 AND run_if = 'failed' THEN p_now + result_ttl END,
            finished_at = CASE WHEN unmet = 0 AND run_if = 'failed' THEN p_now END
        FROM counted WHERE seq = child;
        IF v_stored IS NOT NULL THEN
            INSERT INTO taskmq.inputs (parent, codec, data)
            SELECT jobs.id, jobs.result_codec, jobs.result
            FROM taskmq.jobs
            WHERE jobs.id = ANY (v_stored) AND jobs.state = 'SUCCEEDED'
            AND jobs.result_codec IS NOT NULL
            ON CONFLICT (parent) DO NOTHING;
        END IF;
        v_lost := ARRAY(
            SELECT id FROM taskmq.jobs
            WHERE id = ANY (v_stored) AND state IN ('FAILED', 'EXPIRED', 'REVOKED', 'SKIPPED')
            UNION ALL
            SELECT id FROM taskmq.jobs WHERE seq = ANY (v_seqs) AND phase = 5
        );
        IF cardinality(v_lost) > 0 THEN
            SELECT * INTO v_queues, v_ended FROM taskmq.spread(v_lost, p_now, v_queues, v_ended);
        END IF;
    END IF;

    -- Turns and gates.
    FOR r IN
        SELECT jobs.seq, jobs.queue, jobs.priority, link
        FROM unnest(v_new, v_new_ids) AS g (n, id)
        LEFT JOIN json_array_elements(p_links) WITH ORDINALITY AS l (link, place) ON place = n
        JOIN taskmq.jobs ON jobs.id = g.id
        WHERE v_any_turn AND (link->>'fair_key' IS NOT NULL OR EXISTS (
            SELECT 1 FROM taskmq.lines
            WHERE lines.queue = jobs.queue AND lines.priority = jobs.priority
        ) OR EXISTS (SELECT 1 FROM json_array_elements(p_links) AS o WHERE o->>'fair_key' IS NOT NULL))
        ORDER BY n
    LOOP
        IF p_place THEN
            PERFORM taskmq.need_alone();
        END IF;
        PERFORM taskmq.take_turn(
            r.seq, r.queue, r.priority, r.link->>'fair_key',
            (r.link->>'fair_weight')::double precision
        );
    END LOOP;
    IF NOT v_any_limit THEN
        NULL;  -- no gate has to be asked
    ELSIF p_place THEN
        PERFORM taskmq.place(
            ARRAY(SELECT seq FROM taskmq.jobs WHERE id = ANY (v_new_ids) AND dependencies = 0), p_now
        );
    ELSE
        -- The gates are asked when it is reserved.
        UPDATE taskmq.jobs SET gate = 'next ' || (
            SELECT taskmq.gate_of(value)
            FROM json_array_elements(limits::json) WITH ORDINALITY AS e (value, n) ORDER BY n DESC LIMIT 1
        )
        WHERE id = ANY (v_new_ids) AND limits IS NOT NULL AND phase = 2 AND dependencies = 0;
    END IF;
    PERFORM taskmq.announce(
        'w', v_queues || ARRAY(SELECT value->>'queue' FROM json_array_elements(p_shapes)), v_ended
    );
    IF cardinality(v_new) = cardinality(p_ids) THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT json_agg(json_build_array(coalesce(v_same->>n::text, id), new IS NOT NULL) ORDER BY n)
        FROM unnest(p_ids) WITH ORDINALITY AS g (id, n)
        LEFT JOIN unnest(v_new) AS new ON new = n
    );
END $$;

-- See to it that new jobs fit into a queue: refuse them (TQ003), or make dead letters of ready jobs,
-- those of the lowest priority first, then the oldest. In a transaction of the caller's others are at
-- work: what one of them is just taking is not dropped, and leaves the queue that way.
CREATE OR REPLACE FUNCTION taskmq.make_room(
    p_queue text, p_capacity integer, p_may_drop boolean, p_coming integer, p_now double precision,
    INOUT ended text[], INOUT lanes taskmq.lane[]
) LANGUAGE plpgsql AS $$
DECLARE
    r taskmq.jobs;
    v_seqs bigint[];
    v_ready integer;
    v_depth integer;
    v_excess integer;
BEGIN
    UPDATE taskmq.jobs SET phase = 2
    WHERE phase = 3 AND queue = p_queue AND visible_at <= p_now;
    v_ready := (SELECT count(*) FROM taskmq.jobs WHERE phase = 2 AND queue = p_queue);
    v_depth := v_ready
        + (SELECT count(*) FROM taskmq.jobs WHERE phase = 3 AND queue = p_queue)
        + (SELECT count(*) FROM taskmq.jobs WHERE phase = -1 AND phase <= 1 AND queue = p_queue);
    v_excess := v_depth + p_coming - p_capacity;
    IF v_excess > (CASE WHEN p_may_drop THEN v_ready ELSE 0 END) THEN
        RAISE EXCEPTION 'taskmq: queue full' USING ERRCODE = 'TQ003',
            DETAIL = json_build_array(p_queue, v_depth, p_coming, p_capacity)::text;
    ELSIF v_excess <= 0 THEN
        RETURN;
    END IF;
    SELECT array_agg(seq) INTO v_seqs FROM (
        SELECT seq FROM taskmq.jobs WHERE phase = 2 AND queue = p_queue
        ORDER BY priority, rank, seq LIMIT v_excess FOR UPDATE SKIP LOCKED
    ) AS lowest;
    PERFORM taskmq.forfeit(v_seqs);
    FOR r IN SELECT * FROM taskmq.jobs WHERE seq = ANY (v_seqs) ORDER BY seq LOOP
        IF r.limits IS NOT NULL THEN
            lanes := lanes || taskmq.leave(r.limits, r.queue, r.priority);
        END IF;
        ended := ended || r.id;
        PERFORM taskmq.save(taskmq.given_up(r, 'queue_full', p_now, NULL, '"queue_full"'));
    END LOOP;
END $$;
