-- Who may pass, who waits, and who comes next: the rules of taskmq.transports._gates. Whoever calls
-- these is alone in the store.

CREATE OR REPLACE FUNCTION taskmq.gate_of(p_limit json) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT (p_limit->>'kind') || ':' || (p_limit->>'key')
$$;

-- The gate that a job with these limits runs behind.
CREATE OR REPLACE FUNCTION taskmq.concurrency_gate(p_limits text) RETURNS text LANGUAGE sql AS $$
    SELECT taskmq.gate_of(value) FROM json_array_elements(p_limits::json) WITH ORDINALITY AS e (value, n)
    WHERE value->>'kind' = 'concurrency' ORDER BY n LIMIT 1
$$;

CREATE OR REPLACE FUNCTION taskmq.rate_interval(p_limit json)
RETURNS double precision LANGUAGE sql IMMUTABLE AS $$
    SELECT (p_limit->>'per')::double precision / coalesce((p_limit->>'amount')::integer, 1)
$$;

-- When a rate gate lets the next job pass.
CREATE OR REPLACE FUNCTION taskmq.opens_at(p_limit json) RETURNS double precision LANGUAGE plpgsql AS $$
BEGIN
    RETURN coalesce((SELECT until FROM taskmq.rates WHERE gate = taskmq.gate_of(p_limit)), 0)
        - (coalesce((p_limit->>'burst')::integer, 1) - 1) * taskmq.rate_interval(p_limit);
END $$;

-- How many jobs a gate would let pass now.
CREATE OR REPLACE FUNCTION taskmq.room(p_limit json, p_now double precision)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_early double precision;
BEGIN
    IF p_limit->>'kind' = 'concurrency' THEN
        RETURN greatest(0, coalesce((p_limit->>'amount')::integer, 1) - (
            SELECT count(*) FROM taskmq.jobs WHERE gate = 'runs ' || taskmq.gate_of(p_limit)
        ));
    END IF;
    v_early := p_now - taskmq.opens_at(p_limit);
    IF v_early < 0 THEN
        RETURN 0;
    END IF;
    RETURN least(
        coalesce((p_limit->>'burst')::integer, 1),
        floor(least(v_early / taskmq.rate_interval(p_limit), 1e9))::integer + 1
    );
END $$;

-- Let a job run (NULL), or name the gate that it has to be held at.
CREATE OR REPLACE FUNCTION taskmq.admit(p_limits text, p_now double precision)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_limit json;
    v_interval double precision;
BEGIN
    FOR v_limit IN SELECT value FROM json_array_elements(p_limits::json) WITH ORDINALITY AS e (value, n) ORDER BY n LOOP
        IF taskmq.room(v_limit, p_now) < 1 THEN
            RETURN taskmq.gate_of(v_limit);
        END IF;
    END LOOP;
    FOR v_limit IN SELECT value FROM json_array_elements(p_limits::json) WHERE value->>'kind' = 'rate' LOOP
        v_interval := taskmq.rate_interval(v_limit);
        INSERT INTO taskmq.rates (gate, until) VALUES (taskmq.gate_of(v_limit), p_now + v_interval)
        ON CONFLICT (gate) DO UPDATE SET until = greatest(rates.until, p_now) + v_interval;
    END LOOP;
    RETURN NULL;
END $$;

-- The lanes in which a job with these limits would stand.
CREATE OR REPLACE FUNCTION taskmq.lanes_of(p_limits text, p_queue text, p_priority integer)
RETURNS taskmq.lane[] LANGUAGE sql AS $$
    SELECT array_agg(ROW (taskmq.gate_of(value), p_queue, p_priority)::taskmq.lane)
    FROM json_array_elements(p_limits::json)
$$;

-- A job runs no longer, or will not run: the lanes that have to be seen to. From one lane of a gate
-- to the next by index, however many jobs stand in it.
CREATE OR REPLACE FUNCTION taskmq.leave(p_limits text, p_queue text, p_priority integer)
RETURNS taskmq.lane[] LANGUAGE plpgsql AS $$
DECLARE
    v_limit json;
    v_lanes taskmq.lane[] := taskmq.lanes_of(p_limits, p_queue, p_priority);
BEGIN
    FOR v_limit IN SELECT value FROM json_array_elements(p_limits::json) LOOP
        IF v_limit->>'kind' = 'concurrency' THEN
            v_lanes := v_lanes || ARRAY(
                WITH RECURSIVE lanes (queue, priority) AS (
                    (SELECT queue, priority FROM taskmq.jobs
                     WHERE gate = 'held ' || taskmq.gate_of(v_limit)
                     ORDER BY queue, (-priority) LIMIT 1)
                    UNION ALL
                    SELECT following.queue, following.priority
                    FROM lanes, LATERAL (
                        SELECT queue, priority FROM taskmq.jobs
                        WHERE gate = 'held ' || taskmq.gate_of(v_limit)
                        AND (queue, -priority) > (lanes.queue, -lanes.priority)
                        ORDER BY queue, (-priority) LIMIT 1
                    ) AS following
                )
                SELECT ROW (taskmq.gate_of(v_limit), queue, priority)::taskmq.lane FROM lanes
            );
        END IF;
    END LOOP;
    RETURN v_lanes;
END $$;

-- A job that was let pass has not started. Those that wait for the rate in place of others wait no
-- longer than it keeps them now: their queues.
CREATE OR REPLACE FUNCTION taskmq.refund(p_limits text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    v_limit json;
    v_at double precision;
    v_some text[];
    v_queues text[] := '{}';
BEGIN
    FOR v_limit IN SELECT value FROM json_array_elements(p_limits::json) WHERE value->>'kind' = 'rate' LOOP
        UPDATE taskmq.rates SET until = until - taskmq.rate_interval(v_limit)
        WHERE gate = taskmq.gate_of(v_limit);
        v_at := taskmq.opens_at(v_limit);
        WITH hastened AS (
            UPDATE taskmq.jobs SET visible_at = v_at
            WHERE gate = 'next ' || taskmq.gate_of(v_limit) AND phase = 3 AND visible_at > v_at
            RETURNING queue
        )
        SELECT coalesce(array_agg(DISTINCT queue), '{}') INTO v_some FROM hastened;
        v_queues := v_queues || v_some;
    END LOOP;
    RETURN v_queues;
END $$;

-- See to some lanes: the queues in which a job was made ready, and those where one is delayed.
CREATE OR REPLACE FUNCTION taskmq.refill(
    p_lanes taskmq.lane[], p_now double precision, OUT ready text[], OUT later text[]
) LANGUAGE plpgsql AS $$
DECLARE
    v_lane taskmq.lane;
    v_limit json;
    v_held text;
    v_rank bigint;
    v_seq bigint;
    v_free integer;
    v_at double precision;
BEGIN
    ready := '{}';
    later := '{}';
    FOR v_lane IN SELECT DISTINCT gate, queue, priority FROM unnest(p_lanes) LOOP
        SELECT limits, rank, seq INTO v_held, v_rank, v_seq FROM taskmq.jobs
        WHERE gate = 'held ' || v_lane.gate AND queue = v_lane.queue
        AND (-priority) = -v_lane.priority
        ORDER BY rank, seq LIMIT 1;
        CONTINUE WHEN v_held IS NULL;
        SELECT value INTO v_limit FROM json_array_elements(v_held::json)
        WHERE taskmq.gate_of(value) = v_lane.gate LIMIT 1;
        v_free := taskmq.room(v_limit, p_now);
        v_at := NULL;
        IF v_free = 0 AND v_limit->>'kind' = 'rate' THEN
            v_free := 1;
            v_at := taskmq.opens_at(v_limit);
        END IF;
        v_free := v_free - (
            SELECT count(*) FROM taskmq.jobs
            WHERE gate = 'next ' || v_lane.gate AND queue = v_lane.queue
            AND (-priority) = -v_lane.priority AND (rank, seq) < (v_rank, v_seq)
        );
        CONTINUE WHEN v_free < 1;
        UPDATE taskmq.jobs SET
            phase = CASE WHEN v_at IS NULL THEN 2 ELSE 3 END,
            gate = 'next ' || v_lane.gate,
            visible_at = coalesce(v_at, visible_at)
        WHERE seq IN (
            SELECT seq FROM taskmq.jobs
            WHERE gate = 'held ' || v_lane.gate AND queue = v_lane.queue
            AND (-priority) = -v_lane.priority
            ORDER BY rank, seq LIMIT v_free
        );
        IF v_at IS NULL THEN
            ready := ready || v_lane.queue;
        ELSE
            later := later || v_lane.queue;
        END IF;
    END LOOP;
END $$;

-- A job has been held at a gate, or leased (NULL): see to the lanes somebody of which has to come
-- before all who are looked at next, and tell whether there is one. The job may have stood for a lane,
-- and stands elsewhere now; and where one was enough to wait for a rate, that may be open for several.
CREATE OR REPLACE FUNCTION taskmq.press_on(
    p_limits text, p_queue text, p_priority integer, p_gate text, p_now double precision,
    INOUT filled taskmq.lane[], OUT promoted boolean
) LANGUAGE plpgsql AS $$
DECLARE
    v_limit json;
    v_lane taskmq.lane;
    v_pressing taskmq.lane[] := '{}';
BEGIN
    FOR v_limit IN SELECT value FROM json_array_elements(p_limits::json) LOOP
        v_lane := ROW (taskmq.gate_of(v_limit), p_queue, p_priority);
        CONTINUE WHEN p_gate IS NULL
            AND (v_limit->>'kind' <> 'rate' OR v_limit->>'burst' IS NULL OR v_lane = ANY (filled));
        IF taskmq.room(v_limit, p_now) > 0 THEN
            v_pressing := v_pressing || v_lane;
        END IF;
    END LOOP;
    IF p_gate IS NULL THEN
        filled := filled || v_pressing;
    END IF;
    promoted := cardinality(v_pressing) > 0
        AND (SELECT cardinality(ready) > 0 FROM taskmq.refill(v_pressing, p_now));
END $$;

-- Give new jobs their places: those that must wait are held, the others represent their lanes. Where
-- there are turns, a new job may come before others: such lanes are refilled.
CREATE OR REPLACE FUNCTION taskmq.place(p_seqs bigint[], p_now double precision)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    r record;
    v_limit json;
    v_lane text;
    v_lanes text[];
    v_holder text;
    v_last text;
    v_counts jsonb := '{}';  -- of each lane: how many of its jobs are not held
    v_holding jsonb := '{}';  -- lanes that hold jobs
BEGIN
    FOR r IN
        SELECT seq, queue, priority, limits FROM taskmq.jobs
        WHERE seq = ANY (p_seqs) AND limits IS NOT NULL AND phase = 2 ORDER BY seq
    LOOP
        v_holder := NULL;
        v_lanes := '{}';
        FOR v_limit IN SELECT value FROM json_array_elements(r.limits::json) WITH ORDINALITY AS e (value, n) ORDER BY n LOOP
            v_last := taskmq.gate_of(v_limit);
            v_lane := r.queue || ' ' || r.priority || ' ' || v_last;
            v_lanes := v_lanes || v_lane;
            IF NOT v_counts ? v_lane THEN
                v_counts := jsonb_set(v_counts, ARRAY[v_lane], to_jsonb((
                    SELECT count(*) FROM taskmq.jobs
                    WHERE gate = 'next ' || v_last AND queue = r.queue AND (-priority) = -r.priority
                )));
                IF EXISTS (
                    SELECT 1 FROM taskmq.jobs
                    WHERE gate = 'held ' || v_last AND queue = r.queue AND (-priority) = -r.priority
                ) THEN
                    v_holding := jsonb_set(v_holding, ARRAY[v_lane], 'true');
                END IF;
            END IF;
            IF v_holding ? v_lane OR (v_counts->>v_lane)::integer >= greatest(
                taskmq.room(v_limit, p_now), CASE WHEN v_limit->>'kind' = 'rate' THEN 1 ELSE 0 END
            ) THEN
                v_holding := jsonb_set(v_holding, ARRAY[v_lane], 'true');
                v_holder := v_last;
                EXIT;
            END IF;
        END LOOP;
        IF v_holder IS NOT NULL THEN
            UPDATE taskmq.jobs SET phase = -1, gate = 'held ' || v_holder WHERE seq = r.seq;
            CONTINUE;
        END IF;
        UPDATE taskmq.jobs SET gate = 'next ' || v_last WHERE seq = r.seq;
        FOREACH v_lane IN ARRAY v_lanes LOOP
            v_counts := jsonb_set(v_counts, ARRAY[v_lane], to_jsonb((v_counts->>v_lane)::integer + 1));
        END LOOP;
    END LOOP;
    IF EXISTS (SELECT 1 FROM taskmq.lines) THEN
        PERFORM taskmq.refill(
            ARRAY(
                SELECT ROW (substr(gate, 6), queue, priority)::taskmq.lane
                FROM taskmq.jobs WHERE seq = ANY (p_seqs) AND phase = -1
            ),
            p_now
        );
    END IF;
END $$;
