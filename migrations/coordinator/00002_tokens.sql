-- Bearer tokens of those who call the API. A token itself is stored nowhere: only its SHA-256, which is enough because a
-- token is 256 random bits.

-- +goose Up
CREATE TABLE tokens (
    id           uuid        PRIMARY KEY,
    sha256       bytea       NOT NULL UNIQUE CHECK (octet_length(sha256) = 32),
    tenant       text        NOT NULL,                  -- empty: all tenants
    client       text        NOT NULL,                  -- whose request ids they are (I1); empty: not a client
    actor        text        NOT NULL,                  -- the name in the audit
    roles        text[]      NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by   text        NOT NULL,
    expires_at   timestamptz,                           -- NULL: never
    last_used_at timestamptz,                           -- to within some minutes
    revoked_at   timestamptz,
    CHECK (NOT 'client' = ANY (roles) OR tenant <> '' AND client <> '')
);

-- +goose Down
DROP TABLE tokens;
