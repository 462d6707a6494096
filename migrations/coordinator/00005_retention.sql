-- Retention: what is past it is dropped by the week, and what is unresolved moves on (I-9, I-10, S1.3).

-- +goose Up
-- +goose StatementBegin
-- Transactions below the floor may be forgotten: of those that are not found nothing can be confirmed. One row.
CREATE TABLE retention (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    floor uuid    NOT NULL
);
INSERT INTO retention (floor) VALUES ('00000000-0000-0000-0000-000000000000');

-- What is left of a request key after retention (S1.3). In partitions of thirteen weeks, by the week in which it was
-- forgotten: few, because every new key is looked for in each of them.
CREATE TABLE request_hashes (
    hash uuid NOT NULL,                                 -- request_hash of the key
    week uuid NOT NULL                                  -- week_floor of the week in which it was forgotten
) PARTITION BY RANGE (week);
CREATE INDEX request_hashes_hash ON request_hashes (hash);
-- +goose StatementEnd

-- +goose StatementBegin
-- request_hash returns 16 bytes of the SHA-256 of a request key. None of its parts has a line break (S1.7). It is STABLE
-- because convert_to is: declared otherwise it is called for every new key, which costs more than storing it, and not made
-- part of the statement.
CREATE FUNCTION request_hash(tenant text, client text, request_id text) RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT encode(substr(sha256(convert_to(tenant || E'\n' || client || E'\n' || request_id, 'UTF8')), 1, 16), 'hex')::uuid
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- transactions_retained says which transactions wait for something or somebody, and have to be kept for that (I-10). With
-- finished_at it is what saga.MayDrop decides on. Dead letters that are open are few: a statement reads them once.
CREATE VIEW transactions_retained AS
SELECT t.id, t.tenant, t.client, t.request_id, t.finished_at,
       t.finished_at IS NULL OR t.status NOT IN ('committed', 'cancelled', 'resolved')
           OR t.id IN (SELECT d.transaction_id FROM dead_letters d
                        WHERE d.status IN ('open', 'replaying') AND d.kind = 'operation') AS unresolved
  FROM transactions t;
-- +goose StatementEnd

-- +goose StatementBegin
-- retain_week drops a week of transactions, in the caller's database transaction; what has not ended before p_before, or
-- waits for a person, moves on to the default partitions, and its request keys stay. Their other keys are forgotten
-- before. It answers with how many moved on, and why nothing was done, if nothing was:
--   busy      somebody else makes or drops partitions just now
--   too_many  more than p_keep_max would have to move on, while nobody else could use the tables
-- It fails with 55P03 if a table is in use for longer than the lock timeout. Tables are locked in the order in which the
-- coordinator's writes use them, and only once all is known that takes time to find out.
CREATE FUNCTION retain_week(p_week bigint, p_before timestamptz, p_keep_max integer, p_lock_timeout_ms integer,
    OUT problem text, OUT kept integer) LANGUAGE plpgsql SET jit = off AS $$
DECLARE
    first  uuid := week_floor(p_week);
    next   uuid := week_floor(p_week + 1);
    held   uuid[];
    parent text;
    key    text;
    part   text;
BEGIN
    kept := 0;
    IF NOT pg_try_advisory_xact_lock(hashtext('sagacity.partitions')) THEN
        problem := 'busy';
        RETURN;
    END IF;
    -- A row that may go now may go later too: it has ended for good, and ids of the past do not begin any more.
    held := ARRAY(SELECT t.id FROM transactions_retained t
                   WHERE t.id >= first AND t.id < next AND (t.unresolved OR t.finished_at >= p_before)
                   LIMIT p_keep_max + 1);
    kept := cardinality(held);
    IF kept > p_keep_max THEN
        problem := 'too_many';
        RETURN;
    END IF;
    PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    LOCK TABLE ONLY transactions, ONLY submissions, ONLY operations, ONLY attempts IN ACCESS EXCLUSIVE MODE;
    FOREACH parent IN ARRAY ARRAY['transactions', 'submissions', 'operations', 'attempts'] LOOP
        key := CASE parent WHEN 'transactions' THEN 'id' ELSE 'transaction_id' END;
        part := parent || '_w' || p_week;
        IF to_regclass(part) IS NULL THEN
            EXECUTE format('DELETE FROM %I WHERE %I >= $1 AND %I < $2 AND %I <> ALL ($3)', parent || '_rest', key, key, key)
                USING first, next, held;
            CONTINUE;
        END IF;
        EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, part);
        EXECUTE format('INSERT INTO %I SELECT p.* FROM unnest($1) AS h (id) JOIN %I p ON p.%I = h.id', parent, part, key) USING held;
        EXECUTE format('DROP TABLE %I', part);
    END LOOP;
    UPDATE retention SET floor = greatest(floor, next);
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
SELECT make_partitions('request_hashes', 13, 1);
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION retain_week(bigint, timestamptz, integer, integer);
DROP VIEW transactions_retained;
DROP FUNCTION request_hash(text, text, text);
DROP TABLE request_hashes, retention;
