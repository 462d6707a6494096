-- The audit is append-only (D6): the database itself refuses to change or remove an entry, whoever asks.
--
-- The triggers hold for the owner of the table too, whom privileges do not bind. Roles that only serve need no more than
--     GRANT SELECT, INSERT ON audit TO …;  REVOKE UPDATE, DELETE, TRUNCATE ON audit FROM …;
-- Retention drops or detaches whole partitions, which no trigger sees. A row trigger of a partitioned table holds for its
-- partitions by itself; the one for TRUNCATE is a statement's, and every partition needs its own: guard_audit.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE audit ADD COLUMN tenant text NOT NULL DEFAULT '';   -- whose object it is; empty if it belongs to none
DROP INDEX audit_object;
CREATE INDEX audit_object ON audit (object, at, id);
CREATE INDEX audit_at ON audit (at, id);                        -- the list, newest first
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION audit_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit is append-only: % is refused', TG_OP
        USING ERRCODE = 'SG403', HINT = 'entries are only ever added; retention drops whole partitions';
END
$$;
-- +goose StatementEnd

CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_append_only();
CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION audit_append_only();

-- +goose StatementBegin
-- guard_audit gives new partitions their trigger. It is safe to call at any time.
CREATE FUNCTION guard_audit() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    part regclass;
BEGIN
    FOR part IN SELECT i.inhrelid::regclass FROM pg_inherits i
                 WHERE i.inhparent = 'audit'::regclass
                   AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = i.inhrelid AND t.tgname = 'audit_no_truncate') LOOP
        EXECUTE format('CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION audit_append_only()', part);
    END LOOP;
END
$$;
-- +goose StatementEnd

SELECT guard_audit();

-- +goose Down
DROP FUNCTION guard_audit();
DROP TRIGGER audit_no_truncate ON audit;
DROP TRIGGER audit_append_only ON audit;
DROP FUNCTION audit_append_only() CASCADE;
DROP INDEX audit_at;
DROP INDEX audit_object;
CREATE INDEX audit_object ON audit (object, at);
ALTER TABLE audit DROP COLUMN tenant;
