-- What people have to know of, whom to tell, and what was told.

-- +goose Up

-- A notice is stored in the transaction of what it tells of. It goes when its deliveries are made, or when nobody wants
-- to know. Rows are only inserted and deleted: a burst makes nobody wait for another.
CREATE TABLE notices (
    id          uuid        PRIMARY KEY,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind        text        NOT NULL,
    group_key   text        NOT NULL,               -- of one kind and group there is one delivery a minute
    code        text        NOT NULL,               -- where the runbook says what to do
    count       integer     NOT NULL,
    tenant      text        NOT NULL,
    object      text        NOT NULL,               -- path of what it is about, in the API
    summary     text        NOT NULL
);

CREATE TABLE webhooks (
    id          uuid        PRIMARY KEY,
    url         text        NOT NULL,
    secret      text        NOT NULL,               -- signs; never shown again
    kinds       text[]      NOT NULL,               -- empty: all
    actor       text        NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE webhook_deliveries (
    id          uuid        PRIMARY KEY,
    webhook_id  uuid        NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    kind        text        NOT NULL,
    group_key   text        NOT NULL,
    body        bytea       NOT NULL,               -- the same bytes in every attempt
    status      text        NOT NULL DEFAULT 'pending',   -- then delivered or failed
    attempts    integer     NOT NULL DEFAULT 0,
    next_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    answer      integer     NOT NULL DEFAULT 0,     -- HTTP status of the last attempt; 0: none came
    problem     text        NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, next_at) WHERE status = 'pending';
CREATE INDEX webhook_deliveries_group ON webhook_deliveries (kind, group_key, created_at);
CREATE INDEX webhook_deliveries_ended ON webhook_deliveries (ended_at) WHERE ended_at IS NOT NULL;

-- +goose Down
DROP TABLE webhook_deliveries, webhooks, notices;
