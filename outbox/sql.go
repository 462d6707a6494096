package outbox

// sqlInsert inserts the messages of one call. TTLs count from the insert, by the database's clock.
const sqlInsert = `
INSERT INTO outbox (id, subject, message_id, headers, data, expires_at)
SELECT m.id, m.subject, m.message_id, m.headers, m.data,
       CASE WHEN m.ttl_ms > 0 THEN clock_timestamp() + m.ttl_ms * interval '1 millisecond' END
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bigint[])
       AS m (id, subject, message_id, headers, data, ttl_ms)`

// sqlSettings holds for the rest of the (implicit) transaction of a pipeline. The table is nearly always
// empty, so statistics would suggest scans that hurt when it is not. And nothing that a relay writes has
// to survive a crash: a claim or deletion that is lost only publishes a message once more.
const sqlSettings = `
SELECT set_config('synchronous_commit', 'off', true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true),
       set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true)`

// sqlClaim claims the oldest rows that nobody has published: $1 grace, $2 rows at most, $3 time of the
// claim, $4 bytes at most, $5 where the pass has come to
// (times in milliseconds). Rows are chosen by their state; one that a transaction
// commits late is found like any other. Rows beyond the bytes are left, but never the first.
const sqlClaim = `
WITH picked AS MATERIALIZED (
    SELECT id, octet_length(data) AS data_bytes
    FROM outbox
    WHERE created_at < now() - $1::bigint * interval '1 millisecond'
      AND (claimed_until IS NULL OR claimed_until < now())
      AND id > $5
    ORDER BY id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), fitting AS MATERIALIZED (
    SELECT id, sum(data_bytes) OVER (ORDER BY id) - data_bytes AS bytes_before FROM picked
)
UPDATE outbox o
SET claimed_until = now() + $3::bigint * interval '1 millisecond'
FROM fitting f
WHERE o.id = f.id AND f.bytes_before < $4::bigint
RETURNING o.id, o.subject, o.message_id, o.headers, o.data,
          coalesce(o.expires_at <= now(), false) AS expired,
          (extract(epoch FROM now() - o.created_at) * 1000)::bigint AS age_ms`

// sqlDelete deletes rows that are acknowledged or expired.
const sqlDelete = `DELETE FROM outbox WHERE id = ANY ($1::uuid[])`

// sqlRelease says when rows that were not acknowledged may be claimed again.
const sqlRelease = `
UPDATE outbox o
SET claimed_until = clock_timestamp() + r.delay_ms * interval '1 millisecond'
FROM unnest($1::uuid[], $2::bigint[]) AS r (id, delay_ms)
WHERE o.id = r.id`

// sqlProbe fails when the table is missing or of another version.
const sqlProbe = `
SELECT id, created_at, expires_at, claimed_until, subject, message_id, headers, data FROM outbox LIMIT 0`
