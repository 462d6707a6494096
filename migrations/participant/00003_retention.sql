-- Retention of barrier rows (B7). A service calls barrier_retain from time to time, in a transaction of its own:
--
--   SELECT * FROM saga.barrier_retain('saga.accounts', saga_floor, interval '30 days');
--
-- with the prefix and the name of the participant, and the header Saga-Floor of the last command that it got, or NULL. It
-- makes the partitions of the weeks to come, raises the floor, and drops what is below. Commands below the floor are
-- answered with the fault past_retention. SQLSTATE 55P03: the barrier was in use all the time; call it again later.
--
-- The functions run with the rights of their owner, so that a service does not have to own the tables.

-- The participants that use this barrier, each with what it has told last. All of them bound the floor, because each may
-- be served by another coordinator. A participant that has told nothing, or keeps its rows for ever, holds all.
CREATE TABLE saga.barrier_source (
    source     text COLLATE "C" PRIMARY KEY, -- prefix and name of the participant, with a dot between
    saga_floor uuid,                         -- of the last command; NULL: none has come yet
    retention  interval,                     -- NULL: for ever
    told_at    timestamptz      NOT NULL DEFAULT clock_timestamp()
);

-- Transactions whose unsettled rows need not hold the floor any more: see barrier_let_go.
CREATE TABLE saga.barrier_let_go (
    transaction_id uuid        PRIMARY KEY,
    reason         text        NOT NULL,
    let_go_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- barrier_id_ms returns when an id was made, in milliseconds of the Unix epoch.
CREATE FUNCTION saga.barrier_id_ms(p_id uuid) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT ('x' || left(replace(p_id::text, '-', ''), 12))::bit(48)::bigint
$$;

-- barrier_first_id returns the smallest transaction id of an instant. The Go function saga.FirstIDAt says the same.
CREATE FUNCTION saga.barrier_first_id(p_ms bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex(greatest(p_ms, 0)), 12, '0') || '70008000000000000000')::uuid
$$;

-- barrier_week_floor returns the smallest id of a week, counted from the Unix epoch.
CREATE FUNCTION saga.barrier_week_floor(p_week bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex(p_week * 7 * 86400000), 12, '0') || '00000000000000000000')::uuid
$$;

-- barrier_raise returns how far the floor may rise. The Go function saga.RaiseFloor says the same.
CREATE FUNCTION saga.barrier_raise(p_current uuid, p_saga_floor uuid, p_retention interval, p_held uuid)
RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(p_current, least(p_held,
        saga.barrier_first_id(saga.barrier_id_ms(p_saga_floor) - (extract(epoch FROM p_retention) * 1000)::bigint)))
     WHERE p_saga_floor IS NOT NULL AND p_retention IS NOT NULL
    UNION ALL
    SELECT p_current WHERE p_saga_floor IS NULL OR p_retention IS NULL
$$;

-- barrier_partitions makes the partitions from this week to some weeks ahead. A week that has rows in barrier_rest stays
-- there; one whose lock is not granted is left for the next call.
CREATE FUNCTION saga.barrier_partitions(p_weeks_ahead integer DEFAULT 2, p_lock_timeout_ms integer DEFAULT 500)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first bigint := floor(extract(epoch FROM clock_timestamp() - interval '10 minutes') / (7 * 86400));
    dummy text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('saga.barrier_partitions'));
    dummy := set_config('lock_timeout', p_lock_timeout_ms::text, true);
    FOR week IN first .. first + p_weeks_ahead LOOP
        CONTINUE WHEN EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                               WHERE n.nspname = 'saga' AND c.relname = 'barrier_w' || week);
        BEGIN
            EXECUTE format('CREATE TABLE saga.%I PARTITION OF saga.barrier FOR VALUES FROM (%L) TO (%L) WITH (fillfactor = 70)',
                'barrier_w' || week, saga.barrier_week_floor(week), saga.barrier_week_floor(week + 1));
        EXCEPTION
            WHEN check_violation THEN
                RAISE DEBUG 'saga.barrier_rest has rows of week %', week;
            WHEN lock_not_available THEN
                RAISE DEBUG 'the barrier is in use; the partition of week % is made later', week;
        END;
    END LOOP;
END $$;

-- barrier_tell records a participant, how long it keeps its rows, and the Saga-Floor that it was told last; NULL leaves
-- what was told before. Call it before the first command, so that others do not forget what this one needs.
CREATE FUNCTION saga.barrier_tell(p_source text, p_saga_floor uuid, p_retention interval)
RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO saga.barrier_source AS s (source, saga_floor, retention)
        VALUES (p_source, nullif(p_saga_floor, '00000000-0000-0000-0000-000000000000'), p_retention)
        ON CONFLICT (source) DO UPDATE SET saga_floor = coalesce(EXCLUDED.saga_floor, s.saga_floor),
            retention = EXCLUDED.retention, told_at = clock_timestamp()
$$;

-- barrier_let_go says that nothing will come for a transaction any more whose confirm or cancel was given up: its rows
-- hold the floor no longer. Settle by hand what they hold in the business first.
CREATE FUNCTION saga.barrier_let_go(p_transaction uuid, p_reason text)
RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO saga.barrier_let_go (transaction_id, reason) VALUES (p_transaction, p_reason) ON CONFLICT DO NOTHING
$$;

-- barrier_retain does what the head of this file says, and returns
--   floor    as it is now
--   held     the oldest transaction with an unsettled row that the floor could not pass, if there is one
--   blocked  the participant that keeps the floor from rising, if one does: it has told nothing, or keeps all for ever
--   dropped  how many partitions were dropped
--   deleted  how many rows were deleted from barrier_rest; p_rows_max: call again, there may be more
-- The floor is stored in the transaction that drops. It is for a transaction of its own: the barrier's table is locked
-- while it waits, at most for the lock timeout, and until the COMMIT.
CREATE FUNCTION saga.barrier_retain(p_source text, p_saga_floor uuid, p_retention interval,
    p_lock_timeout_ms integer DEFAULT 500, p_rows_max integer DEFAULT 10000,
    OUT floor uuid, OUT held uuid, OUT blocked text, OUT dropped integer, OUT deleted integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    now_id  uuid := saga.barrier_first_id((extract(epoch FROM clock_timestamp()) * 1000)::bigint);
    current uuid;
    part    record;
    dummy   text;
BEGIN
    IF (p_retention >= interval '1 hour' AND p_rows_max > 0) IS NOT TRUE THEN
        RAISE EXCEPTION 'saga.barrier_retain: retention %, at most % rows', p_retention, p_rows_max USING ERRCODE = 'SG002',
            HINT = 'keep rows for an hour at least; to keep them for ever call barrier_tell with NULL instead';
    END IF;
    PERFORM saga.barrier_tell(p_source, p_saga_floor, p_retention);
    PERFORM pg_advisory_xact_lock(hashtext('saga.barrier_partitions'));
    dropped := 0;
    deleted := 0;
    SELECT f.floor INTO current FROM saga.barrier_floor f WHERE f.one;
    SELECT s.source INTO blocked FROM saga.barrier_source s WHERE s.saga_floor IS NULL OR s.retention IS NULL ORDER BY s.source LIMIT 1;
    floor := current;
    IF blocked IS NULL THEN
        -- safeguard: a floor from the future would forget everything
        SELECT saga.barrier_raise(current, least(s.saga_floor, now_id), s.retention, NULL) INTO floor
          FROM saga.barrier_source s ORDER BY 1 LIMIT 1;
    END IF;
    IF floor > current THEN
        SELECT b.transaction_id INTO held FROM saga.barrier b
         WHERE b.transaction_id < floor AND (b.kind = 'tcc' AND b.state = 'tried' OR b.state = 'trying')
           AND NOT EXISTS (SELECT FROM saga.barrier_let_go g WHERE g.transaction_id = b.transaction_id)
         ORDER BY b.transaction_id LIMIT 1;
        floor := greatest(current, least(floor, held));
    END IF;
    IF floor > current THEN
        UPDATE saga.barrier_floor f SET floor = barrier_retain.floor WHERE f.one;
    END IF;
    DELETE FROM saga.barrier_rest r
     WHERE r.ctid = ANY (ARRAY(SELECT x.ctid FROM saga.barrier_rest x WHERE x.transaction_id < least(floor, held)
                                ORDER BY x.transaction_id LIMIT p_rows_max));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    DELETE FROM saga.barrier_let_go g WHERE g.transaction_id < floor;
    -- What is left needs the table for itself.
    dummy := set_config('lock_timeout', p_lock_timeout_ms::text, true);
    FOR part IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'saga.barrier'::regclass AND c.relname ~ '^barrier_w[0-9]+$'
           AND saga.barrier_week_floor(substr(c.relname, 10)::bigint + 1) <= least(floor, held)
         ORDER BY c.relname
    LOOP
        EXECUTE format('DROP TABLE saga.%I', part.relname);
        dropped := dropped + 1;
    END LOOP;
    PERFORM saga.barrier_partitions(p_lock_timeout_ms => p_lock_timeout_ms);
END $$;

SELECT saga.barrier_partitions();

INSERT INTO saga.barrier_version (version) VALUES (3);
