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

CREATE TABLE audit (
    id      uuid        PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor   text        NOT NULL,
    action  text        NOT NULL,
    object  text        NOT NULL,
    allowed boolean     NOT NULL,
    reason  text        NOT NULL DEFAULT '',
    detail  text        NOT NULL DEFAULT ''
);
CREATE INDEX audit_object ON audit (object, at);
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
DROP FUNCTION expect_rows(bigint, bigint, text);
