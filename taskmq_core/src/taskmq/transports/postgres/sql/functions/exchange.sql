-- One exchange of a worker.

-- Settle the finished and reserve the next, as one step. See taskmq.transport.Reserver.exchange.
CREATE OR REPLACE FUNCTION taskmq.exchange(
    p_now double precision, p_alone boolean,
    p_ids text[], p_tokens bigint[], p_codecs text[], p_ends integer[], p_blob bytea,
    p_others json, p_others_blob bytea,
    p_queues text[], p_weights double precision[], p_quotas integer[], p_worker text,
    p_lease double precision, p_limit integer, p_jobs text[], p_turns json
) RETURNS SETOF taskmq.answer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    v_tidy_limit CONSTANT integer := 5000;
    v_alone boolean;
    v_stopped text[];  -- workflows that are paused; NULL: none
    v_changed text[] := '{}';  -- queues with something to reserve, or an earlier time to look
    v_ended text[] := '{}';
    v_lanes taskmq.lane[] := '{}';
    v_acked integer[];
    v_settled integer[];
    v_freed bigint[] := '{}';
    v_some_freed bigint[];
    v_handout bigint;
    v_new_handouts bigint[];  -- by queue
    v_handouts bigint[] := '{}';  -- of this exchange
    v_dropped json[] := '{}';
    v_some json[];
    v_left_of integer[] := p_quotas;  -- by queue; NULL: no quota
    v_tops integer[];
    v_visible_at double precision;
    v_lease_end double precision;
    v_expires_at double precision;
    v_next_due double precision;
    v_top integer;
    v_level integer[];  -- positions of queues
    v_available integer[];
    v_served double precision[];
    v_present double precision := coalesce((p_turns->>'present')::double precision, 0);
    v_taken integer[];
    v_turned integer[] := '{}';  -- those that have had turns
    v_turns json;
    v_seqs bigint[];
    v_got integer;
    v_all integer := 0;
    v_before integer;
    v_held integer := 0;
    v_left integer := p_limit;
    v_until double precision;
    v_gated boolean := false;
    v_taken_back integer;
    v_ready text[];
    v_later text[];
    v_readied json;
    i integer;
    v_best integer;
    v_own_clock CONSTANT boolean := p_now IS NULL;
BEGIN
    p_now := coalesce(p_now, extract(epoch FROM clock_timestamp()));
    IF p_queues IS NOT NULL THEN
        IF EXISTS (SELECT 1 FROM taskmq.paused) THEN
            v_left_of := ARRAY(
                SELECT CASE WHEN paused.queue IS NOT NULL THEN 0 ELSE v_left_of[n] END
                FROM unnest(p_queues) WITH ORDINALITY AS q (name, n)
                LEFT JOIN taskmq.paused ON paused.queue = q.name ORDER BY n
            );
        END IF;
        IF p_ids IS NULL AND p_others IS NULL THEN
            -- Look first: a worker that finds nothing does not write, nor wait for one who does.
            SELECT * INTO v_tops, v_visible_at, v_lease_end, v_expires_at FROM taskmq.survey(p_queues);
            SELECT max(top) INTO v_top FROM unnest(v_tops, v_left_of) AS t (top, quota)
            WHERE coalesce(quota, 1) > 0;
            IF coalesce(least(v_visible_at, v_lease_end, v_expires_at) > p_now, true)
                AND (v_top IS NULL OR p_limit < 1)
            THEN
                RETURN NEXT ('head', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                    json_build_object('next_due_at', least(v_visible_at, v_lease_end),
                        'waiting_priority', v_top)::text)::taskmq.answer;
                RETURN;
            END IF;
        END IF;
    END IF;

    v_alone := taskmq.enter(p_alone);
    IF v_own_clock THEN
        p_now := extract(epoch FROM clock_timestamp());  -- it may have waited
    END IF;
    IF p_queues IS NOT NULL THEN
        v_stopped := (SELECT array_agg(workflow) FROM taskmq.paused_workflows);
    END IF;
    IF p_ids IS NOT NULL THEN
        SELECT * INTO v_changed, v_ended, v_lanes, v_acked, v_freed FROM taskmq.succeed(
            p_now, p_ids, p_tokens, p_codecs, p_ends, p_blob, v_changed, v_ended, v_lanes);
    END IF;
    IF p_others IS NOT NULL THEN
        SELECT * INTO v_changed, v_ended, v_lanes, v_settled, v_some_freed FROM taskmq.settle_others(
            p_now, p_others, p_others_blob, v_changed, v_ended, v_lanes);
        v_freed := v_freed || v_some_freed;
    END IF;
    PERFORM taskmq.let_off(v_freed);
    IF cardinality(v_lanes) > 0 THEN
        SELECT * INTO v_ready, v_later FROM taskmq.refill(v_lanes, p_now);
        v_changed := v_changed || v_ready || v_later;
        v_lanes := '{}';
    END IF;
    IF cardinality(v_ended) > 0 AND cardinality(v_changed) > 0 THEN
        v_readied := taskmq.readied(v_ended, p_now);
    END IF;
    IF p_queues IS NULL THEN
        PERFORM taskmq.announce('w', v_changed, v_ended);
        RETURN NEXT ('head', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            json_build_object('acked', v_acked, 'settled', v_settled, 'readied', v_readied)::text
        )::taskmq.answer;
        RETURN;
    END IF;

    -- Housekeeping.
    SELECT * INTO v_tops, v_visible_at, v_lease_end, v_expires_at FROM taskmq.survey(p_queues);
    IF least(v_visible_at, v_lease_end, v_expires_at) <= p_now THEN
        SELECT * INTO v_changed, v_ended, v_lanes, v_taken_back, v_dropped
        FROM taskmq.reclaim_overdue(p_queues, p_now, v_tidy_limit, v_changed, v_ended, v_lanes);
        SELECT * INTO v_changed, v_ended, v_lanes, v_some
        FROM taskmq.drop_expired(p_queues, p_now, v_tidy_limit, v_changed, v_ended, v_lanes);
        v_dropped := v_dropped || v_some;
        IF cardinality(v_lanes) > 0 THEN
            SELECT * INTO v_ready, v_later FROM taskmq.refill(v_lanes, p_now);
            v_changed := v_changed || v_ready || v_later;
            v_lanes := '{}';
        END IF;
        WITH due AS (
            SELECT seq FROM taskmq.jobs
            WHERE phase = 3 AND queue = ANY (p_queues) AND visible_at <= p_now
            ORDER BY visible_at LIMIT v_tidy_limit FOR UPDATE SKIP LOCKED
        )
        UPDATE taskmq.jobs SET phase = 2 FROM due WHERE jobs.seq = due.seq;
        SELECT * INTO v_tops, v_visible_at, v_lease_end, v_expires_at FROM taskmq.survey(p_queues);
    END IF;

    -- Lease jobs, level by level.
    v_until := p_now + p_lease;
    IF v_left_of IS NOT NULL THEN
        v_tops := ARRAY(
            SELECT CASE WHEN coalesce(quota, 1) > 0 THEN top END
            FROM unnest(v_tops, v_left_of) WITH ORDINALITY AS t (top, quota, n) ORDER BY n
        );
    END IF;
    <<rounds>>
    LOOP
        WHILE v_left > 0 AND v_held < 5000 LOOP
            IF cardinality(v_tops) = 1 THEN
                v_top := v_tops[1];
            ELSE
                SELECT max(top) INTO v_top FROM unnest(v_tops) AS t (top);
            END IF;
            EXIT WHEN v_top IS NULL;
            IF p_jobs IS NOT NULL THEN
                v_new_handouts := ARRAY(SELECT nextval('taskmq.handouts_id_seq') FROM unnest(p_queues));
                v_handouts := v_handouts || v_new_handouts;
                SELECT * INTO v_left_of, v_lanes, v_held, v_seqs FROM taskmq.claim_named(
                    p_jobs, p_queues, v_tops, v_left, p_now, v_until, p_worker, v_new_handouts,
                    v_stopped, v_alone,
                    coalesce(v_left_of, array_fill(NULL::integer, ARRAY[cardinality(p_queues)])),
                    v_lanes, v_held);
                v_gated := v_gated OR cardinality(v_lanes) > 0;
                RETURN QUERY SELECT * FROM taskmq.handed(v_seqs);
                v_all := v_all + cardinality(v_seqs);
                v_left := v_left - cardinality(v_seqs);
                v_tops := taskmq.tops(p_queues, v_left_of);
                EXIT;
            END IF;
            v_before := v_all + v_held;
            v_level := array_positions(v_tops, v_top);
            v_taken := array_fill(0, ARRAY[cardinality(p_queues)]);
            IF cardinality(v_level) = 1 THEN
                v_taken[v_level[1]] := least(v_left, v_left_of[v_level[1]]);
            ELSE
                v_served := ARRAY(
                    SELECT greatest(at, v_present)
                    FROM unnest(coalesce(v_served, ARRAY(
                        SELECT at::double precision
                        FROM json_array_elements_text(p_turns->'served') WITH ORDINALITY AS s (at, n) ORDER BY n
                    ))) WITH ORDINALITY AS s (at, n) ORDER BY n
                );
                -- No other queue can have a turn among the next: what those have is not counted.
                v_level := ARRAY(
                    SELECT n FROM unnest(v_tops, v_served, p_queues) WITH ORDINALITY AS t (top, at, name, n)
                    WHERE top = v_top ORDER BY at, name COLLATE "C" LIMIT v_left
                );
                v_available := array_fill(0, ARRAY[cardinality(p_queues)]);
                FOREACH i IN ARRAY v_level LOOP
                    v_available[i] := (SELECT count(*) FROM (
                        SELECT 1 FROM taskmq.jobs
                        WHERE phase = 2 AND queue = p_queues[i] AND priority = v_top
                        LIMIT least(v_left, v_left_of[i])) AS found);
                END LOOP;
                FOR turn IN 1 .. v_left LOOP
                    v_best := NULL;
                    FOREACH i IN ARRAY v_level LOOP
                        IF v_available[i] > v_taken[i] THEN
                            IF v_best IS NULL OR v_served[i] < v_served[v_best]
                                OR v_served[i] = v_served[v_best] AND p_queues[i] COLLATE "C" < p_queues[v_best] COLLATE "C"
                            THEN
                                v_best := i;
                            END IF;
                            EXIT WHEN v_taken[i] = 0;  -- those behind it are not before it, either
                        END IF;
                    END LOOP;
                    EXIT WHEN v_best IS NULL;
                    v_present := v_served[v_best];
                    v_served[v_best] := v_served[v_best] + 1 / p_weights[v_best];
                    v_taken[v_best] := v_taken[v_best] + 1;
                END LOOP;
                v_level := ARRAY(SELECT n FROM unnest(v_level) AS l (n) WHERE v_taken[n] > 0 ORDER BY n);  -- as in p_queues
                v_turned := v_turned || v_level;
                v_turns := (
                    SELECT json_build_object('present', v_present, 'served', json_object_agg(p_queues[n], v_served[n]))
                    FROM (SELECT DISTINCT n FROM unnest(v_turned) AS l (n)) AS each HAVING count(*) > 0
                );
            END IF;
            FOREACH i IN ARRAY v_level LOOP
                CONTINUE WHEN v_taken[i] < 1;
                v_handout := nextval('taskmq.handouts_id_seq');
                v_handouts := v_handouts || v_handout;
                IF v_alone THEN
                    SELECT * INTO v_lanes, v_held, v_seqs FROM taskmq.claim_alone(
                        p_queues[i], CASE WHEN cardinality(p_queues) > 1 THEN v_top END, v_taken[i],
                        p_now, v_until, p_worker, v_handout, v_stopped, v_lanes, v_held);
                    RETURN QUERY SELECT * FROM taskmq.handed(v_seqs);
                    v_got := cardinality(v_seqs);
                    v_gated := v_gated OR cardinality(v_lanes) > 0;
                ELSE
                    IF v_stopped IS NOT NULL THEN
                        v_held := taskmq.stop(
                            p_queues[i], CASE WHEN cardinality(p_queues) > 1 THEN v_top END,
                            v_stopped, v_held);
                    END IF;
                    RETURN QUERY SELECT * FROM taskmq.claim(
                        p_queues[i], CASE WHEN cardinality(p_queues) > 1 THEN v_top END, v_taken[i],
                        p_now, v_until, p_worker, v_handout, v_stopped);
                    GET DIAGNOSTICS v_got = ROW_COUNT;
                END IF;
                v_all := v_all + v_got;
                v_left := v_left - v_got;
                v_left_of[i] := v_left_of[i] - v_got;
            END LOOP;
            IF cardinality(p_queues) = 1 AND v_left > 0 AND v_held < 5000 AND coalesce(v_left_of[1] > 0, true) THEN
                v_tops := ARRAY[NULL]::integer[];  -- the one queue gave all it had
                EXIT;
            END IF;
            v_tops := taskmq.tops(p_queues, v_left_of);
            EXIT WHEN v_all + v_held = v_before;
        END LOOP;
        EXIT WHEN cardinality(v_lanes) = 0;
        SELECT * INTO v_ready, v_later FROM taskmq.refill(v_lanes, p_now);
        v_lanes := '{}';
        v_changed := v_changed || v_ready || v_later;
        EXIT WHEN cardinality(v_ready) = 0;
        v_tops := taskmq.tops(p_queues, v_left_of);
        EXIT WHEN v_left < 1 OR v_held >= 5000;
    END LOOP;

    IF EXISTS (SELECT 1 FROM taskmq.edges) THEN
        v_seqs := ARRAY(SELECT unnest(seqs) FROM taskmq.handouts WHERE id = ANY (v_handouts));
        RETURN QUERY
            SELECT 'input', (SELECT jobs.id FROM taskmq.jobs WHERE jobs.seq = handed.child), NULL,
                NULL::integer, NULL::bigint, NULL::integer, NULL::integer, NULL::integer,
                NULL::integer, NULL::double precision, string_agg(handed.data, NULL),
                json_build_array(
                    array_agg(handed.parent), array_agg(handed.codec),
                    array_agg(octet_length(handed.data))
                )::text
            FROM (
                SELECT edges.child, edges.parent,
                    coalesce(own.data, (SELECT i.data FROM taskmq.inputs AS i WHERE i.parent = edges.parent)) AS data,
                    coalesce(own.codec, (SELECT i.codec FROM taskmq.inputs AS i WHERE i.parent = edges.parent)) AS codec
                FROM taskmq.edges
                -- Each apart: a join that is planned while nothing is stored is slow later.
                LEFT JOIN LATERAL (
                    SELECT j.result_codec AS codec, j.result AS data
                    FROM taskmq.jobs AS j WHERE j.id = edges.parent OFFSET 0
                ) AS own ON true
                WHERE edges.child = ANY (v_seqs)
            ) AS handed
            GROUP BY handed.child;
    END IF;
    IF EXISTS (SELECT 1 FROM taskmq.losses) THEN
        RETURN QUERY
            SELECT 'loss', jobs.id, edges.parent, NULL::integer, NULL::bigint, NULL::integer,
                NULL::integer, NULL::integer, NULL::integer, NULL::double precision,
                NULL::bytea, losses.data
            FROM taskmq.edges
            JOIN taskmq.jobs ON jobs.seq = edges.child
            JOIN taskmq.losses ON losses.parent = edges.parent
            WHERE edges.child = ANY (v_seqs) AND edges.met = 2;
    END IF;
    IF v_gated THEN
        SELECT visible_at, lease_until, expires_at INTO v_visible_at, v_lease_end, v_expires_at
        FROM taskmq.survey(p_queues);
    END IF;
    v_next_due := least(v_visible_at, v_lease_end, CASE WHEN v_all > 0 THEN v_until END);
    IF v_held >= 5000 OR least(v_visible_at, v_lease_end, v_expires_at) <= p_now THEN
        v_next_due := p_now;
    END IF;
    SELECT max(top) INTO v_top FROM unnest(v_tops) AS t (top);
    IF cardinality(v_changed) = 0 AND v_all > 0 THEN
        PERFORM taskmq.announce('r', p_queues, v_ended);
    ELSE
        PERFORM taskmq.announce('w', v_changed || CASE WHEN v_all > 0 THEN p_queues END, v_ended);
    END IF;
    RETURN NEXT ('head', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        json_build_object(
            'acked', v_acked, 'settled', v_settled, 'dropped', v_dropped,
            'next_due_at', v_next_due, 'waiting_priority', v_top, 'lease_until', v_until,
            'turns', v_turns, 'readied', v_readied
        )::text)::taskmq.answer;
END $$;
