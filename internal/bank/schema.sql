CREATE SCHEMA IF NOT EXISTS bank;

CREATE TABLE IF NOT EXISTS bank.accounts (
    id             text   PRIMARY KEY,
    balance_cents  bigint NOT NULL CHECK (balance_cents >= 0),
    held_cents     bigint NOT NULL DEFAULT 0 CHECK (held_cents >= 0),     -- of debits that are tried and not yet settled
    incoming_cents bigint NOT NULL DEFAULT 0 CHECK (incoming_cents >= 0)  -- of credits, the same
);

-- One row for every run of a handler that was committed. There is no key on purpose: a run too many shows.
CREATE TABLE IF NOT EXISTS bank.effects (
    tenant         text        NOT NULL,
    transaction_id uuid        NOT NULL,
    step           text        NOT NULL,
    phase          text        NOT NULL,
    action         text        NOT NULL,
    account        text        NOT NULL,
    cents          bigint      NOT NULL,
    happened_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- A switch that is on makes the handlers fail whose Wish names it.
CREATE TABLE IF NOT EXISTS bank.switches (
    name text    PRIMARY KEY,
    is_on boolean NOT NULL
);

-- Requests that a gateway got, which stands for a system outside of the participant's local transaction.
CREATE TABLE IF NOT EXISTS bank.gateway (
    key   text  PRIMARY KEY,
    state text  NOT NULL CHECK (state IN ('done', 'refused', 'void', 'confirmed', 'cancelled')),
    code  text  NOT NULL DEFAULT '', -- of a refusal
    moved jsonb                      -- the answer to one that is done
);
