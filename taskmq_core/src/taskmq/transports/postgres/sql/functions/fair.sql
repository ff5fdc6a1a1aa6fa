-- Whose turn it is: the rules of taskmq.transports._fair.

-- Give a new job its turn; in a line that has none and needs none, nothing happens.
CREATE OR REPLACE FUNCTION taskmq.take_turn(
    p_seq bigint, p_queue text, p_priority integer, p_key text, p_weight double precision
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_unit CONSTANT bigint := 1048576;
    v_key text := coalesce(p_key, '');
    v_present bigint;
    v_rank bigint;
BEGIN
    SELECT present INTO v_present FROM taskmq.lines WHERE queue = p_queue AND priority = p_priority;
    IF v_present IS NULL THEN
        IF p_key IS NULL THEN
            RETURN;
        END IF;
        v_present := v_unit;
        INSERT INTO taskmq.lines (queue, priority, present)
        VALUES (p_queue, p_priority, v_present) ON CONFLICT DO NOTHING;
    END IF;
    v_rank := greatest(
        v_present,
        (SELECT ends FROM taskmq.served
         WHERE queue = p_queue AND priority = p_priority AND key = v_key),
        (SELECT rank + length FROM taskmq.turns
         WHERE queue = p_queue AND priority = p_priority AND key = v_key
         ORDER BY rank DESC LIMIT 1)
    );
    INSERT INTO taskmq.turns (seq, queue, priority, rank, key, length)
    VALUES (p_seq, p_queue, p_priority, v_rank, v_key,
            greatest(1, round(v_unit / coalesce(p_weight, 1))::bigint));
    UPDATE taskmq.jobs SET rank = v_rank WHERE seq = p_seq;
END $$;

-- A job with a turn is handed out.
CREATE OR REPLACE FUNCTION taskmq.serve(p_seq bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    t taskmq.turns;
BEGIN
    SELECT * INTO t FROM taskmq.turns WHERE seq = p_seq;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO taskmq.lines AS line (queue, priority, present) VALUES (t.queue, t.priority, t.rank)
    ON CONFLICT (queue, priority) DO UPDATE SET present = excluded.present
    WHERE line.present < excluded.present;
    IF t.key IS NOT NULL THEN
        INSERT INTO taskmq.served (queue, priority, key, ends)
        VALUES (t.queue, t.priority, t.key, t.rank + t.length)
        ON CONFLICT (queue, priority, key) DO UPDATE SET ends = excluded.ends
        WHERE served.ends < excluded.ends;
    END IF;
END $$;

-- Jobs never ran: their keys have nothing to pay for.
CREATE OR REPLACE FUNCTION taskmq.forfeit(p_seqs bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM taskmq.turns) THEN
        UPDATE taskmq.turns SET key = NULL WHERE seq = ANY (p_seqs);
    END IF;
END $$;
