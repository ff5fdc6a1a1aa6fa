-- A worker that was asleep reserves: it settles nothing, and mostly gets the one job that woke it.

-- A row if claims are not only about what is ready: only `exchange` knows how then.
CREATE OR REPLACE VIEW taskmq.special AS
SELECT 1 AS found
WHERE EXISTS (SELECT 1 FROM taskmq.paused_workflows)
OR EXISTS (SELECT 1 FROM taskmq.edges)
OR EXISTS (
    SELECT 1 FROM taskmq.jobs
    WHERE (limits IS NOT NULL OR rank > 0) AND phase IN (-1, 0, 2, 3, 4));

-- What `exchange` does for such a worker and one queue, in a tenth of the statements: nearly always
-- nothing is overdue, paused, limited, or was handed something. Where it is, `exchange` does all of it,
-- unless that shows only after the lock was taken: `exchange` may have to be alone, and whoever holds
-- the lock with others must not wait for that. Then nothing is leased, and the next look is due at once.
CREATE OR REPLACE FUNCTION taskmq.reserve(
    p_now double precision, p_alone boolean, p_queue text, p_worker text, p_lease double precision,
    p_limit integer
) RETURNS SETOF taskmq.answer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    v_now CONSTANT double precision := coalesce(p_now, extract(epoch FROM clock_timestamp()));
    v_until CONSTANT double precision := v_now + p_lease;
    v_is_plain boolean;
    v_top integer;
    v_next_due double precision;
    v_handout bigint;
    v_got integer := 0;
BEGIN
    SELECT
        NOT (is_special OR coalesce(least(next_due, expires_at) <= v_now, false)), top, next_due
    INTO v_is_plain, v_top, v_next_due
    FROM (SELECT
        p_alone OR EXISTS (SELECT 1 FROM taskmq.special) OR EXISTS (SELECT 1 FROM taskmq.paused)
            AS is_special,
        (SELECT priority FROM taskmq.jobs WHERE phase = 2 AND queue = p_queue
            ORDER BY priority DESC LIMIT 1) AS top,
        least(
            (SELECT visible_at FROM taskmq.jobs WHERE phase = 3 AND queue = p_queue
                ORDER BY visible_at LIMIT 1),
            (SELECT due_at FROM taskmq.handouts WHERE queue = p_queue ORDER BY due_at LIMIT 1)
        ) AS next_due,
        (SELECT expires_at FROM taskmq.jobs
            WHERE phase IN (-1, 0, 2, 3) AND queue = p_queue AND expires_at IS NOT NULL
            ORDER BY expires_at LIMIT 1) AS expires_at
    OFFSET 0) AS found;
    IF NOT v_is_plain OR v_top IS NOT NULL AND p_limit > 0
        AND NOT pg_try_advisory_xact_lock_shared(hashtext('taskmq'), 0)
    THEN
        RETURN QUERY SELECT * FROM taskmq.exchange(
            p_now, p_alone, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            ARRAY[p_queue], NULL, NULL, p_worker, p_lease, p_limit, NULL, NULL);
        RETURN;
    END IF;
    IF v_top IS NOT NULL AND p_limit > 0 THEN
        v_handout := nextval('taskmq.handouts_id_seq');
        RETURN QUERY
            WITH leased AS (
                UPDATE taskmq.jobs SET
                    phase = 4, state = 'RUNNING', settled_as = NULL,
                    token = greatest(token, seq << 20) + 1, handout = v_handout,
                    deliveries = deliveries + 1, lease_until = v_until, started_at = v_now,
                    worker = p_worker
                WHERE ctid = ANY (ARRAY(
                    SELECT ctid FROM taskmq.jobs
                    WHERE phase = 2 AND queue = p_queue
                    AND (expires_at IS NULL OR expires_at > v_now) AND limits IS NULL AND rank = 0
                    AND NOT EXISTS (SELECT 1 FROM taskmq.special)
                    ORDER BY priority DESC, rank, seq LIMIT p_limit FOR UPDATE SKIP LOCKED))
                RETURNING seq, id, queue, priority, token, attempt, deliveries, reclaims, yields,
                    parked_at, envelope
            ), listed AS (
                INSERT INTO taskmq.handouts (id, due_at, held, queue, worker, seqs)
                SELECT v_handout, v_until, count(*), p_queue, p_worker, array_agg(seq)
                FROM leased HAVING count(*) > 0
            )
            SELECT 'job', id, queue, priority::integer, token, attempt, deliveries, reclaims, yields,
                parked_at, envelope, NULL
            FROM leased ORDER BY priority DESC, seq;
        GET DIAGNOSTICS v_got = ROW_COUNT;
        IF v_got > 0 THEN
            PERFORM taskmq.announce('r', ARRAY[p_queue], NULL);
            v_next_due := least(v_next_due, v_until);
        ELSIF EXISTS (SELECT 1 FROM taskmq.special) THEN
            v_next_due := v_now;
        END IF;
        v_top := CASE WHEN v_got = p_limit THEN (
            SELECT priority FROM taskmq.jobs WHERE phase = 2 AND queue = p_queue
            ORDER BY priority DESC LIMIT 1) END;
    END IF;
    RETURN NEXT ('head', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        json_build_object('next_due_at', v_next_due, 'waiting_priority', v_top, 'lease_until', v_until)::text
    )::taskmq.answer;
END $$;
