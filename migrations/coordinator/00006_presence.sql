-- A coordinator that cannot reach NATS takes no replies, and still counts among those that share the allowances.

-- +goose Up
ALTER TABLE coordinators ADD COLUMN takes_replies boolean NOT NULL DEFAULT true;

-- +goose Down
ALTER TABLE coordinators DROP COLUMN takes_replies;
