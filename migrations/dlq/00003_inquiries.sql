-- Groups of dead letters with operators' notes, and what participants answered when they were asked.

-- +goose Up
-- +goose StatementBegin
-- Groups are counted from this index alone, however large the messages are.
DROP INDEX dead_letters_fingerprint;
CREATE INDEX dead_letters_group ON dead_letters (fingerprint, status, tenant) INCLUDE (buried_at, updated_at, id);

-- What operators know about a group. Notes are kept for a while when its dead letters are gone: the cause may come back.
CREATE TABLE group_notes (
    id          uuid        PRIMARY KEY,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    tenant      text        NOT NULL DEFAULT '',
    fingerprint text        NOT NULL,
    actor       text        NOT NULL,
    note        text        NOT NULL
);
CREATE INDEX group_notes_fingerprint ON group_notes (fingerprint, id);

-- The last inquiry about each dead letter's operation (U3). An answer is true at its moment only, so these rows are
-- removed after a day. Rows are locked in the order of (transaction_id, step, phase), after everything else.
CREATE TABLE inquiries (
    transaction_id uuid        NOT NULL,
    step           text        NOT NULL,
    phase          text        NOT NULL,
    question       text        NOT NULL,             -- of the command: an answer to an older one is not stored
    asked_by       text        NOT NULL,
    asked_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    answered_at    timestamptz,                      -- NULL: no answer, which proves nothing
    outcome        text        NOT NULL DEFAULT '',
    state          text        NOT NULL DEFAULT '',
    code           text        NOT NULL DEFAULT '',
    reason         text        NOT NULL DEFAULT '',
    revision       integer     NOT NULL DEFAULT 0,
    content_sha256 bytea,                            -- recorded by the participant; NULL: nothing of the phase
    PRIMARY KEY (transaction_id, step, phase)
);
CREATE INDEX inquiries_asked_at ON inquiries (asked_at);
-- +goose StatementEnd

-- +goose Down
DROP TABLE inquiries, group_notes;
DROP INDEX dead_letters_group;
CREATE INDEX dead_letters_fingerprint ON dead_letters (fingerprint);
