package coordinator

// The statements of retention. None of them is in the way of traffic, except for retain_week and drop_partition, which
// give up soon.

// sqlPastRetention tells whether an id is below the floor.
const sqlPastRetention = `SELECT $1::uuid < floor FROM retention`

// sqlRetainAlone makes one coordinator at a time forget, until the end of its database transaction.
const sqlRetainAlone = `SELECT pg_try_advisory_xact_lock(hashtext('sagacity.retention'))`

// sqlWeeksHeld lists the partitions of tables: the table, and the first week of the partition.
const sqlWeeksHeld = `
SELECT p.relname::text, substr(c.relname, length(p.relname) + 3)::bigint
  FROM pg_inherits i
  JOIN pg_class p ON p.oid = i.inhparent
  JOIN pg_class c ON c.oid = i.inhrelid
 WHERE p.oid = ANY ($1::text[]::regclass[]) AND c.relname ~ '_w[0-9]+$'
 ORDER BY 2, 1`

// sqlFloorWeek tells whether all weeks before one are below the floor.
const sqlFloorWeek = `SELECT floor >= week_floor($1) FROM retention`

// sqlForgetRequests shrinks the request keys of the next transactions of a week that may go to their hashes (S1.3), and
// returns the last of these transactions; nothing if there are no more.
const sqlForgetRequests = `
WITH batch AS (
    SELECT t.id, t.tenant, t.client, t.request_id
      FROM transactions_retained t
     WHERE t.id > $1::uuid AND t.id >= week_floor($2) AND t.id < week_floor($2 + 1)
       AND NOT t.unresolved AND t.finished_at < $3
     ORDER BY t.id LIMIT $4
), gone AS (
    DELETE FROM requests r USING batch b
     WHERE r.tenant = b.tenant AND r.client = b.client AND r.request_id = b.request_id AND r.transaction_id = b.id
    RETURNING r.tenant, r.client, r.request_id
), hashed AS (
    INSERT INTO request_hashes (hash, week)
    SELECT request_hash(tenant, client, request_id), week_floor(week_of(clock_timestamp())) FROM gone
)
SELECT id FROM batch ORDER BY id DESC LIMIT 1`

const sqlRetainWeek = `SELECT COALESCE(problem, ''), kept FROM retain_week($1, $2, $3, $4)`

// sqlRetainRest deletes transactions that moved on, or never had a partition of their week, once they may go, and
// returns how many.
const sqlRetainRest = `
WITH batch AS (
    SELECT t.id, t.tenant, t.client, t.request_id
      FROM transactions_rest x
      JOIN transactions_retained t ON t.id = x.id
     WHERE x.id < (SELECT floor FROM retention) AND NOT t.unresolved AND t.finished_at < $1
     ORDER BY x.id LIMIT $2
), gone AS (
    DELETE FROM requests r USING batch b
     WHERE r.tenant = b.tenant AND r.client = b.client AND r.request_id = b.request_id AND r.transaction_id = b.id
    RETURNING r.tenant, r.client, r.request_id
), hashed AS (
    INSERT INTO request_hashes (hash, week)
    SELECT request_hash(tenant, client, request_id), week_floor(week_of(clock_timestamp())) FROM gone
), attempt AS (
    DELETE FROM attempts a USING batch b WHERE a.transaction_id = b.id
), operation AS (
    DELETE FROM operations o USING batch b WHERE o.transaction_id = b.id
), submission AS (
    DELETE FROM submissions s USING batch b WHERE s.transaction_id = b.id
), deleted AS (
    DELETE FROM transactions t USING batch b WHERE t.id = b.id RETURNING 1
)
SELECT count(*) FROM deleted`

// sqlForgetEdits deletes inputs of operations whose transactions are gone, and returns how many.
const sqlForgetEdits = `
WITH old AS MATERIALIZED (
    SELECT e.transaction_id, e.step, e.phase, e.revision
      FROM edits e
     WHERE e.transaction_id < (SELECT floor FROM retention)
       AND NOT EXISTS (SELECT FROM transactions t WHERE t.id = e.transaction_id)
     ORDER BY e.transaction_id LIMIT $1
), deleted AS (
    DELETE FROM edits e USING old o
     WHERE e.transaction_id = o.transaction_id AND e.step = o.step AND e.phase = o.phase AND e.revision = o.revision
    RETURNING 1
)
SELECT count(*) FROM deleted`

const sqlDropPartition = `SELECT drop_partition($1, $2, $3)`
