-- The barrier for many operations at once, in one local transaction that runs all of them or nothing:
--
--   BEGIN ISOLATION LEVEL READ COMMITTED;
--   SELECT saga.barrier_enter_all(…);   -- fails unless each of the operations is to run
--   …                                   -- the business statements of all
--   SELECT saga.barrier_leave_all(…);   -- all of them are done
--   COMMIT;
--
-- All of it may be sent in one round trip. Whatever fails, roll back, and enter the operations one by one with
-- barrier_enter, which answers for each. Element n of every array belongs to operation n; the operations are of different
-- steps. Arrays of all operations in one order of their keys make it rare that two calls wait for each other.
--
-- SQLSTATE SG005: one of the operations is not to run: it is recorded already, came too late, or has to be answered
-- otherwise. SG001 to SG004 as before.

CREATE FUNCTION saga.barrier_enter_all(p_tenant text[], p_transaction uuid[], p_step text[], p_phase text[], p_kind text[],
    p_content_sha256 bytea[], p_revision integer[], p_deadline timestamptz[], p_lock_timeout_ms integer DEFAULT 3000)
RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    n      integer;
    lowest uuid;
    found  record;
    dummy  text;
BEGIN
    IF (cardinality(p_step) > 0 AND cardinality(p_tenant) = cardinality(p_step) AND cardinality(p_transaction) = cardinality(p_step)
        AND cardinality(p_phase) = cardinality(p_step) AND cardinality(p_kind) = cardinality(p_step)
        AND cardinality(p_content_sha256) = cardinality(p_step) AND cardinality(p_revision) = cardinality(p_step)
        AND cardinality(p_deadline) = cardinality(p_step)) IS NOT TRUE THEN
        RAISE EXCEPTION 'saga.barrier_enter_all: the arrays are not of one length' USING ERRCODE = 'SG002',
            HINT = 'One element of each array belongs to each operation; a deadline may be NULL, the array of deadlines may not.';
    END IF;
    IF cardinality(p_step) = 1 THEN -- cheaper
        IF (saga.barrier_enter(p_tenant[1], p_transaction[1], p_step[1], p_phase[1], p_kind[1], 'execute', p_content_sha256[1],
            p_revision[1], p_deadline => p_deadline[1], p_lock_timeout_ms => p_lock_timeout_ms)).verdict <> 'run' THEN
            RAISE EXCEPTION 'saga.barrier_enter_all: the operation is not to run' USING ERRCODE = 'SG005',
                HINT = 'Roll back, and enter it with saga.barrier_enter.';
        END IF;
        RETURN;
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'saga.barrier_enter_all needs READ COMMITTED, this transaction is %', upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'SG001', HINT = 'BEGIN ISOLATION LEVEL READ COMMITTED';
    END IF;
    IF p_lock_timeout_ms IS NOT NULL THEN
        dummy := set_config('lock_timeout', p_lock_timeout_ms::text, true);
    END IF;
    INSERT INTO saga.barrier (transaction_id, step, tenant, kind, state, try_sha256, try_revision)
    SELECT u.transaction_id, u.step, u.tenant, u.kind, 'entered', u.sha256, u.revision
      FROM unnest(p_tenant, p_transaction, p_step, p_phase, p_kind, p_content_sha256, p_revision)
        AS u (tenant, transaction_id, step, phase, kind, sha256, revision)
     WHERE u.phase = 'try' AND u.kind IN ('saga', 'tcc', 'pivot', 'retriable') AND octet_length(u.sha256) = 32 AND u.revision > 0
     ORDER BY u.transaction_id, u.step, u.tenant
    ON CONFLICT (transaction_id, step, tenant) DO NOTHING;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n < cardinality(p_step) THEN -- confirms and cancels; or a try that is recorded, and then the count will not do
        FOR found IN
            SELECT b AS row, u.phase, u.kind, u.sha256, u.revision
              FROM unnest(p_tenant, p_transaction, p_step, p_phase, p_kind, p_content_sha256, p_revision)
                AS u (tenant, transaction_id, step, phase, kind, sha256, revision)
              JOIN saga.barrier b ON b.transaction_id = u.transaction_id AND b.step = u.step AND b.tenant = u.tenant
             WHERE u.phase IN ('confirm', 'cancel') AND octet_length(u.sha256) = 32 AND u.revision > 0
             ORDER BY b.transaction_id, b.step, b.tenant
               FOR NO KEY UPDATE OF b
        LOOP
            IF (saga.barrier_admit(found.row, found.phase, found.kind, 'execute', found.sha256, found.revision, NULL, false,
                clock_timestamp())).verdict = 'run' THEN
                n := n + 1;
            END IF;
        END LOOP;
    END IF;
    -- The floor is read after the rows are ours: see barrier_enter.
    SELECT f.floor INTO lowest FROM saga.barrier_floor f WHERE f.one;
    IF n <> cardinality(p_step) OR EXISTS (
        SELECT FROM unnest(p_transaction, p_phase, p_kind, p_deadline) AS u (transaction_id, phase, kind, deadline)
         WHERE u.transaction_id < lowest OR u.phase = 'try' AND u.kind <> 'retriable' AND clock_timestamp() > u.deadline) THEN
        RAISE EXCEPTION 'saga.barrier_enter_all: % of % operations are to run', n, cardinality(p_step)
            USING ERRCODE = 'SG005', HINT = 'Roll back, and enter them one by one with saga.barrier_enter.';
    END IF;
END $$;

-- barrier_leave_all stores the replies of operations that barrier_enter_all let run: a try's outcome is done or refused, and
-- the statements of one that is refused were not run; a confirm's and a cancel's is done. Texts that are empty are none.
CREATE FUNCTION saga.barrier_leave_all(p_tenant text[], p_transaction uuid[], p_step text[], p_phase text[],
    p_content_sha256 bytea[], p_revision integer[], p_outcome text[], p_code text[], p_reason text[], p_result bytea[],
    p_result_type text[])
RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    n integer;
BEGIN
    IF (cardinality(p_step) > 0 AND cardinality(p_tenant) = cardinality(p_step) AND cardinality(p_transaction) = cardinality(p_step)
        AND cardinality(p_phase) = cardinality(p_step) AND cardinality(p_content_sha256) = cardinality(p_step)
        AND cardinality(p_revision) = cardinality(p_step) AND cardinality(p_outcome) = cardinality(p_step)
        AND cardinality(p_code) = cardinality(p_step) AND cardinality(p_reason) = cardinality(p_step)
        AND cardinality(p_result) = cardinality(p_step) AND cardinality(p_result_type) = cardinality(p_step)) IS NOT TRUE THEN
        RAISE EXCEPTION 'saga.barrier_leave_all: the arrays are not of one length' USING ERRCODE = 'SG002',
            HINT = 'One element of each array belongs to each operation.';
    END IF;
    IF cardinality(p_step) = 1 THEN -- cheaper
        PERFORM saga.barrier_leave(p_tenant[1], p_transaction[1], p_step[1], p_phase[1], p_content_sha256[1], p_revision[1],
            p_outcome[1], p_code => nullif(p_code[1], ''), p_reason => nullif(p_reason[1], ''), p_result => p_result[1],
            p_result_type => nullif(p_result_type[1], ''));
        RETURN;
    END IF;
    UPDATE saga.barrier b SET
        state = CASE u.phase WHEN 'try' THEN CASE u.outcome WHEN 'done' THEN 'tried' ELSE 'refused' END WHEN 'confirm' THEN 'confirmed' ELSE 'cancelled' END,
        updated_at = clock_timestamp(), lease_until = NULL, lease_token = NULL,
        try_sha256          = CASE u.phase WHEN 'try'     THEN u.sha256      ELSE b.try_sha256          END,
        try_revision        = CASE u.phase WHEN 'try'     THEN u.revision    ELSE b.try_revision        END,
        try_outcome         = CASE u.phase WHEN 'try'     THEN u.outcome     ELSE b.try_outcome         END,
        try_code            = CASE u.phase WHEN 'try'     THEN nullif(u.code, '')   ELSE b.try_code   END,
        try_reason          = CASE u.phase WHEN 'try'     THEN nullif(u.reason, '') ELSE b.try_reason END,
        try_result          = CASE u.phase WHEN 'try'     THEN u.result      ELSE b.try_result          END,
        try_result_type     = CASE u.phase WHEN 'try'     THEN nullif(u.result_type, '') ELSE b.try_result_type     END,
        confirm_sha256      = CASE u.phase WHEN 'confirm' THEN u.sha256      ELSE b.confirm_sha256      END,
        confirm_revision    = CASE u.phase WHEN 'confirm' THEN u.revision    ELSE b.confirm_revision    END,
        confirm_result      = CASE u.phase WHEN 'confirm' THEN u.result      ELSE b.confirm_result      END,
        confirm_result_type = CASE u.phase WHEN 'confirm' THEN nullif(u.result_type, '') ELSE b.confirm_result_type END,
        cancel_sha256       = CASE u.phase WHEN 'cancel'  THEN u.sha256      ELSE b.cancel_sha256       END,
        cancel_revision     = CASE u.phase WHEN 'cancel'  THEN u.revision    ELSE b.cancel_revision     END,
        cancel_result       = CASE u.phase WHEN 'cancel'  THEN u.result      ELSE b.cancel_result       END,
        cancel_result_type  = CASE u.phase WHEN 'cancel'  THEN nullif(u.result_type, '') ELSE b.cancel_result_type  END
      FROM unnest(p_tenant, p_transaction, p_step, p_phase, p_content_sha256, p_revision, p_outcome, p_code, p_reason, p_result,
                  p_result_type)
        AS u (tenant, transaction_id, step, phase, sha256, revision, outcome, code, reason, result, result_type)
     WHERE b.transaction_id = u.transaction_id AND b.step = u.step AND b.tenant = u.tenant
       AND (u.outcome = 'done' AND (u.phase = 'try' AND b.state = 'entered' OR u.phase = 'confirm' AND b.state = 'tried'
                                    OR u.phase = 'cancel' AND b.state = 'tried' AND b.kind <> 'pivot')
            OR u.outcome = 'refused' AND u.phase = 'try' AND b.state = 'entered' AND b.kind <> 'retriable');
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n <> cardinality(p_step) THEN
        RAISE EXCEPTION 'saga.barrier_leave_all: % of % operations were entered', n, cardinality(p_step)
            USING ERRCODE = 'SG003', HINT = 'Roll back.';
    END IF;
END $$;

INSERT INTO saga.barrier_version (version) VALUES (4);
