-- What workers say of their deliveries. A delivery is named by its job's id and its token, whose
-- upper bits are the job's place in the store. Outcomes: 0 done, 1 repeated, 2 lease lost.

-- Successes, all at once. The results are one byte string; a codec of NULL means none. What they were
-- handed out in is in `freed`, to be let off.
CREATE OR REPLACE FUNCTION taskmq.succeed(
    p_now double precision, p_ids text[], p_tokens bigint[], p_codecs text[], p_ends integer[],
    p_blob bytea, INOUT queues text[], INOUT ended text[], INOUT lanes taskmq.lane[],
    OUT outcomes integer[], OUT freed bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    v_done integer[];
    v_limited text[];
    v_forgotten bigint[];
    v_dependent bigint[];
    v_names text[];
    v_parents text[];
    v_unkept integer[];
    r record;
BEGIN
    WITH done AS (
        UPDATE taskmq.jobs SET
            -- What is handed out in order is not among that any more.
            phase = CASE WHEN limits IS NULL AND rank = 0 THEN 4 ELSE 5 END,
            state = 'SUCCEEDED', settled_as = 'ack', finished_at = p_now,
            lease_until = NULL, failure = NULL, gate = NULL, parked_reason = NULL,
            parked_at = NULL, park_until = NULL, envelope = '',
            result_codec = CASE WHEN keep_result THEN given.codec END,
            result = CASE WHEN keep_result AND given.codec IS NOT NULL
                THEN substring(p_blob FROM given.start + 1 FOR given.stop - given.start) END
        FROM unnest(p_ids, p_tokens, p_codecs, p_ends, array_prepend(0, p_ends[:cardinality(p_ends) - 1]))
            WITH ORDINALITY AS given (id, token, codec, stop, start, n)
        WHERE jobs.seq = given.token >> 20 AND jobs.token = given.token AND jobs.id = given.id
        AND jobs.state = 'RUNNING'
        RETURNING given.n::integer AS n, jobs.seq, jobs.limits, jobs.queue, jobs.priority, jobs.result_ttl,
            jobs.dependencies, jobs.keep_result, jobs.handout
    ), kept AS (
        INSERT INTO taskmq.finished (due_at, seqs)
        SELECT p_now + result_ttl, array_agg(seq) FROM done WHERE result_ttl > 0 GROUP BY result_ttl
    )
    SELECT
        array_agg(n), array_agg(handout),
        array_agg(seq) FILTER (WHERE result_ttl <= 0),
        array_agg(seq) FILTER (WHERE dependencies > 0),
        array_agg(json_build_array(limits, queue, priority)::text) FILTER (WHERE limits IS NOT NULL),
        array_agg(n) FILTER (WHERE NOT keep_result)
    INTO v_done, freed, v_forgotten, v_dependent, v_limited, v_unkept
    FROM done;
    IF cardinality(v_done) = cardinality(p_ids) THEN
        outcomes := NULL;  -- all done
    ELSE
        SELECT array_agg(CASE
            WHEN g.n = ANY (v_done) THEN 0
            WHEN jobs.state <> 'RUNNING' AND jobs.settled_as = 'ack' THEN 1
            ELSE 2
        END ORDER BY g.n) INTO outcomes
        FROM unnest(p_ids, p_tokens) WITH ORDINALITY AS g (id, token, n)
        LEFT JOIN taskmq.jobs
            ON jobs.seq = g.token >> 20 AND jobs.token = g.token AND jobs.id = g.id;
    END IF;
    IF v_done IS NULL THEN
        RETURN;
    END IF;
    v_names := CASE WHEN outcomes IS NULL THEN p_ids
               ELSE ARRAY(SELECT p_ids[n] FROM unnest(v_done) AS n) END;
    ended := ended || v_names;
    IF v_dependent IS NOT NULL THEN
        PERFORM taskmq.let_go(v_dependent);
    END IF;
    IF EXISTS (SELECT 1 FROM taskmq.edges) THEN
        IF v_unkept IS NOT NULL THEN
            SELECT array_agg(DISTINCT parent) INTO v_parents FROM taskmq.edges
            WHERE met = 0 AND parent = ANY (v_names);
            INSERT INTO taskmq.inputs (parent, codec, data)
            SELECT p_ids[n], p_codecs[n], substring(
                p_blob FROM 1 + CASE WHEN n > 1 THEN p_ends[n - 1] ELSE 0 END
                FOR p_ends[n] - CASE WHEN n > 1 THEN p_ends[n - 1] ELSE 0 END
            )
            FROM unnest(v_unkept) AS n
            WHERE p_ids[n] = ANY (v_parents) AND p_codecs[n] IS NOT NULL
            ON CONFLICT (parent) DO NOTHING;
        END IF;
        SELECT * INTO queues, ended FROM taskmq.feed(v_names, p_now, queues, ended);
    END IF;
    IF v_forgotten IS NOT NULL THEN
        PERFORM taskmq.remove(v_forgotten);
    END IF;
    IF v_limited IS NOT NULL THEN
        FOR r IN SELECT x::json AS x FROM unnest(v_limited) AS x LOOP
            lanes := lanes || taskmq.leave(r.x->>0, r.x->>1, (r.x->>2)::integer);
        END LOOP;
    END IF;
END $$;

-- Everything else, one by one. `blob` has the envelopes that replace others.
CREATE OR REPLACE FUNCTION taskmq.settle_others(
    p_now double precision, p_settlements json, p_blob bytea, INOUT queues text[],
    INOUT ended text[], INOUT lanes taskmq.lane[], OUT outcomes integer[], OUT freed bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    s json;
    r taskmq.jobs;
    v_kind text;
    v_lost text[] := '{}';
    v_delegating json[] := '{}';  -- when all others are settled
    v_one record;
BEGIN
    outcomes := '{}';
    freed := '{}';
    FOR s IN SELECT value FROM json_array_elements(p_settlements) WITH ORDINALITY AS e (value, n) ORDER BY n LOOP
        v_kind := s->>'kind';
        SELECT * INTO r FROM taskmq.jobs
        WHERE seq = (s->>'token')::bigint >> 20 AND token = (s->>'token')::bigint AND id = s->>'id'
        FOR UPDATE;
        IF NOT FOUND OR r.state <> 'RUNNING' THEN
            outcomes := outcomes || CASE WHEN r.settled_as = v_kind THEN 1 ELSE 2 END;
            CONTINUE;
        END IF;
        outcomes := outcomes || 0;
        IF v_kind = 'ack' THEN
            IF cardinality(v_lost) > 0 THEN  -- which may revoke this one
                SELECT * INTO queues, ended, lanes
                FROM taskmq.lose(v_lost, p_now, queues, ended || v_lost, lanes);
                v_lost := '{}';
            END IF;
            IF s->'batch' IS NOT NULL THEN
                SELECT * INTO queues, ended FROM taskmq.spawn(
                    r.id, p_now, s->'batch', taskmq.batch_of(s, p_blob), queues, ended);
            END IF;
            SELECT * INTO v_one FROM taskmq.succeed(
                p_now, ARRAY[r.id], ARRAY[r.token], ARRAY[s->>'codec'], ARRAY[(s->>'length')::integer],
                substring(p_blob FROM (s->>'start')::integer + 1 FOR (s->>'length')::integer),
                queues, ended, lanes
            );
            queues := v_one.queues;
            ended := v_one.ended;
            lanes := v_one.lanes;
            freed := freed || v_one.freed;
            CONTINUE;
        END IF;
        IF r.limits IS NOT NULL THEN
            lanes := lanes || taskmq.leave(r.limits, r.queue, r.priority);
        END IF;
        r.settled_as := v_kind;
        freed := freed || r.handout;
        IF s->>'park' IS NULL THEN
            r.parked_reason := NULL;
            r.parked_at := NULL;
            r.park_until := NULL;
        END IF;
        IF s->'envelope' IS NOT NULL THEN
            r := taskmq.replaced(r, s->'envelope', substring(
                p_blob FROM (s->>'start')::integer + 1 FOR (s->>'length')::integer
            ));
            IF r.limits IS NOT NULL THEN
                lanes := lanes || taskmq.leave(r.limits, r.queue, r.priority);
            END IF;
        END IF;
        CASE v_kind
            WHEN 'retry' THEN
                r := taskmq.noted(r, 'retry', p_now, s->>'detail');
                r.failure := s->>'failure';
                r.attempt := r.attempt + 1;
                r := taskmq.queued(r, 'RETRYING', p_now + (s->>'delay')::double precision, p_now);
            WHEN 'nack' THEN
                r := taskmq.lost(r, 'nack', p_now, p_now + (s->>'delay')::double precision, s->>'detail');
            WHEN 'dead' THEN
                r := taskmq.given_up(r, s->>'reason', p_now, s->>'failure', s->>'detail');
            WHEN 'defer' THEN
                r.deliveries := r.deliveries - 1;
                IF s->>'park' IS NOT NULL THEN
                    r.parked_reason := s->>'park';
                    r.parked_at := coalesce(r.parked_at, p_now);
                    r.park_until := r.parked_at + (s->>'park_ttl')::double precision;
                END IF;
                r := taskmq.queued(r, 'QUEUED', p_now + (s->>'delay')::double precision, p_now);
            WHEN 'release' THEN
                r.deliveries := r.deliveries - 1;
                r.yields := r.yields + 1;
                r := taskmq.queued(r, 'QUEUED', r.visible_at, p_now);
                IF r.limits IS NOT NULL AND r.state = 'QUEUED' THEN
                    lanes := lanes || taskmq.leave(r.limits, r.queue, r.priority);
                    queues := queues || taskmq.refund(r.limits);
                END IF;
            WHEN 'delegate' THEN
                IF r.cancel_requested > 0 THEN
                    r := taskmq.ended(r, 'REVOKED', p_now);
                ELSE
                    r.phase := 0;
                    r.state := 'WAITING';
                    r.lease_until := NULL;
                    r.gate := NULL;
                    r.expires_at := NULL;
                    v_delegating := v_delegating || s;
                END IF;
            WHEN 'expire' THEN
                r := taskmq.ended(r, 'EXPIRED', p_now);
            WHEN 'revoke' THEN
                r := taskmq.ended(r, 'REVOKED', p_now);
        END CASE;
        PERFORM taskmq.save(r);
        IF r.phase IN (1, 5) THEN
            v_lost := v_lost || r.id;
        ELSE
            queues := queues || r.queue;
        END IF;
    END LOOP;
    IF cardinality(v_lost) > 0 THEN
        SELECT * INTO queues, ended, lanes
        FROM taskmq.lose(v_lost, p_now, queues, ended || v_lost, lanes);
    END IF;
    FOREACH s IN ARRAY v_delegating LOOP
        SELECT * INTO queues, ended FROM taskmq.delegate(
            (s->>'token')::bigint >> 20, s->>'to', p_now, s->'batch', taskmq.batch_of(s, p_blob),
            queues, ended);
    END LOOP;
END $$;

-- Let leases end later: the id, the token and `cancel_requested` of those that are held.
CREATE OR REPLACE FUNCTION taskmq.extend(
    p_now double precision, p_lease double precision, p_ids text[], p_tokens bigint[]
) RETURNS TABLE (id text, token bigint, asked integer) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    v_until CONSTANT double precision := taskmq.instant(p_now) + p_lease;
    v_seqs bigint[];
    v_freed bigint[];
    v_handout bigint;
    r record;
BEGIN
    WITH held AS (
        SELECT jobs.seq, jobs.handout
        FROM (SELECT DISTINCT * FROM unnest(p_ids, p_tokens)) AS g (id, token)
        JOIN taskmq.jobs
            ON jobs.seq = g.token >> 20 AND jobs.token = g.token AND jobs.id = g.id
            AND jobs.state = 'RUNNING'
        ORDER BY jobs.seq FOR UPDATE OF jobs
    )
    SELECT array_agg(seq), array_agg(handout) INTO v_seqs, v_freed FROM held;
    FOR r IN
        SELECT jobs.queue, jobs.worker, array_agg(jobs.seq) AS seqs
        FROM taskmq.jobs WHERE jobs.seq = ANY (v_seqs) GROUP BY jobs.queue, jobs.worker
    LOOP
        INSERT INTO taskmq.handouts (due_at, held, queue, worker, seqs)
        VALUES (v_until, cardinality(r.seqs), r.queue, r.worker, r.seqs)
        RETURNING handouts.id INTO v_handout;
        RETURN QUERY
            UPDATE taskmq.jobs SET lease_until = v_until, handout = v_handout
            WHERE jobs.seq = ANY (r.seqs)
            RETURNING jobs.id, jobs.token, jobs.cancel_requested::integer;
    END LOOP;
    PERFORM taskmq.let_off(v_freed);
END $$;
