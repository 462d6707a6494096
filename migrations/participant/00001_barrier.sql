-- The barrier of a Sagacity participant: one row per step of a transaction, in the participant's own
-- database, written in the same local transaction as the business change. Callable from any language:
--
--   BEGIN ISOLATION LEVEL READ COMMITTED;
--   SELECT * FROM saga.barrier_enter(tenant, transaction, step, phase, kind, 'execute', sha256, revision, deadline);
--     verdict 'reply': answer with the columns outcome, code, reason, result …; then COMMIT if keep, else ROLLBACK
--     verdict 'run':   go on
--   SAVEPOINT handler;
--     … the business change …
--   done:    SELECT saga.barrier_leave(tenant, transaction, step, phase, sha256, revision, 'done', result => …); COMMIT;
--   refused: ROLLBACK TO SAVEPOINT handler; SELECT saga.barrier_leave(…, 'refused', code, reason); COMMIT;
--            (the try of a step that is not retriable only; elsewhere ROLLBACK and answer a fault)
--   else:    ROLLBACK;
--
-- barrier_enter is a statement of its own, before the business change and never in one CTE with it: each
-- statement of READ COMMITTED sees what was committed before it, and the rules rest on that.
-- Answer only after the COMMIT has succeeded. SQLSTATE 55P03 and 40P01 of barrier_enter mean: answer retry.
--
-- SQLSTATEs raised here: SG001 wrong isolation level; SG002 invalid argument; SG003 barrier_leave without
-- barrier_enter, or with a lease that is no longer the caller's; SG004 barrier_enter was committed without
-- barrier_leave.
--
-- Names are qualified throughout, so that no search_path matters. enable_seqscan is off in the functions
-- because sessions keep the plan that they made when the table was small; so every statement has to find its
-- rows by an index, the one row of barrier_floor too (a plan without one is priced beyond the reach of JIT). With a
-- generic plan the partition is found when the statement begins; PostgreSQL would rather plan anew each time.

DO $$ BEGIN
    -- CREATE SCHEMA IF NOT EXISTS asks for a privilege even where the schema exists.
    IF to_regnamespace('saga') IS NULL THEN
        CREATE SCHEMA saga;
    END IF;
END $$;

CREATE TABLE saga.barrier_version (
    version      integer     PRIMARY KEY,
    installed_at timestamptz NOT NULL DEFAULT now()
);

-- Partitions by ranges of the transaction, one for each week, so that retention drops them (B7): ids are UUIDv7, which
-- order by time, so inserts go to the right end of the newest one's index. Weeks without a partition are in barrier_rest,
-- so that nothing depends on partitions being made. Statements find the partition of a row without planning again:
-- plan_cache_mode in the functions below.
--
-- No CHECK constraints: they take half as long again as the insert or update itself; barrier_enter checks its
-- arguments, and only the functions below write.
--
-- fillfactor: barrier_leave and phase two replace the row on its own page (HOT); no other index may be added.
CREATE TABLE saga.barrier (
    transaction_id       uuid             NOT NULL,
    step                 text COLLATE "C" NOT NULL,
    tenant               text COLLATE "C" NOT NULL,
    kind                 text COLLATE "C" NOT NULL, -- saga, tcc, pivot, retriable
    -- absent: only reserved. entered: between enter and leave of a try, never committed.
    -- trying, tried, refused, confirmed, cancelled, null_cancelled.
    state                text COLLATE "C" NOT NULL,
    created_at           timestamptz      NOT NULL DEFAULT clock_timestamp(),
    updated_at           timestamptz      NOT NULL DEFAULT clock_timestamp(),
    lease_until          timestamptz,     -- of a trying row
    lease_token          bigint,          -- rises with every claim
    try_sha256           bytea,           -- NULL: the phase was not executed
    confirm_sha256       bytea,
    cancel_sha256        bytea,
    try_revision         integer,         -- of the command that was executed
    confirm_revision     integer,
    cancel_revision      integer,
    try_min_revision     integer,         -- commands below it are superseded
    confirm_min_revision integer,
    cancel_min_revision  integer,
    try_outcome          text,            -- done or refused; a recorded confirm or cancel is always done
    try_code             text,
    try_reason           text,
    try_result           bytea,
    try_result_type      text,
    confirm_result       bytea,
    confirm_result_type  text,
    cancel_result        bytea,
    cancel_result_type   text,
    PRIMARY KEY (transaction_id, step, tenant)
) PARTITION BY RANGE (transaction_id);
CREATE TABLE saga.barrier_rest PARTITION OF saga.barrier DEFAULT WITH (fillfactor = 70);

-- The retention floor: transactions below it are forgotten. One row. Only retention raises it, in the
-- transaction that drops the rows; barrier_enter reads it, and never writes it, so that commands do not
-- queue up behind one row.
CREATE TABLE saga.barrier_floor (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    floor uuid    NOT NULL
);
INSERT INTO saga.barrier_floor (floor) VALUES ('00000000-0000-0000-0000-000000000000');

CREATE TYPE saga.barrier_verdict AS (
    verdict        text,    -- run: call user code. reply: answer what follows. inquire: ask downstream first
    keep           boolean, -- a row was written: COMMIT before answering. Otherwise ROLLBACK will do
    outcome        text,
    code           text,
    reason         text,
    state          text,    -- with outcome state; with keep: the state that was stored
    result         bytea,
    result_type    text,
    revision       integer, -- of the recorded operation, else of the command
    content_sha256 bytea,   -- of the recorded operation, else of the command
    retry_after_ms bigint,
    replayed       boolean,
    lease_token    bigint   -- with run and inquire of an external effect: pass it to barrier_leave
);

-- barrier_reply builds an answer that stores nothing.
CREATE FUNCTION saga.barrier_reply(p_sha256 bytea, p_revision integer, p_outcome text, p_code text, p_reason text)
RETURNS saga.barrier_verdict LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v saga.barrier_verdict;
BEGIN
    v.verdict := 'reply';
    v.keep := false;
    v.replayed := false;
    v.outcome := p_outcome;
    v.code := p_code;
    v.reason := p_reason;
    v.revision := p_revision;
    v.content_sha256 := p_sha256;
    RETURN v;
END $$;

-- barrier_state answers an inquiry about a row: its state with the try's stored reply.
CREATE FUNCTION saga.barrier_state(r saga.barrier, p_sha256 bytea, p_revision integer, p_recorded bytea, p_recorded_revision integer)
RETURNS saga.barrier_verdict LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v saga.barrier_verdict;
BEGIN
    v := saga.barrier_reply(coalesce(p_recorded, p_sha256), coalesce(p_recorded_revision, p_revision), 'state', r.try_code, r.try_reason);
    v.state := CASE coalesce(r.state, 'absent') WHEN 'null_cancelled' THEN 'cancelled' ELSE coalesce(r.state, 'absent') END;
    v.result := r.try_result;
    v.result_type := r.try_result_type;
    RETURN v;
END $$;

-- barrier_admit is the table of rules, for a row as it is (all NULL if there is none). It reads and writes
-- nothing; keep and state say what barrier_enter has to write. The Go function saga.Admit says the same.
CREATE FUNCTION saga.barrier_admit(r saga.barrier, p_phase text, p_kind text, p_verb text, p_sha256 bytea, p_revision integer,
    p_deadline timestamptz, p_past_retention boolean, p_now timestamptz)
RETURNS saga.barrier_verdict LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v            saga.barrier_verdict;
    row_state    text := coalesce(r.state, 'absent');
    step_kind    text := coalesce(r.kind, p_kind);
    recorded     bytea;
    revision     integer;
    min_revision integer;
BEGIN
    CASE p_phase
        WHEN 'try'     THEN recorded := r.try_sha256;     revision := r.try_revision;     min_revision := r.try_min_revision;
        WHEN 'confirm' THEN recorded := r.confirm_sha256; revision := r.confirm_revision; min_revision := r.confirm_min_revision;
        ELSE                recorded := r.cancel_sha256;  revision := r.cancel_revision;  min_revision := r.cancel_min_revision;
    END CASE;

    IF row_state = 'entered' THEN
        RAISE EXCEPTION 'saga.barrier_enter was committed without saga.barrier_leave: transaction %, step %', r.transaction_id, r.step
            USING ERRCODE = 'SG004', HINT = 'The effect of the try is in doubt. Repair the program, then the row.';
    END IF;
    IF p_past_retention THEN
        IF p_verb = 'inquire' THEN
            v := saga.barrier_reply(p_sha256, p_revision, 'state', NULL, NULL);
            v.state := 'past_retention';
            RETURN v;
        END IF;
        RETURN saga.barrier_reply(p_sha256, p_revision, 'fault', 'past_retention', 'the transaction is older than what this participant remembers');
    END IF;
    -- safeguard: content-check
    IF recorded <> p_sha256 THEN
        RETURN saga.barrier_reply(p_sha256, p_revision, 'fault', 'conflict', 'the operation is recorded with other content');
    END IF;
    -- end safeguard
    IF p_verb = 'inquire' OR p_verb = 'reserve'
       AND (recorded IS NOT NULL OR row_state = 'trying' OR p_phase = 'cancel' AND row_state = 'refused') THEN
        RETURN saga.barrier_state(r, p_sha256, p_revision, recorded, revision);
    END IF;
    IF p_verb = 'reserve' THEN
        v := saga.barrier_reply(p_sha256, p_revision, 'reserved', NULL, NULL);
        v.keep := true;
        v.state := row_state;
        RETURN v;
    END IF;
    IF recorded IS NULL AND p_revision < min_revision THEN
        RETURN saga.barrier_reply(p_sha256, p_revision, 'fault', 'superseded', 'a newer revision of the operation is reserved');
    END IF;

    -- Stored replies: the same for every try that ended, every confirm and every cancel that is recorded.
    IF p_phase = 'try' AND row_state IN ('tried', 'refused', 'confirmed') OR p_phase = 'confirm' AND row_state = 'confirmed'
       OR p_phase = 'cancel' AND row_state IN ('cancelled', 'null_cancelled') THEN
        v := saga.barrier_reply(p_sha256, p_revision, 'done', NULL, NULL);
        v.replayed := true;
        CASE p_phase
            WHEN 'try'     THEN v.outcome := r.try_outcome; v.code := r.try_code; v.reason := r.try_reason;
                                v.result := r.try_result;     v.result_type := r.try_result_type;
            WHEN 'confirm' THEN v.result := r.confirm_result; v.result_type := r.confirm_result_type;
            ELSE                v.result := r.cancel_result;  v.result_type := r.cancel_result_type;
        END CASE;
        RETURN v;
    END IF;

    CASE p_phase
    WHEN 'try' THEN
        CASE row_state
        WHEN 'absent' THEN
            IF p_now > p_deadline AND step_kind <> 'retriable' THEN
                v := saga.barrier_reply(p_sha256, p_revision, 'refused', 'deadline', 'the try came after its deadline');
                v.keep := true;
                v.state := 'refused';
                RETURN v;
            END IF;
            v.verdict := 'run';
        WHEN 'trying' THEN
            IF p_now < r.lease_until THEN
                v := saga.barrier_reply(p_sha256, p_revision, 'in_progress', NULL, 'an earlier attempt still holds the lease');
                v.retry_after_ms := ceil(extract(epoch FROM r.lease_until - p_now) * 1000);
                RETURN v;
            END IF;
            v.verdict := 'inquire';
        ELSE -- cancelled, null_cancelled
            RETURN saga.barrier_reply(p_sha256, p_revision, 'hanging', NULL, 'the cancel of the step is recorded');
        END CASE;
    WHEN 'confirm' THEN
        CASE row_state
        WHEN 'tried' THEN
            v.verdict := 'run';
        WHEN 'cancelled', 'null_cancelled' THEN
            RETURN saga.barrier_reply(p_sha256, p_revision, 'fault', 'contradicts', 'the step is cancelled');
        ELSE -- absent, trying, refused
            RETURN saga.barrier_reply(p_sha256, p_revision, 'fault', 'not_tried', 'the step has no committed try');
        END CASE;
    ELSE
        CASE row_state
        WHEN 'absent' THEN
            v := saga.barrier_reply(p_sha256, p_revision, 'done', NULL, NULL);
            v.keep := true;
            v.state := 'null_cancelled';
            RETURN v;
        WHEN 'trying' THEN
            IF p_now < r.lease_until THEN
                v := saga.barrier_reply(p_sha256, p_revision, 'retry', 'busy', 'an earlier attempt still holds the lease');
                v.retry_after_ms := ceil(extract(epoch FROM r.lease_until - p_now) * 1000);
                RETURN v;
            END IF;
            v.verdict := 'inquire';
        WHEN 'tried' THEN
            IF step_kind = 'pivot' THEN
                v := saga.barrier_reply(p_sha256, p_revision, 'fault', 'contradicts', 'the pivot has executed');
                v.result := r.try_result;
                v.result_type := r.try_result_type;
                RETURN v;
            END IF;
            v.verdict := 'run';
        WHEN 'refused' THEN
            RETURN saga.barrier_reply(p_sha256, p_revision, 'done', NULL, NULL);
        ELSE -- confirmed
            RETURN saga.barrier_reply(p_sha256, p_revision, 'fault', 'contradicts', 'the step is confirmed');
        END CASE;
    END CASE;
    v.keep := false;
    v.revision := p_revision;
    v.content_sha256 := p_sha256;
    RETURN v;
END $$;

-- barrier_probe finds out whether somebody is inserting the step's row just now: true if so. It leaves nothing
-- behind. An uncommitted row cannot be read, only run into.
CREATE FUNCTION saga.barrier_probe(p_tenant text, p_transaction uuid, p_step text, p_kind text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    before text := current_setting('lock_timeout');
    dummy  text;
BEGIN
    dummy := set_config('lock_timeout', '1', true);
    INSERT INTO saga.barrier (transaction_id, step, tenant, kind, state)
    VALUES (p_transaction, p_step, p_tenant, p_kind, 'entered')
    ON CONFLICT (transaction_id, step, tenant) DO NOTHING;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'SG000'; -- takes the row away again, and the setting
    END IF;
    dummy := set_config('lock_timeout', before, true);
    RETURN true; -- committed a moment ago
EXCEPTION
    WHEN SQLSTATE 'SG000' THEN RETURN false;
    WHEN lock_not_available THEN RETURN true;
END $$;

-- barrier_store writes what barrier_admit said has to be kept, and claims leases, on a row that is locked.
-- p_state NULL leaves the state as it is.
CREATE FUNCTION saga.barrier_store(p_tenant text, p_transaction uuid, p_step text, p_phase text, p_verb text,
    p_sha256 bytea, p_revision integer, p_state text, p_code text, p_reason text, p_lease interval)
RETURNS bigint LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    token bigint;
BEGIN
    IF p_verb = 'reserve' THEN
        UPDATE saga.barrier b SET updated_at = clock_timestamp(),
            try_min_revision     = CASE p_phase WHEN 'try'     THEN greatest(b.try_min_revision,     p_revision + 1) ELSE b.try_min_revision     END,
            confirm_min_revision = CASE p_phase WHEN 'confirm' THEN greatest(b.confirm_min_revision, p_revision + 1) ELSE b.confirm_min_revision END,
            cancel_min_revision  = CASE p_phase WHEN 'cancel'  THEN greatest(b.cancel_min_revision,  p_revision + 1) ELSE b.cancel_min_revision  END
         WHERE b.transaction_id = p_transaction AND b.step = p_step AND b.tenant = p_tenant;
    ELSIF p_state = 'null_cancelled' THEN
        UPDATE saga.barrier b SET state = 'null_cancelled', updated_at = clock_timestamp(),
            cancel_sha256 = p_sha256, cancel_revision = p_revision
         WHERE b.transaction_id = p_transaction AND b.step = p_step AND b.tenant = p_tenant;
    ELSIF p_state = 'refused' THEN
        UPDATE saga.barrier b SET state = 'refused', updated_at = clock_timestamp(), lease_until = NULL, lease_token = NULL,
            try_sha256 = p_sha256, try_revision = p_revision, try_outcome = 'refused', try_code = p_code, try_reason = p_reason
         WHERE b.transaction_id = p_transaction AND b.step = p_step AND b.tenant = p_tenant;
    ELSE
        UPDATE saga.barrier b SET state = 'trying', updated_at = clock_timestamp(),
            lease_until = clock_timestamp() + p_lease, lease_token = coalesce(b.lease_token, 0) + 1,
            try_sha256   = CASE p_phase WHEN 'try' THEN p_sha256   ELSE b.try_sha256   END,
            try_revision = CASE p_phase WHEN 'try' THEN p_revision ELSE b.try_revision END
         WHERE b.transaction_id = p_transaction AND b.step = p_step AND b.tenant = p_tenant
        RETURNING b.lease_token INTO token;
    END IF;
    RETURN token;
END $$;

-- barrier_inserted ends barrier_enter for a row that it has just inserted: nothing was there.
CREATE FUNCTION saga.barrier_inserted(p_tenant text, p_transaction uuid, p_step text, p_phase text, p_verb text, p_sha256 bytea,
    p_revision integer, p_past_retention boolean)
RETURNS saga.barrier_verdict LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v     saga.barrier_verdict;
    dummy bigint;
BEGIN
    IF p_past_retention THEN
        DELETE FROM saga.barrier b WHERE b.transaction_id = p_transaction AND b.step = p_step AND b.tenant = p_tenant;
        RETURN saga.barrier_reply(p_sha256, p_revision, 'fault', 'past_retention', 'the transaction is older than what this participant remembers');
    END IF;
    IF p_verb = 'reserve' THEN
        v := saga.barrier_reply(p_sha256, p_revision, 'reserved', NULL, NULL);
        v.state := 'absent';
        dummy := saga.barrier_store(p_tenant, p_transaction, p_step, p_phase, p_verb, p_sha256, p_revision, v.state, NULL, NULL, NULL);
    ELSIF p_phase = 'cancel' THEN
        v := saga.barrier_reply(p_sha256, p_revision, 'done', NULL, NULL);
        v.state := 'null_cancelled';
        -- safeguard: tombstone
        v.keep := true; -- the row that was inserted stays: a try that comes later finds it and is refused
        -- end safeguard
        RETURN v;
    ELSE -- the try came too late
        v := saga.barrier_reply(p_sha256, p_revision, 'refused', 'deadline', 'the try came after its deadline');
        v.state := 'refused';
        dummy := saga.barrier_store(p_tenant, p_transaction, p_step, p_phase, p_verb, p_sha256, p_revision, v.state, v.code, v.reason, NULL);
    END IF;
    v.keep := true;
    RETURN v;
END $$;

-- barrier_enter decides whether an operation may run. See the head of this file.
-- p_verb: execute or reserve. p_lease: for external effects, how long the caller's claim of a try shall hold.
-- p_lock_timeout_ms: how long to wait for another operation of the step; it stays set until the end of the
-- transaction, for the business statements too; NULL leaves the session's setting.
CREATE FUNCTION saga.barrier_enter(p_tenant text, p_transaction uuid, p_step text, p_phase text, p_kind text, p_verb text,
    p_content_sha256 bytea, p_revision integer, p_deadline timestamptz DEFAULT NULL, p_lease interval DEFAULT NULL,
    p_lock_timeout_ms integer DEFAULT 3000)
RETURNS saga.barrier_verdict LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    r        saga.barrier;
    v        saga.barrier_verdict;
    inserted boolean;
    lowest   uuid;
    dummy    text;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'saga.barrier_enter needs READ COMMITTED, this transaction is %', upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'SG001', HINT = 'BEGIN ISOLATION LEVEL READ COMMITTED';
    END IF;
    IF (p_phase IN ('try', 'confirm', 'cancel') AND p_kind IN ('saga', 'tcc', 'pivot', 'retriable') AND p_verb IN ('execute', 'reserve')
        AND octet_length(p_content_sha256) = 32 AND p_revision > 0) IS NOT TRUE THEN
        RAISE EXCEPTION 'saga.barrier_enter: phase %, kind %, verb %, content hash of % bytes, revision %', p_phase, p_kind, p_verb,
            octet_length(p_content_sha256), p_revision USING ERRCODE = 'SG002',
            HINT = 'phase is try, confirm or cancel; kind is saga, tcc, pivot or retriable; verb is execute or reserve; the hash has 32 bytes; revisions begin at 1';
    END IF;
    IF p_lock_timeout_ms IS NOT NULL THEN
        dummy := set_config('lock_timeout', p_lock_timeout_ms::text, true);
    END IF;

    -- Insert first, then lock: whoever inserts waits here for the end of another transaction that has
    -- inserted the row and not ended yet. A loop, because retention may take the row away in between.
    LOOP
        inserted := false;
        IF p_verb = 'reserve' THEN
            INSERT INTO saga.barrier (transaction_id, step, tenant, kind, state)
            VALUES (p_transaction, p_step, p_tenant, p_kind, 'absent')
            ON CONFLICT (transaction_id, step, tenant) DO NOTHING;
            inserted := FOUND;
        ELSIF p_phase = 'try' THEN
            INSERT INTO saga.barrier (transaction_id, step, tenant, kind, state, try_sha256, try_revision, lease_until, lease_token)
            VALUES (p_transaction, p_step, p_tenant, p_kind, CASE WHEN p_lease IS NULL THEN 'entered' ELSE 'trying' END,
                p_content_sha256, p_revision, clock_timestamp() + p_lease, CASE WHEN p_lease IS NULL THEN NULL ELSE 1 END)
            ON CONFLICT (transaction_id, step, tenant) DO NOTHING;
            inserted := FOUND;
        ELSIF p_phase = 'cancel' THEN
            INSERT INTO saga.barrier (transaction_id, step, tenant, kind, state, cancel_sha256, cancel_revision)
            VALUES (p_transaction, p_step, p_tenant, p_kind, 'null_cancelled', p_content_sha256, p_revision)
            ON CONFLICT (transaction_id, step, tenant) DO NOTHING;
            inserted := FOUND;
        END IF;
        IF inserted THEN
            -- The floor is read after the row is ours: retention that took an older row away has committed
            -- its floor by then.
            SELECT f.floor INTO lowest FROM saga.barrier_floor f WHERE f.one;
            IF p_phase = 'try' AND p_verb = 'execute' AND p_transaction >= lowest
               AND (clock_timestamp() > p_deadline AND p_kind <> 'retriable') IS NOT TRUE THEN
                v.verdict := 'run';
                v.keep := p_lease IS NOT NULL;
                v.lease_token := CASE WHEN p_lease IS NOT NULL THEN 1 END;
                v.revision := p_revision;
                v.content_sha256 := p_content_sha256;
                RETURN v;
            END IF;
            RETURN saga.barrier_inserted(p_tenant, p_transaction, p_step, p_phase, p_verb, p_content_sha256, p_revision, p_transaction < lowest);
        END IF;
        SELECT * INTO r FROM saga.barrier b
         WHERE b.transaction_id = p_transaction AND b.step = p_step AND b.tenant = p_tenant
           FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        IF p_phase = 'confirm' AND p_verb = 'execute' THEN
            -- A confirm records nothing about a step that it does not find. If the step's try is under way the
            -- answer is not known yet.
            EXIT WHEN NOT saga.barrier_probe(p_tenant, p_transaction, p_step, p_kind);
            RETURN saga.barrier_reply(p_content_sha256, p_revision, 'retry', 'busy', 'another operation of this step is under way');
        END IF;
    END LOOP;

    SELECT f.floor INTO lowest FROM saga.barrier_floor f WHERE f.one;
    v := saga.barrier_admit(r, p_phase, p_kind, p_verb, p_content_sha256, p_revision, p_deadline, p_transaction < lowest, clock_timestamp());
    -- safeguard: stored-reply
    IF v.replayed THEN
        RETURN v; -- a repeated operation is answered from the row; user code is not called again
    END IF;
    -- end safeguard
    IF v.keep THEN
        dummy := saga.barrier_store(p_tenant, p_transaction, p_step, p_phase, p_verb, p_content_sha256, p_revision, v.state, v.code, v.reason, NULL);
    ELSIF p_lease IS NOT NULL AND (v.verdict = 'inquire' OR v.verdict = 'run' AND p_phase = 'try') THEN
        v.lease_token := saga.barrier_store(p_tenant, p_transaction, p_step, p_phase, p_verb, p_content_sha256, p_revision, NULL, NULL, NULL, p_lease);
        v.keep := true;
    END IF;
    RETURN v;
END $$;

-- barrier_leave stores the reply of an operation that barrier_enter let run, in the same transaction; for an
-- external effect in a later one, with the lease's token. The reply is repeated byte for byte from then on.
CREATE FUNCTION saga.barrier_leave(p_tenant text, p_transaction uuid, p_step text, p_phase text, p_content_sha256 bytea,
    p_revision integer, p_outcome text, p_code text DEFAULT NULL, p_reason text DEFAULT NULL, p_result bytea DEFAULT NULL,
    p_result_type text DEFAULT NULL, p_lease_token bigint DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF p_phase = 'try' AND p_outcome IN ('done', 'refused') THEN
        UPDATE saga.barrier b SET state = CASE p_outcome WHEN 'done' THEN 'tried' ELSE 'refused' END,
            updated_at = clock_timestamp(), lease_until = NULL, lease_token = NULL,
            try_sha256 = p_content_sha256, try_revision = p_revision, try_outcome = p_outcome, try_code = p_code,
            try_reason = p_reason, try_result = p_result, try_result_type = p_result_type
         WHERE b.transaction_id = p_transaction AND b.step = p_step AND b.tenant = p_tenant
           AND (b.state IN ('entered', 'absent') AND p_lease_token IS NULL OR b.state = 'trying' AND b.lease_token = p_lease_token)
           AND (p_outcome = 'done' OR b.kind <> 'retriable');
    ELSIF p_phase = 'confirm' AND p_outcome = 'done' THEN
        UPDATE saga.barrier b SET state = 'confirmed', updated_at = clock_timestamp(),
            confirm_sha256 = p_content_sha256, confirm_revision = p_revision, confirm_result = p_result, confirm_result_type = p_result_type
         WHERE b.transaction_id = p_transaction AND b.step = p_step AND b.tenant = p_tenant AND b.state = 'tried';
    ELSIF p_phase = 'cancel' AND p_outcome = 'done' THEN
        UPDATE saga.barrier b SET state = 'cancelled', updated_at = clock_timestamp(), lease_until = NULL, lease_token = NULL,
            cancel_sha256 = p_content_sha256, cancel_revision = p_revision, cancel_result = p_result, cancel_result_type = p_result_type
         WHERE b.transaction_id = p_transaction AND b.step = p_step AND b.tenant = p_tenant
           AND (b.state = 'tried' AND b.kind <> 'pivot' AND p_lease_token IS NULL
                OR b.state = 'trying' AND b.lease_token = p_lease_token);
    ELSE
        RAISE EXCEPTION 'saga.barrier_leave: phase %, outcome %', p_phase, p_outcome USING ERRCODE = 'SG002',
            HINT = 'A try ends with done or refused, a confirm or cancel with done; in every other case roll back.';
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'saga.barrier_leave: the % of step % of transaction % was not entered, or its lease has passed to another',
            p_phase, p_step, p_transaction USING ERRCODE = 'SG003', HINT = 'Roll back.';
    END IF;
END $$;

-- barrier_inquire tells what is recorded, from committed state. It takes no lock and changes nothing, so an
-- operation under way is not seen. Without a hash the content is not compared.
CREATE FUNCTION saga.barrier_inquire(p_tenant text, p_transaction uuid, p_step text, p_phase text,
    p_content_sha256 bytea DEFAULT NULL, p_revision integer DEFAULT 1)
RETURNS saga.barrier_verdict LANGUAGE plpgsql STABLE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    r      saga.barrier;
    lowest uuid;
BEGIN
    IF p_phase NOT IN ('try', 'confirm', 'cancel') OR octet_length(p_content_sha256) <> 32 THEN
        RAISE EXCEPTION 'saga.barrier_inquire: phase %, content hash of % bytes', p_phase, octet_length(p_content_sha256)
            USING ERRCODE = 'SG002', HINT = 'phase is try, confirm or cancel; the hash has 32 bytes or is NULL';
    END IF;
    SELECT * INTO r FROM saga.barrier b
     WHERE b.transaction_id = p_transaction AND b.step = p_step AND b.tenant = p_tenant;
    SELECT f.floor INTO lowest FROM saga.barrier_floor f WHERE f.one;
    RETURN saga.barrier_admit(r, p_phase, NULL, 'inquire', p_content_sha256, p_revision, NULL, p_transaction < lowest, clock_timestamp());
END $$;

INSERT INTO saga.barrier_version (version) VALUES (1);
