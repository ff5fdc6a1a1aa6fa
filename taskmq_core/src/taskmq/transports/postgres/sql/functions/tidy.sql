-- The housekeeping that comes before handing out deliveries.

-- Take back running jobs. What ended so, as [id, task, queue, reason].
CREATE OR REPLACE FUNCTION taskmq.take_back(
    p_seqs bigint[], p_now double precision, p_why text, INOUT queues text[], INOUT ended text[],
    INOUT lanes taskmq.lane[], OUT taken integer, OUT dropped json[]
) LANGUAGE plpgsql AS $$
DECLARE
    r taskmq.jobs;
    v_lost text[] := '{}';
    v_freed bigint[] := '{}';
BEGIN
    dropped := '{}';
    taken := 0;
    FOR r IN SELECT * FROM taskmq.jobs WHERE seq = ANY (p_seqs) AND state = 'RUNNING' ORDER BY seq FOR UPDATE LOOP
        taken := taken + 1;
        v_freed := v_freed || r.handout;
        r.parked_reason := NULL;
        r.parked_at := NULL;
        r.park_until := NULL;
        IF r.limits IS NOT NULL THEN
            lanes := lanes || taskmq.leave(r.limits, r.queue, r.priority);
        END IF;
        r := taskmq.lost(r, 'reclaim', p_now, least(p_now, r.lease_until), p_why);
        PERFORM taskmq.save(r);
        IF r.phase IN (1, 5) THEN
            dropped := dropped
                || json_build_array(r.id, r.task, r.queue, coalesce(r.dead_reason, 'revoked'));
            v_lost := v_lost || r.id;
        ELSE
            queues := queues || r.queue;
        END IF;
    END LOOP;
    PERFORM taskmq.let_off(v_freed);
    IF cardinality(v_lost) > 0 THEN
        SELECT * INTO queues, ended, lanes
        FROM taskmq.lose(v_lost, p_now, queues, ended || v_lost, lanes);
    END IF;
END $$;

-- Take back jobs of some queues (NULL: all) whose lease has ended.
CREATE OR REPLACE FUNCTION taskmq.reclaim_overdue(
    p_queues text[], p_now double precision, p_limit integer, INOUT queues text[],
    INOUT ended text[], INOUT lanes taskmq.lane[], OUT taken integer, OUT dropped json[]
) LANGUAGE plpgsql AS $$
DECLARE
    v_seqs bigint[];
BEGIN
    WITH found AS (
        SELECT jobs.seq
        FROM taskmq.handouts
        CROSS JOIN LATERAL unnest(handouts.seqs) AS place
        JOIN taskmq.jobs ON jobs.seq = place AND jobs.state = 'RUNNING' AND jobs.handout = handouts.id
        WHERE handouts.due_at <= p_now AND (p_queues IS NULL OR handouts.queue = ANY (p_queues))
        ORDER BY handouts.due_at LIMIT p_limit FOR UPDATE OF jobs SKIP LOCKED
    )
    SELECT array_agg(seq) INTO v_seqs FROM found;
    taken := 0;
    dropped := '{}';
    IF v_seqs IS NOT NULL THEN
        SELECT * INTO queues, ended, lanes, taken, dropped
        FROM taskmq.take_back(v_seqs, p_now, '"its lease ended"', queues, ended, lanes);
    END IF;
END $$;

-- End jobs of some queues (NULL: all) that nobody started in time.
CREATE OR REPLACE FUNCTION taskmq.drop_expired(
    p_queues text[], p_now double precision, p_limit integer, INOUT queues text[],
    INOUT ended text[], INOUT lanes taskmq.lane[], OUT dropped json[]
) LANGUAGE plpgsql AS $$
DECLARE
    r record;
    v_seqs bigint[] := '{}';
    v_ids text[] := '{}';
BEGIN
    dropped := '{}';
    FOR r IN
        SELECT seq, id, task, queue, priority, limits, phase FROM taskmq.jobs
        WHERE phase IN (-1, 0, 2, 3) AND expires_at IS NOT NULL AND expires_at <= p_now
        AND (p_queues IS NULL OR queue = ANY (p_queues))
        ORDER BY expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        v_seqs := v_seqs || r.seq;
        v_ids := v_ids || r.id;
        dropped := dropped || json_build_array(r.id, r.task, r.queue, 'expired');
        IF r.limits IS NOT NULL AND r.phase <> 0 THEN
            lanes := lanes || taskmq.leave(r.limits, r.queue, r.priority);
        END IF;
    END LOOP;
    IF cardinality(v_seqs) > 0 THEN
        UPDATE taskmq.jobs SET
            phase = 5, state = 'EXPIRED', finished_at = p_now, purge_at = p_now + result_ttl,
            gate = NULL, parked_reason = NULL, parked_at = NULL, park_until = NULL
        WHERE seq = ANY (v_seqs);
        PERFORM taskmq.forfeit(v_seqs);
        SELECT * INTO queues, ended, lanes
        FROM taskmq.lose(v_ids, p_now, queues, ended || v_ids, lanes);
    END IF;
END $$;
