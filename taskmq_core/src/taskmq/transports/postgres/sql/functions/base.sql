-- Who may run beside whom, and who is told.
--
-- Functions that programs call have planner settings with them: the statistics of a table of jobs are
-- always wrong (empty a second ago, a million rows now), and each statement here is meant to go by
-- index.

-- The time: what the caller says it is, or else the server's own.
CREATE OR REPLACE FUNCTION taskmq.instant(p_now double precision)
RETURNS double precision LANGUAGE sql STABLE AS $$
    SELECT coalesce(p_now, extract(epoch FROM clock_timestamp())::double precision)
$$;

-- Whether jobs have to be handed out one after the other: some have limits or turns.
CREATE OR REPLACE FUNCTION taskmq.is_strict() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (
        SELECT 1 FROM taskmq.jobs
        WHERE (limits IS NOT NULL OR rank > 0) AND phase IN (-1, 0, 2, 3, 4));
END $$;

-- Let this transaction run beside others like it, or alone if that is needed; whether it is alone.
-- A transaction that began beside others cannot become one that is alone: it begins anew (TQ000).
CREATE OR REPLACE FUNCTION taskmq.enter(p_alone boolean) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF p_alone OR taskmq.is_strict() THEN
        PERFORM pg_advisory_xact_lock(hashtext('taskmq'), 0);
        RETURN true;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(hashtext('taskmq'), 0);
    IF taskmq.is_strict() THEN
        RAISE EXCEPTION 'taskmq: once more, alone' USING ERRCODE = 'TQ000';
    END IF;
    RETURN false;
END $$;

-- Be alone from here on, in a transaction that began beside others; where somebody else is at work it
-- begins anew. For steps that lock jobs in no order: dependents of dependents.
CREATE OR REPLACE FUNCTION taskmq.need_alone() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('taskmq'), 0) THEN
        RAISE EXCEPTION 'taskmq: once more, alone' USING ERRCODE = 'TQ000';
    END IF;
END $$;

-- Tell whoever listens. Listeners hold locks 1 (queues) and 2 (jobs) while they live: where such a
-- lock is free nobody listens. Names that do not fit into a notification are left out: it means all.
CREATE OR REPLACE FUNCTION taskmq.announce(p_kind text, p_queues text[], p_ended text[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_text text;
BEGIN
    IF cardinality(p_queues) > 0 AND NOT pg_try_advisory_xact_lock(hashtext('taskmq'), 1) THEN
        SELECT p_kind || json_agg(DISTINCT name)::text INTO v_text FROM unnest(p_queues) AS name;
        PERFORM pg_notify('taskmq' || '.queues', CASE WHEN octet_length(v_text) < 7900 THEN v_text ELSE '' END);
    END IF;
    IF cardinality(p_ended) > 0 AND NOT pg_try_advisory_xact_lock(hashtext('taskmq'), 2) THEN
        v_text := array_to_json(p_ended)::text;
        PERFORM pg_notify('taskmq' || '.jobs', CASE WHEN octet_length(v_text) < 7900 THEN v_text ELSE '' END);
    END IF;
END $$;

-- One of the byte strings that were sent as one.
CREATE OR REPLACE FUNCTION taskmq.slice(p_blob bytea, p_end integer, p_length integer)
RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT substring(p_blob FROM p_end - p_length + 1 FOR p_length)
$$;
