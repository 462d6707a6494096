-- What operators do beside replaying and giving up. Approvals: a second person's consent to one replay of a dead letter, as it was when it was approved (D4).

-- +goose Up
CREATE TABLE approvals (
    id             uuid        PRIMARY KEY,
    tenant         text        NOT NULL,             -- of the dead letter
    dead_letter    uuid        NOT NULL,
    letter_version bigint      NOT NULL,             -- what was approved: any change of it needs a new approval
    revision       integer     NOT NULL,
    content_sha256 bytea       NOT NULL,
    approver       text        NOT NULL,
    reason         text        NOT NULL,
    break_glass    boolean     NOT NULL DEFAULT false, -- approved by who used it (E3)
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at     timestamptz NOT NULL,
    used_at        timestamptz,
    used_by        text,
    revoked_at     timestamptz,
    revoked_by     text,
    CHECK (used_at IS NULL OR revoked_at IS NULL)
);
CREATE INDEX approvals_dead_letter ON approvals (dead_letter, id);

-- The inputs of revisions that are not the one that was submitted (S1.5): of an operation's present revision, of former
-- ones, and of the next one, which is only proposed.
CREATE TABLE edits (
    transaction_id uuid        NOT NULL,
    step           text        NOT NULL,
    phase          text        NOT NULL,
    revision       integer     NOT NULL,
    tenant         text        NOT NULL,
    input          bytea       NOT NULL,             -- exact bytes
    input_type     text        NOT NULL,             -- "": JSON
    content_sha256 bytea       NOT NULL,             -- of the whole command, as approvals are bound to it
    reserved       boolean     NOT NULL,             -- its participant lets nothing before it run any more
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (transaction_id, step, phase, revision)
);

-- +goose Down
DROP TABLE edits, approvals;
