-- +goose Up

-- A row lives for milliseconds: it is inserted with the state it follows from, and deleted when the
-- message has been acknowledged. So the table has no index but its key, which grows at the right because
-- ids are UUIDv7; a claim changes no indexed column and fits on its page (HOT); and autovacuum goes by
-- the number of dead rows, not by a share of a table that is nearly always empty.
CREATE TABLE outbox (
    id            uuid        NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at    timestamptz,
    claimed_until timestamptz,
    subject       text        NOT NULL,
    message_id    text        NOT NULL,
    headers       text        NOT NULL,
    data          bytea       NOT NULL,
    CONSTRAINT outbox_pkey PRIMARY KEY (id)
) WITH (
    fillfactor = 90,
    toast_tuple_target = 8160,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 100000,
    vacuum_truncate = false,
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 5000,
    toast.autovacuum_vacuum_cost_delay = 0,
    toast.vacuum_truncate = false
);

-- Compression costs more than it saves for rows that are read once or never.
ALTER TABLE outbox ALTER COLUMN data SET STORAGE EXTERNAL;

COMMENT ON TABLE outbox IS 'messages that are committed with the state they follow from and not yet acknowledged by NATS';
COMMENT ON COLUMN outbox.id IS 'UUIDv7 made by the client';
COMMENT ON COLUMN outbox.expires_at IS 'a row that was not published by then is dropped unsent; NULL: never';
COMMENT ON COLUMN outbox.claimed_until IS 'a relay publishes the row, or will not try again before; NULL: nobody has';
COMMENT ON COLUMN outbox.message_id IS 'the Nats-Msg-Id header; empty: the id';
COMMENT ON COLUMN outbox.headers IS 'one "Name: value" per line, ASCII, without Nats-Msg-Id';

-- +goose Down
DROP TABLE outbox;
