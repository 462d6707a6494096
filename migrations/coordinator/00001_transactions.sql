-- The coordinator's record of transactions. Ids are UUIDv7, so they order by time: all tables of one row or
-- more per transaction are partitioned by ranges of the id, one partition per week, so that retention is a
-- dropped partition and finished transactions never burden the hot ones.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE definitions (
    sha256     bytea       PRIMARY KEY,  -- of body: equal definitions are stored once
    name       text        NOT NULL,
    version    integer     NOT NULL,
    body       bytea       NOT NULL,     -- canonical JSON
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Definitions that submissions may name instead of bringing them.
CREATE TABLE definition_names (
    name       text        NOT NULL,
    version    integer     NOT NULL,
    sha256     bytea       NOT NULL REFERENCES definitions,
    state      text        NOT NULL DEFAULT 'active',   -- or draining: no new transactions
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (name, version)
);

CREATE TABLE transactions (
    id              uuid        NOT NULL,
    version         bigint      NOT NULL,               -- raised by one per write; every write names the one it follows
    status          text        NOT NULL,
    suspended       boolean     NOT NULL DEFAULT false,
    tenant          text        NOT NULL,
    client          text        NOT NULL,
    request_id      text,
    definition      bytea       NOT NULL,               -- definitions.sha256
    definition_name text        NOT NULL,
    why             text,                               -- of the decision to cancel
    why_step        text,
    why_code        text,
    why_reason      text,
    created_at      timestamptz NOT NULL,
    start_at        timestamptz,
    deadline        timestamptz,
    decided_at      timestamptz,
    finished_at     timestamptz,
    wake_at         timestamptz,                        -- something may be due then; NULL once terminal, infinity if only a person can go on
    traceparent     text,
    tracestate      text,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX transactions_wake_at ON transactions (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX transactions_suspended ON transactions (id) WHERE suspended;

CREATE TABLE submissions (
    transaction_id uuid  NOT NULL,
    content_sha256 bytea NOT NULL,
    body           bytea NOT NULL,                      -- exactly as sent: inputs are parts of it
    PRIMARY KEY (transaction_id)
) PARTITION BY RANGE (transaction_id);

CREATE TABLE operations (
    transaction_id uuid        NOT NULL,
    step           text        NOT NULL,
    phase          text        NOT NULL,
    state          text        NOT NULL,
    wait           text        NOT NULL,
    replaying      boolean     NOT NULL,
    attempt        integer     NOT NULL,
    counted        integer     NOT NULL,
    counted_to     integer     NOT NULL,
    floor          integer     NOT NULL,
    revision       integer     NOT NULL,
    content_sha256 bytea       NOT NULL,
    sent_at        timestamptz,                         -- NULL while the next attempt is held back
    next_at        timestamptz,
    outcome        text,
    code           text,
    reason         text,
    result         bytea,
    result_type    text,
    PRIMARY KEY (transaction_id, step, phase)
) PARTITION BY RANGE (transaction_id);

-- Attempts that ended without settling their operation; the usual one that succeeds leaves no row here.
CREATE TABLE attempts (
    transaction_id uuid        NOT NULL,
    step           text        NOT NULL,
    phase          text        NOT NULL,
    attempt        integer     NOT NULL,
    sent_at        timestamptz,
    ended_at       timestamptz NOT NULL,
    outcome        text        NOT NULL,
    code           text,
    reason         text
) PARTITION BY RANGE (transaction_id);
CREATE INDEX attempts_operation ON attempts (transaction_id, step, phase);

CREATE TABLE requests (
    tenant         text        NOT NULL,
    client         text        NOT NULL,
    request_id     text        NOT NULL,
    transaction_id uuid        NOT NULL,
    content_sha256 bytea       NOT NULL,
    answer         bytea       NOT NULL,                -- replayed byte for byte (I2)
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, client, request_id)
);

-- The coordinators that run, and how many attempts each of them has in flight by participant: they share the allowances.
CREATE TABLE coordinators (
    id           uuid        PRIMARY KEY,
    seen_at      timestamptz NOT NULL,
    participants text[]      NOT NULL,
    in_flight    integer[]   NOT NULL
);

-- What operators, or the coordinators by themselves, have paused: nothing of it is sent (E2). Names that a scope does not
-- have are empty, so that each scope is paused once.
CREATE TABLE pauses (
    id          uuid        PRIMARY KEY,
    scope       text        NOT NULL,
    definition  text        NOT NULL,
    participant text        NOT NULL,
    action      text        NOT NULL,
    reason      text        NOT NULL,
    actor       text        NOT NULL,
    automatic   boolean     NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (scope, definition, participant, action)
);

CREATE TABLE incidents (
    id             uuid        NOT NULL,
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    tenant         text        NOT NULL,
    transaction_id uuid        NOT NULL,
    step           text        NOT NULL,
    phase          text        NOT NULL,
    problem        text        NOT NULL,
    subject        text        NOT NULL,
    headers        jsonb       NOT NULL,
    body           bytea       NOT NULL,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX incidents_transaction ON incidents (transaction_id);
-- +goose StatementEnd

-- +goose StatementBegin
-- ensure_partitions makes the partitions from this week to the given number of weeks ahead; see make_partitions.
CREATE FUNCTION ensure_partitions(weeks_ahead integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    parent text;
    part   text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['transactions', 'submissions', 'operations', 'attempts'] LOOP
        PERFORM make_partitions(parent, 1, weeks_ahead);
    END LOOP;
    -- Room on the page for the few updates of a row's short life (HOT): rows that were inserted together are updated
    -- together; and frequent small vacuums.
    FOR part IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent IN ('transactions'::regclass, 'operations'::regclass) AND c.reloptions IS NULL AND c.relname NOT LIKE '%\_rest'
    LOOP
        EXECUTE format('ALTER TABLE %I SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02)', part);
    END LOOP;
    PERFORM make_partitions('incidents', 13, 1);
END
$$;
-- +goose StatementEnd

SELECT ensure_partitions(4);

-- +goose Down
DROP TABLE incidents, pauses, coordinators, requests, attempts, operations, submissions, transactions, definition_names, definitions;
DROP FUNCTION ensure_partitions(integer);
