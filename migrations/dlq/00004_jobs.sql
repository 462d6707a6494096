-- Bulk replays as durable jobs (D5). The selection is frozen when a job is made. Any coordinator works on any job: slots of
-- the rate are given out with the row of the job locked, items are claimed for a while, and what guarantees one replay of
-- each is the version of its dead letter, not the claim.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE jobs (
    id            uuid        PRIMARY KEY,
    version       bigint      NOT NULL DEFAULT 1,    -- rises with every change of the state: the ETag
    state         text        NOT NULL,              -- planning, planned, running, paused, finished, aborted
    why           text        NOT NULL DEFAULT '',   -- of a pause by itself
    tenant        text        NOT NULL DEFAULT '',
    actor         text        NOT NULL,
    reason        text        NOT NULL,
    selection     jsonb       NOT NULL,              -- the filter, for people: what it selected is in job_items
    canary        integer     NOT NULL,
    canary_passed boolean     NOT NULL DEFAULT false,
    rate          integer     NOT NULL,              -- replays per second, of all coordinators together
    plan_sha256   bytea       NOT NULL,
    next_at       timestamptz NOT NULL DEFAULT clock_timestamp(), -- when the next slot of the rate is due
    step_at       timestamptz NOT NULL DEFAULT clock_timestamp(), -- when somebody looks after it again
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at   timestamptz
);
CREATE INDEX jobs_active ON jobs (step_at) WHERE state IN ('planning', 'running');

CREATE TABLE job_items (
    job_id         uuid        NOT NULL,
    seq            integer     NOT NULL,             -- from 1, in the order of the dead letters' ids: the oldest first
    dead_letter_id uuid        NOT NULL,
    letter_version bigint      NOT NULL,             -- as selected: a replay of any other version is refused
    state          text        NOT NULL DEFAULT 'pending',
    code           text        NOT NULL DEFAULT '',  -- of refused and skipped ones
    effect         text        NOT NULL DEFAULT '',  -- as the dry run predicted it
    asked_at       timestamptz,                      -- by the dry run
    claimed_until  timestamptz,
    dispatched_at  timestamptz,
    ended_at       timestamptz,
    PRIMARY KEY (job_id, seq)
);
CREATE INDEX job_items_state ON job_items (job_id, state, seq);
-- +goose StatementEnd

-- +goose Down
DROP TABLE job_items, jobs;
