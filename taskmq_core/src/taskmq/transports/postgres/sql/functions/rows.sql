-- What happens to one job. Each function takes its row and gives it back changed; `save` stores it.

-- In the end.
CREATE OR REPLACE FUNCTION taskmq.ended(r taskmq.jobs, p_state text, p_now double precision)
RETURNS taskmq.jobs LANGUAGE plpgsql AS $$
BEGIN
    r.state := p_state;
    r.phase := CASE WHEN p_state = 'FAILED' THEN 1 ELSE 5 END;
    r.finished_at := p_now;
    r.lease_until := NULL;
    r.purge_at := CASE WHEN p_state <> 'FAILED' THEN p_now + r.result_ttl END;
    r.gate := NULL;
    r.parked_reason := NULL;
    r.parked_at := NULL;
    r.park_until := NULL;
    RETURN r;
END $$;

-- Into the queue again, unless somebody asked it to stop.
CREATE OR REPLACE FUNCTION taskmq.queued(
    r taskmq.jobs, p_state text, p_visible_at double precision, p_now double precision
) RETURNS taskmq.jobs LANGUAGE plpgsql AS $$
BEGIN
    IF r.cancel_requested > 0 THEN
        RETURN taskmq.ended(r, 'REVOKED', p_now);
    END IF;
    r.state := p_state;
    r.visible_at := p_visible_at;
    r.phase := CASE WHEN p_visible_at <= p_now THEN 2 ELSE 3 END;
    r.lease_until := NULL;
    r.gate := NULL;
    RETURN r;
END $$;

-- Enter into the history how the attempt ended; the newest 20 entries are kept.
CREATE OR REPLACE FUNCTION taskmq.noted(
    r taskmq.jobs, p_event text, p_now double precision, p_detail text
) RETURNS taskmq.jobs LANGUAGE plpgsql AS $$
BEGIN
    r.history := r.history || format(
        '{"at":%s,"event":"%s","attempt":%s,"detail":%s,"worker":%s}',
        p_now, p_event, r.attempt, p_detail, to_json(coalesce(r.worker, ''))
    );
    r.history := r.history[greatest(1, cardinality(r.history) - 19):];
    RETURN r;
END $$;

-- Into the dead letters. The text for its history is JSON.
CREATE OR REPLACE FUNCTION taskmq.given_up(
    r taskmq.jobs, p_reason text, p_now double precision, p_failure text, p_detail text
) RETURNS taskmq.jobs LANGUAGE plpgsql AS $$
BEGIN
    r := taskmq.noted(r, 'dead', p_now, p_detail);
    r.dead_reason := p_reason;
    r.failure := coalesce(p_failure, r.failure);
    RETURN taskmq.ended(r, 'FAILED', p_now);
END $$;

-- A delivery came to nothing: run the job again, or make it a dead letter.
CREATE OR REPLACE FUNCTION taskmq.lost(
    r taskmq.jobs, p_event text, p_now double precision, p_visible_at double precision, p_why text
) RETURNS taskmq.jobs LANGUAGE plpgsql AS $$
BEGIN
    r.reclaims := r.reclaims + 1;
    IF r.cancel_requested > 0 THEN
        RETURN taskmq.ended(r, 'REVOKED', p_now);
    ELSIF r.on_receipt OR r.reclaims >= r.max_deliveries THEN
        RETURN taskmq.given_up(r, 'worker_lost', p_now, NULL, '"worker_lost"');
    END IF;
    r := taskmq.noted(r, p_event, p_now, p_why);
    RETURN taskmq.queued(r, 'QUEUED', p_visible_at, p_now);
END $$;

-- Another envelope, with all that comes from it and may change.
CREATE OR REPLACE FUNCTION taskmq.replaced(r taskmq.jobs, p_new json, p_envelope bytea)
RETURNS taskmq.jobs LANGUAGE plpgsql AS $$
BEGIN
    IF (r.queue, r.priority) IS DISTINCT FROM (p_new->>'queue', (p_new->>'priority')::smallint) THEN
        DELETE FROM taskmq.turns WHERE seq = r.seq;
        r.rank := 0;
    END IF;
    r.task := p_new->>'task';
    r.queue := p_new->>'queue';
    r.priority := p_new->>'priority';
    r.expires_at := p_new->>'expires_at';
    r.on_receipt := p_new->>'on_receipt';
    r.max_deliveries := p_new->>'max_deliveries';
    r.keep_result := p_new->>'keep_result';
    r.result_ttl := p_new->>'result_ttl';
    r.limits := p_new->>'limits';
    r.envelope := p_envelope;
    RETURN r;
END $$;

-- Store a row.
CREATE OR REPLACE FUNCTION taskmq.save(r taskmq.jobs) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE taskmq.jobs SET
        phase = r.phase, state = r.state, settled_as = r.settled_as, attempt = r.attempt,
        deliveries = r.deliveries, reclaims = r.reclaims, yields = r.yields,
        cancel_requested = r.cancel_requested, visible_at = r.visible_at,
        lease_until = r.lease_until, purge_at = r.purge_at,
        task = r.task, queue = r.queue, priority = r.priority, expires_at = r.expires_at,
        result_ttl = r.result_ttl, keep_result = r.keep_result, on_receipt = r.on_receipt,
        max_deliveries = r.max_deliveries, started_at = r.started_at,
        finished_at = r.finished_at, worker = r.worker, parked_reason = r.parked_reason,
        parked_at = r.parked_at, park_until = r.park_until, dead_reason = r.dead_reason,
        failure = r.failure, history = r.history, limits = r.limits, gate = r.gate,
        rank = r.rank, envelope = r.envelope, revoked_by = r.revoked_by,
        revoked_at = r.revoked_at
    WHERE seq = r.seq;
END $$;

-- Jobs run no longer, each of one of these handouts. To be called when all of them are locked.
CREATE OR REPLACE FUNCTION taskmq.let_off(p_handouts bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    r record;
    v_held integer;
BEGIN
    IF p_handouts[1] = ALL (p_handouts) THEN  -- as nearly always, and all that there was
        DELETE FROM taskmq.handouts WHERE id = p_handouts[1] AND held = cardinality(p_handouts);
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    FOR r IN
        SELECT handout, count(*) AS number FROM unnest(p_handouts) AS h (handout) GROUP BY handout ORDER BY handout
    LOOP
        UPDATE taskmq.handouts SET held = held - r.number WHERE id = r.handout RETURNING held INTO v_held;
        IF v_held = 0 THEN
            DELETE FROM taskmq.handouts WHERE id = r.handout;
        END IF;
    END LOOP;
END $$;

-- Delete jobs, with all that belongs to them.
CREATE OR REPLACE FUNCTION taskmq.remove(p_seqs bigint[]) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_count integer;
BEGIN
    IF EXISTS (SELECT 1 FROM taskmq.edges) THEN
        INSERT INTO taskmq.inputs (parent, codec, data)
        SELECT id, result_codec, result FROM taskmq.jobs
        WHERE seq = ANY (p_seqs) AND result_codec IS NOT NULL
        AND (SELECT true FROM taskmq.edges WHERE edges.parent = jobs.id AND edges.met = 1 LIMIT 1)
        ON CONFLICT (parent) DO NOTHING;
    END IF;
    WITH gone AS (
        DELETE FROM taskmq.jobs WHERE seq = ANY (p_seqs) RETURNING workflow, seq
    ), left_ AS (
        DELETE FROM taskmq.members USING gone
        WHERE members.workflow = gone.workflow AND members.seq = gone.seq
    )
    SELECT count(*) INTO v_count FROM gone;
    PERFORM taskmq.let_go(p_seqs);
    IF EXISTS (SELECT 1 FROM taskmq.turns) THEN
        DELETE FROM taskmq.turns WHERE seq = ANY (p_seqs);
    END IF;
    RETURN v_count;
END $$;
