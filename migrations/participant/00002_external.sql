-- Effects outside of the participant's database, and commands that kill their process.
--
-- An external effect is not one local transaction but several (barrier_enter and barrier_leave as before):
--
--   BEGIN …; SELECT * FROM saga.barrier_enter(…, p_lease => interval '45 seconds'); COMMIT;
--     verdict 'run' of a try:  the row is trying, and the caller holds its lease: call downstream, outside of
--                              any transaction and with the operation's key, then barrier_leave with the token
--     verdict 'inquire':       an earlier caller's lease is over, and the caller holds a new one: find out
--                              downstream first
--   found done or refused:     barrier_found; then the command is entered again
--   nothing can be said now:   barrier_release, or nothing, and the lease ends by itself

-- barrier_found records what became of a try whose lease had passed to the caller, as it was found out
-- downstream: done or refused. Unlike barrier_leave it may be called by a cancel: content and revision stay
-- those of the try.
CREATE FUNCTION saga.barrier_found(p_tenant text, p_transaction uuid, p_step text, p_lease_token bigint, p_outcome text,
    p_code text DEFAULT NULL, p_reason text DEFAULT NULL, p_result bytea DEFAULT NULL, p_result_type text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF (p_outcome IN ('done', 'refused')) IS NOT TRUE THEN
        RAISE EXCEPTION 'saga.barrier_found: outcome %', p_outcome USING ERRCODE = 'SG002', HINT = 'A try is found done or refused.';
    END IF;
    UPDATE saga.barrier b SET state = CASE p_outcome WHEN 'done' THEN 'tried' ELSE 'refused' END,
        updated_at = clock_timestamp(), lease_until = NULL, lease_token = NULL,
        try_outcome = p_outcome, try_code = p_code, try_reason = p_reason, try_result = p_result, try_result_type = p_result_type
     WHERE b.transaction_id = p_transaction AND b.step = p_step AND b.tenant = p_tenant
       AND b.state = 'trying' AND b.lease_token = p_lease_token
       AND (p_outcome = 'done' OR b.kind <> 'retriable');
    IF NOT FOUND THEN
        RAISE EXCEPTION 'saga.barrier_found: the lease of step % of transaction % has passed to another', p_step, p_transaction
            USING ERRCODE = 'SG003', HINT = 'Roll back.';
    END IF;
END $$;

-- barrier_release ends the caller's lease before its time; true if it was still the caller's. p_nothing says that
-- nothing has happened and that nothing can happen any more: it is allowed only to the caller whose barrier_enter
-- said run, with proof that its request never left. The row is as if the try had never come, but the token
-- goes on rising, so that no earlier caller can write.
CREATE FUNCTION saga.barrier_release(p_tenant text, p_transaction uuid, p_step text, p_lease_token bigint, p_nothing boolean)
RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    UPDATE saga.barrier b SET updated_at = clock_timestamp(),
        state        = CASE WHEN p_nothing THEN 'absent' ELSE 'trying' END,
        lease_until  = CASE WHEN p_nothing THEN NULL ELSE clock_timestamp() END,
        try_sha256   = CASE WHEN p_nothing THEN NULL ELSE b.try_sha256 END,
        try_revision = CASE WHEN p_nothing THEN NULL ELSE b.try_revision END
     WHERE b.transaction_id = p_transaction AND b.step = p_step AND b.tenant = p_tenant
       AND b.state = 'trying' AND b.lease_token = p_lease_token;
    RETURN FOUND;
END $$;

-- Operations whose user code was begun, by a command that was not the first of its operation, and has not
-- ended. What stays here of a process that lives no more is suspected of having ended it. Unlogged: it has to
-- outlive the process, not the database.
CREATE UNLOGGED TABLE saga.barrier_suspect (
    transaction_id uuid             NOT NULL,
    step           text COLLATE "C" NOT NULL,
    tenant         text COLLATE "C" NOT NULL,
    phase          text COLLATE "C" NOT NULL,
    begun          integer          NOT NULL, -- how often, since it last ended
    attempt        integer          NOT NULL, -- of the last command
    delivery       bigint           NOT NULL, -- how often that command was delivered
    begun_at       timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (transaction_id, step, tenant, phase)
);

-- barrier_suspect_begin counts that the user code of an operation is about to begin, and returns how often it has
-- begun since it last ended, this time included. Call it in a transaction of its own, before the user code. The
-- same delivery is counted once. With p_shared_max, nothing is counted beyond it: the caller makes sure that
-- nothing else runs in its process, and calls again without.
CREATE FUNCTION saga.barrier_suspect_begin(p_tenant text, p_transaction uuid, p_step text, p_phase text, p_attempt integer,
    p_delivery bigint, p_shared_max integer DEFAULT NULL)
RETURNS integer LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    n    integer;
    same boolean;
BEGIN
    LOOP
        SELECT s.begun, s.attempt = p_attempt AND s.delivery = p_delivery INTO n, same FROM saga.barrier_suspect s
         WHERE s.transaction_id = p_transaction AND s.step = p_step AND s.tenant = p_tenant AND s.phase = p_phase
           FOR UPDATE;
        IF NOT FOUND AND 1 > p_shared_max THEN
            RETURN 1;
        ELSIF NOT FOUND THEN
            INSERT INTO saga.barrier_suspect (transaction_id, step, tenant, phase, begun, attempt, delivery)
            VALUES (p_transaction, p_step, p_tenant, p_phase, 1, p_attempt, p_delivery) ON CONFLICT DO NOTHING;
            IF FOUND THEN
                RETURN 1;
            END IF;
        ELSIF same THEN
            RETURN n;
        ELSIF n + 1 > p_shared_max THEN
            RETURN n + 1;
        ELSE
            UPDATE saga.barrier_suspect s
               SET begun = n + 1, attempt = p_attempt, delivery = p_delivery, begun_at = clock_timestamp()
             WHERE s.transaction_id = p_transaction AND s.step = p_step AND s.tenant = p_tenant AND s.phase = p_phase;
            RETURN n + 1;
        END IF;
    END LOOP;
END $$;

-- barrier_suspect_end says that the user code has ended, or that its operation was answered: no suspicion is left.
CREATE FUNCTION saga.barrier_suspect_end(p_tenant text, p_transaction uuid, p_step text, p_phase text)
RETURNS void LANGUAGE sql SET enable_seqscan = off AS $$
    DELETE FROM saga.barrier_suspect s
     WHERE s.transaction_id = p_transaction AND s.step = p_step AND s.tenant = p_tenant AND s.phase = p_phase;
$$;

INSERT INTO saga.barrier_version (version) VALUES (2);
