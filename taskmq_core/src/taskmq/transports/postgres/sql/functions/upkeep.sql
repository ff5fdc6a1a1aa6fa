-- Housekeeping that no worker waits for, and what people do to jobs that nobody runs.

-- At most so many jobs of each kind. The report, as JSON.
CREATE OR REPLACE FUNCTION taskmq.maintain(p_now double precision, p_alone boolean, p_limit integer)
RETURNS text LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    r taskmq.jobs;
    v_changed text[] := '{}';
    v_ended text[] := '{}';
    v_lanes taskmq.lane[] := '{}';
    v_reclaimed integer;
    v_dropped json[];
    v_expired json[];
    v_forsaken json[] := '{}';
    v_lost text[] := '{}';
    v_seqs bigint[];
    v_purged integer := 0;
    v_keys integer;
    v_workers integer;
    v_ready text[];
    v_later text[];
BEGIN
    PERFORM taskmq.enter(p_alone);
    p_now := coalesce(p_now, extract(epoch FROM clock_timestamp()));
    SELECT * INTO v_changed, v_ended, v_lanes, v_reclaimed, v_dropped
    FROM taskmq.reclaim_overdue(NULL, p_now, p_limit, v_changed, v_ended, v_lanes);
    SELECT * INTO v_changed, v_ended, v_lanes, v_expired
    FROM taskmq.drop_expired(NULL, p_now, p_limit, v_changed, v_ended, v_lanes);
    FOR r IN
        SELECT * FROM taskmq.jobs WHERE park_until <= p_now AND phase IN (-1, 2, 3)
        ORDER BY park_until LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        IF r.limits IS NOT NULL THEN
            v_lanes := v_lanes || taskmq.leave(r.limits, r.queue, r.priority);
        END IF;
        v_lost := v_lost || r.id;
        r := taskmq.given_up(r, coalesce(r.parked_reason, 'parked'), p_now, NULL,
            to_json(coalesce(r.parked_reason, 'parked'))::text);
        v_forsaken := v_forsaken || json_build_array(r.id, r.task, r.queue, r.dead_reason);
        PERFORM taskmq.save(r);
    END LOOP;
    IF cardinality(v_lost) > 0 THEN
        SELECT * INTO v_changed, v_ended, v_lanes
        FROM taskmq.lose(v_lost, p_now, v_changed, v_ended || v_lost, v_lanes);
    END IF;
    IF cardinality(v_lanes) > 0 THEN
        SELECT * INTO v_ready, v_later FROM taskmq.refill(v_lanes, p_now);
        v_changed := v_changed || v_ready || v_later;
    END IF;
    WITH over AS (
        SELECT seq FROM taskmq.jobs WHERE purge_at <= p_now
        ORDER BY purge_at LIMIT p_limit FOR UPDATE SKIP LOCKED
    )
    SELECT coalesce(array_agg(seq), '{}') INTO v_seqs FROM over;
    v_seqs := v_seqs || taskmq.outdated(p_now, p_limit - cardinality(v_seqs));
    IF cardinality(v_seqs) > 0 THEN
        v_purged := taskmq.remove(v_seqs);
    END IF;
    DELETE FROM taskmq.rates WHERE gate IN (
        SELECT gate FROM taskmq.rates WHERE until <= p_now LIMIT p_limit);
    DELETE FROM taskmq.served WHERE ends <= (
        SELECT present FROM taskmq.lines
        WHERE lines.queue = served.queue AND lines.priority = served.priority);
    DELETE FROM taskmq.keys WHERE key IN (
        SELECT key FROM taskmq.keys WHERE expires_at <= p_now
        ORDER BY expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS v_keys = ROW_COUNT;
    DELETE FROM taskmq.workers WHERE heartbeat_at <= p_now - 86400;
    GET DIAGNOSTICS v_workers = ROW_COUNT;
    DELETE FROM taskmq.inputs
    WHERE NOT EXISTS (SELECT 1 FROM taskmq.edges WHERE edges.parent = inputs.parent);
    DELETE FROM taskmq.losses
    WHERE NOT EXISTS (SELECT 1 FROM taskmq.edges WHERE edges.parent = losses.parent);
    DELETE FROM taskmq.leases WHERE name IN (
        SELECT name FROM taskmq.leases WHERE expires_at <= p_now LIMIT p_limit FOR UPDATE SKIP LOCKED);
    DELETE FROM taskmq.paused_workflows
    WHERE NOT EXISTS (SELECT 1 FROM taskmq.members WHERE members.workflow = paused_workflows.workflow);
    PERFORM taskmq.announce('w', v_changed, v_ended);
    RETURN json_build_object(
        'reclaimed', v_reclaimed, 'expired', cardinality(v_expired), 'purged', v_purged,
        'dead', cardinality(v_forsaken)
            + (SELECT count(*) FROM unnest(v_dropped) AS d WHERE d->>3 <> 'revoked'),
        'keys_purged', v_keys,
        'workers_forgotten', v_workers, 'dropped', v_dropped || v_expired || v_forsaken
    )::text;
END $$;

-- Jobs that have succeeded and are kept no longer, locked and taken out of their lists.
CREATE OR REPLACE FUNCTION taskmq.outdated(p_now double precision, p_limit integer)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    f record;
    v_wanted bigint[];
    v_locked bigint[];
    v_rest bigint[];
    v_all bigint[] := '{}';
BEGIN
    FOR f IN
        SELECT id, seqs FROM taskmq.finished WHERE due_at <= p_now ORDER BY due_at FOR UPDATE SKIP LOCKED
    LOOP
        EXIT WHEN cardinality(v_all) >= p_limit;
        v_wanted := f.seqs[:p_limit - cardinality(v_all)];
        v_rest := f.seqs[p_limit - cardinality(v_all) + 1:];
        v_locked := ARRAY(SELECT seq FROM taskmq.jobs WHERE seq = ANY (v_wanted) FOR UPDATE SKIP LOCKED);
        IF cardinality(v_locked) < cardinality(v_wanted) THEN
            v_rest := v_rest || ARRAY(
                SELECT seq FROM taskmq.jobs WHERE seq = ANY (v_wanted) AND seq <> ALL (v_locked));
        END IF;
        IF cardinality(v_rest) > 0 THEN
            UPDATE taskmq.finished SET seqs = v_rest WHERE id = f.id;
        ELSE
            DELETE FROM taskmq.finished WHERE id = f.id;
        END IF;
        v_all := v_all || v_locked;
    END LOOP;
    RETURN v_all;
END $$;

-- Take jobs out, or ask them to stop. The ids of those that were open.
CREATE OR REPLACE FUNCTION taskmq.revoke(p_now double precision, p_ids text[], p_how integer, p_by text)
RETURNS text[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    v_open text[];
    v_queues text[];
    v_ended text[];
    v_lanes taskmq.lane[];
BEGIN
    PERFORM taskmq.enter(true);
    SELECT * INTO v_queues, v_ended, v_lanes, v_open FROM taskmq.take_out(
        coalesce(p_now, extract(epoch FROM clock_timestamp())), p_ids, p_how, p_by, '{}', '{}', '{}');
    IF cardinality(v_lanes) > 0 THEN
        v_queues := v_queues || (taskmq.refill(
            v_lanes, coalesce(p_now, extract(epoch FROM clock_timestamp())))).ready;
    END IF;
    PERFORM taskmq.announce('w', v_queues, v_ended);
    RETURN v_open;
END $$;

-- Delete those of these jobs that are in one of some states; how many there were.
CREATE OR REPLACE FUNCTION taskmq.delete_in(p_ids text[], p_states text[])
RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
    PERFORM taskmq.enter(true);
    PERFORM taskmq.announce('w', NULL, p_ids);
    RETURN taskmq.remove(ARRAY(
        SELECT seq FROM taskmq.jobs WHERE id = ANY (p_ids) AND state = ANY (p_states)
        ORDER BY seq FOR UPDATE));
END $$;

-- Delete what waits in a queue, and free its keys; how many there were.
CREATE OR REPLACE FUNCTION taskmq.purge(p_now double precision, p_queue text)
RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    v_seqs bigint[];
    v_ids text[];
    v_queues text[];
BEGIN
    PERFORM taskmq.enter(true);
    p_now := coalesce(p_now, extract(epoch FROM clock_timestamp()));
    WITH found AS (
        SELECT seq, id FROM taskmq.jobs WHERE queue = p_queue AND phase IN (-1, 2, 3)
        ORDER BY seq FOR UPDATE
    )
    SELECT array_agg(seq), array_agg(id) INTO v_seqs, v_ids FROM found;
    IF v_seqs IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM taskmq.keys WHERE key IN (
        SELECT key FROM taskmq.jobs WHERE seq = ANY (v_seqs) AND key IS NOT NULL
    ) AND job_id = ANY (v_ids);
    SELECT * INTO v_queues, v_ids FROM taskmq.spread(v_ids, p_now, '{}', v_ids);
    PERFORM taskmq.announce('w', v_queues, v_ids);
    RETURN taskmq.remove(v_seqs);
END $$;

-- Queue dead letters again. `p_new` has the envelope of some, by job id. The ids of those.
CREATE OR REPLACE FUNCTION taskmq.replay(
    p_now double precision, p_ids text[], p_new json, p_blob bytea
) RETURNS text[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    r taskmq.jobs;
    v_new json;
    v_replayed text[] := '{}';
    v_queues text[] := '{}';
BEGIN
    PERFORM taskmq.enter(true);
    p_now := coalesce(p_now, extract(epoch FROM clock_timestamp()));
    FOR r IN SELECT * FROM taskmq.jobs WHERE id = ANY (p_ids) AND phase = 1 ORDER BY seq FOR UPDATE LOOP
        v_new := p_new->r.id;
        IF v_new IS NOT NULL THEN
            r := taskmq.replaced(r, v_new, substring(
                p_blob FROM (v_new->>'start')::integer + 1 FOR (v_new->>'length')::integer));
        END IF;
        r := taskmq.noted(r, 'replay', p_now, '""');
        r.attempt := 1;
        r.deliveries := 0;
        r.reclaims := 0;
        r.yields := 0;
        r.started_at := NULL;
        r.finished_at := NULL;
        r.worker := NULL;
        r.failure := NULL;
        r.dead_reason := NULL;
        r.cancel_requested := 0;
        r.revoked_by := NULL;
        r.revoked_at := NULL;
        r := taskmq.queued(r, 'QUEUED', p_now, p_now);
        PERFORM taskmq.save(r);
        v_replayed := v_replayed || r.id;
        v_queues := v_queues || r.queue;
    END LOOP;
    IF cardinality(v_replayed) > 0 THEN
        PERFORM taskmq.restore(v_replayed);
        PERFORM taskmq.announce('w', v_queues, NULL);
    END IF;
    RETURN v_replayed;
END $$;

-- Parked jobs of these tasks, which are visible later, are visible now; how many.
CREATE OR REPLACE FUNCTION taskmq.unpark(p_now double precision, p_tasks text[])
RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    v_queues text[];
BEGIN
    p_now := coalesce(p_now, extract(epoch FROM clock_timestamp()));
    IF NOT EXISTS (SELECT 1 FROM taskmq.jobs WHERE park_until IS NOT NULL) THEN
        RETURN 0;
    END IF;
    WITH moved AS (
        UPDATE taskmq.jobs SET phase = 2, visible_at = p_now
        WHERE park_until IS NOT NULL AND phase = 3 AND visible_at > p_now AND task = ANY (p_tasks)
        RETURNING queue
    )
    SELECT array_agg(queue) INTO v_queues FROM moved;
    PERFORM taskmq.announce('w', v_queues, NULL);
    RETURN coalesce(cardinality(v_queues), 0);
END $$;

-- Take back what a worker holds whose process has ended, if the registry still has this entry.
CREATE OR REPLACE FUNCTION taskmq.reclaim_from(p_now double precision, p_worker text, p_record text)
RETURNS text LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    v_changed text[] := '{}';
    v_ended text[] := '{}';
    v_lanes taskmq.lane[] := '{}';
    v_taken integer;
    v_dropped json[];
    v_ready text[];
    v_later text[];
BEGIN
    PERFORM taskmq.enter(true);
    p_now := coalesce(p_now, extract(epoch FROM clock_timestamp()));
    DELETE FROM taskmq.workers WHERE id = p_worker AND record = p_record;
    IF NOT FOUND THEN
        RETURN json_build_object('taken', 0, 'dropped', '[]'::json)::text;
    END IF;
    SELECT * INTO v_changed, v_ended, v_lanes, v_taken, v_dropped FROM taskmq.take_back(
        ARRAY(
            SELECT jobs.seq
            FROM taskmq.handouts
            CROSS JOIN LATERAL unnest(handouts.seqs) AS place
            JOIN taskmq.jobs ON jobs.seq = place AND jobs.state = 'RUNNING' AND jobs.handout = handouts.id
            WHERE handouts.worker = p_worker),
        p_now, '"its worker is gone"', v_changed, v_ended, v_lanes);
    SELECT * INTO v_ready, v_later FROM taskmq.refill(v_lanes, p_now);
    PERFORM taskmq.announce('w', v_changed || v_ready || v_later, v_ended);
    RETURN json_build_object('taken', v_taken, 'dropped', v_dropped)::text;
END $$;

-- End a pause, and wake whoever listens to the queue.
CREATE OR REPLACE FUNCTION taskmq.resume(p_queue text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM taskmq.paused WHERE queue = p_queue;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM taskmq.announce('w', ARRAY[p_queue], NULL);
    RETURN true;
END $$;

-- Let nobody reserve a job of a workflow. Alone: whoever reserves has to see it, and once it is
-- committed nobody reserves who has not.
CREATE OR REPLACE FUNCTION taskmq.pause_workflow(
    p_now double precision, p_workflow text, p_by text, p_reason text
) RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    PERFORM taskmq.enter(true);
    INSERT INTO taskmq.paused_workflows (workflow, by, paused_at, reason)
    SELECT p_workflow, p_by, taskmq.instant(p_now), p_reason
    WHERE EXISTS (SELECT 1 FROM taskmq.members WHERE workflow = p_workflow)
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;

-- End a pause, and give what it held its places back. Alone, lest somebody hold more meanwhile.
CREATE OR REPLACE FUNCTION taskmq.resume_workflow(p_workflow text)
RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_queues text[];
BEGIN
    PERFORM taskmq.enter(true);
    DELETE FROM taskmq.paused_workflows WHERE workflow = p_workflow;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    WITH opened AS (
        UPDATE taskmq.jobs SET phase = 2, gate = NULL WHERE gate = 'held workflow:' || p_workflow
        RETURNING queue
    )
    SELECT array_agg(DISTINCT queue) INTO v_queues FROM opened;
    PERFORM taskmq.announce('w', v_queues, NULL);
    RETURN true;
END $$;

-- Write documents, each only where the stored one has the revision that is expected (NULL: there is
-- none); which were written. Data of NULL deletes.
CREATE OR REPLACE FUNCTION taskmq.write_documents(
    p_kinds text[], p_names text[], p_data bytea[], p_revisions text[], p_expected text[]
) RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
    v_written boolean[] := '{}';
    v_kinds text[] := '{}';
BEGIN
    -- One after the other: two who write the same documents in another order wait for each other.
    PERFORM pg_advisory_xact_lock(hashtext('taskmq'), 5);
    FOR i IN 1 .. cardinality(p_kinds) LOOP
        IF p_data[i] IS NULL AND p_expected[i] IS NULL THEN
            v_written := v_written || NOT EXISTS (
                SELECT 1 FROM taskmq.documents WHERE kind = p_kinds[i] AND name = p_names[i]);
            CONTINUE;
        ELSIF p_data[i] IS NULL THEN
            DELETE FROM taskmq.documents
            WHERE kind = p_kinds[i] AND name = p_names[i] AND revision = p_expected[i];
        ELSIF p_expected[i] IS NULL THEN
            INSERT INTO taskmq.documents (kind, name, data, revision)
            VALUES (p_kinds[i], p_names[i], p_data[i], p_revisions[i]) ON CONFLICT DO NOTHING;
        ELSE
            UPDATE taskmq.documents SET data = p_data[i], revision = p_revisions[i]
            WHERE kind = p_kinds[i] AND name = p_names[i] AND revision = p_expected[i];
        END IF;
        v_written := v_written || FOUND;
        IF FOUND THEN
            v_kinds := v_kinds || p_kinds[i];
        END IF;
    END LOOP;
    IF cardinality(v_kinds) > 0 AND NOT pg_try_advisory_xact_lock(hashtext('taskmq'), 4) THEN
        PERFORM pg_notify('taskmq' || '.kinds', (SELECT json_agg(DISTINCT kind)::text FROM unnest(v_kinds) AS kind));
    END IF;
    RETURN v_written;
END $$;
