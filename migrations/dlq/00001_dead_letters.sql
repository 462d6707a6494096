-- Dead letters: operations and messages set aside, with reason and history, and the audit of what operators
-- did about them.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE dead_letters (
    id             uuid        PRIMARY KEY,
    kind           text        NOT NULL,             -- operation, or message: bytes that could not be understood
    status         text        NOT NULL,             -- open, replaying, closed, obsolete, discarded
    version        bigint      NOT NULL DEFAULT 1,
    cause          text        NOT NULL,
    outcome        text        NOT NULL DEFAULT '',
    reason         text        NOT NULL DEFAULT '',
    fingerprint    text        NOT NULL,             -- equal causes have equal fingerprints
    tenant         text        NOT NULL DEFAULT '',
    transaction_id uuid,
    step           text,
    phase          text,
    participant    text        NOT NULL DEFAULT '',
    action         text        NOT NULL DEFAULT '',
    attempt        integer     NOT NULL DEFAULT 0,
    revision       integer     NOT NULL DEFAULT 0,
    content_sha256 bytea,
    subject        text        NOT NULL,
    headers        jsonb       NOT NULL,
    body           bytea       NOT NULL,             -- exact bytes
    traceparent    text        NOT NULL DEFAULT '',
    buried_count   integer     NOT NULL DEFAULT 1,
    buried_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- At most one per operation (D1): failing again opens the same one again.
CREATE UNIQUE INDEX dead_letters_operation ON dead_letters (transaction_id, step, phase) WHERE kind = 'operation';
CREATE INDEX dead_letters_open ON dead_letters (id) WHERE status IN ('open', 'replaying');
CREATE INDEX dead_letters_fingerprint ON dead_letters (fingerprint);

-- Partitions of thirteen weeks each, by the id: what is past retention is dropped, never deleted.
CREATE TABLE audit (
    id      uuid        NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor   text        NOT NULL,
    action  text        NOT NULL,
    object  text        NOT NULL,
    allowed boolean     NOT NULL,
    reason  text        NOT NULL DEFAULT '',
    detail  text        NOT NULL DEFAULT '',
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX audit_object ON audit (object, at);
-- +goose StatementEnd

-- +goose StatementBegin
-- week_floor returns the smallest UUIDv7 of the week, counted from the Unix epoch.
CREATE FUNCTION week_floor(week bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex(week * 7 * 86400000), 12, '0') || '00000000000000000000')::uuid
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- week_of returns the week of an instant.
CREATE FUNCTION week_of(at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT floor(extract(epoch FROM at) / (7 * 86400))::bigint
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- make_partitions makes the partitions of a table that is partitioned by ids, each p_weeks wide and named by its first
-- week, from the week of the oldest id that may still come to the given number of weeks ahead. It is safe to call at any
-- time and from several sessions. Rows outside all ranges go to the default partition; a range that has rows there
-- already (the clock was set) is left to them. A lock that is not granted soon is left for the next call, so that
-- nobody queues up behind it for long.
CREATE FUNCTION make_partitions(p_parent text, p_weeks integer, p_weeks_ahead integer, p_lock_timeout_ms integer DEFAULT 1000)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    first bigint := week_of(clock_timestamp() - interval '10 minutes');
    part  text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('sagacity.partitions'));
    PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    first := first - first % p_weeks;
    IF to_regclass(p_parent || '_rest') IS NULL THEN
        EXECUTE format('CREATE TABLE %I PARTITION OF %I DEFAULT', p_parent || '_rest', p_parent);
    END IF;
    WHILE first <= week_of(clock_timestamp()) + p_weeks_ahead LOOP
        part := p_parent || '_w' || first;
        BEGIN
            IF to_regclass(part) IS NULL THEN
                EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
                               part, p_parent, week_floor(first), week_floor(first + p_weeks));
            END IF;
        EXCEPTION
            WHEN check_violation THEN
                RAISE WARNING 'partition % cannot be made: % has rows of that time', part, p_parent || '_rest';
            WHEN lock_not_available THEN
                RAISE WARNING 'partition % cannot be made now: the table is in use', part;
        END;
        first := first + p_weeks;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- drop_partition drops a partition that make_partitions has made, if it is still there. Rows of it that must stay are
-- the caller's business. It fails with 55P03 if the table is in use for longer than the lock timeout.
CREATE FUNCTION drop_partition(p_parent text, p_first bigint, p_lock_timeout_ms integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('sagacity.partitions')) OR to_regclass(p_parent || '_w' || p_first) IS NULL THEN
        RETURN false;
    END IF;
    PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    EXECUTE format('DROP TABLE %I', p_parent || '_w' || p_first);
    RETURN true;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
SELECT make_partitions('audit', 13, 1);
-- +goose StatementEnd

-- +goose StatementBegin
-- expect_rows makes a write that did not find every row as it expects them fail as a whole. The coordinator's own
-- writes use it too: SG409 says that rows are at another version than the one decided on (C9).
CREATE FUNCTION expect_rows(written bigint, expected bigint, code text DEFAULT 'SG409') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF written <> expected THEN
        RAISE EXCEPTION '% of % rows were as expected', written, expected USING ERRCODE = code;
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP TABLE audit, dead_letters;
DROP FUNCTION drop_partition(text, bigint, integer);
DROP FUNCTION make_partitions(text, integer, integer, integer);
DROP FUNCTION week_of(timestamptz);
DROP FUNCTION week_floor(bigint);
DROP FUNCTION expect_rows(bigint, bigint, text);
