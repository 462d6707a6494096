package dlq

// An operation that fails again opens its one dead letter again (D1).
const sqlOpen = `
INSERT INTO dead_letters AS d (id, kind, status, cause, outcome, reason, fingerprint, tenant, transaction_id, step, phase,
                               participant, action, attempt, revision, content_sha256, subject, headers, body, traceparent)
VALUES ($1, 'operation', 'open', $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
    ON CONFLICT (transaction_id, step, phase) WHERE kind = 'operation' DO UPDATE
   SET status = 'open', version = d.version + 1, cause = EXCLUDED.cause, outcome = EXCLUDED.outcome,
       reason = EXCLUDED.reason, fingerprint = EXCLUDED.fingerprint, attempt = EXCLUDED.attempt,
       revision = EXCLUDED.revision, content_sha256 = EXCLUDED.content_sha256, subject = EXCLUDED.subject,
       headers = EXCLUDED.headers, body = EXCLUDED.body, buried_count = d.buried_count + 1,
       updated_at = clock_timestamp()`

// A replay or discard must find the dead letter open, at the version that the operator saw (D2). The transaction's
// version has decided already that it is open: if it is not found, trying again is of no use.
const sqlClaim = `
WITH written AS (
    UPDATE dead_letters SET status = $4, version = version + 1, attempt = $5, updated_at = clock_timestamp()
     WHERE kind = 'operation' AND transaction_id = $1 AND step = $2 AND phase = $3 AND status = 'open'
       AND ($6::bigint = 0 OR version = $6)
    RETURNING 1
)
SELECT expect_rows((SELECT count(*) FROM written), 1, 'SG404')`

const sqlEnd = `
UPDATE dead_letters SET status = $4, version = version + 1, updated_at = clock_timestamp()
 WHERE kind = 'operation' AND transaction_id = $1 AND step = $2 AND phase = $3 AND status IN ('open', 'replaying')`

const sqlDiscardMessage = `
WITH written AS (
    UPDATE dead_letters SET status = 'discarded', version = version + 1, updated_at = clock_timestamp()
     WHERE id = $1 AND kind = 'message' AND status = 'open' AND version = $2
    RETURNING 1
)
SELECT expect_rows((SELECT count(*) FROM written), 1, 'SG404')`

const sqlInsertMessage = `
INSERT INTO dead_letters (id, kind, status, cause, reason, fingerprint, participant, subject, headers, body)
VALUES ($1, 'message', 'open', $2, $3, $4, $5, $6, $7, $8)`

// Made before, and not touched since: the ids are looked at in their order, from the oldest on. Approvals go with them.
const sqlForget = `
WITH gone AS (
    DELETE FROM dead_letters
     WHERE id = ANY (ARRAY(SELECT id FROM dead_letters
                            WHERE id < $1 AND status NOT IN ('open', 'replaying') AND updated_at < $2
                            ORDER BY id LIMIT $3))
    RETURNING id
), approval AS (
    DELETE FROM approvals a USING gone g WHERE a.dead_letter = g.id
)
SELECT count(*) FROM gone`

// What is known about a cause is kept for as long as it has dead letters.
const sqlForgetNotes = `
DELETE FROM group_notes
 WHERE id = ANY (ARRAY(SELECT n.id FROM group_notes n
                        WHERE n.id < $1 AND n.at < $2 AND NOT EXISTS (SELECT FROM dead_letters d WHERE d.fingerprint = n.fingerprint)
                        ORDER BY n.id LIMIT $3))`

// A job that is running or paused stays; one that nobody has started has done nothing. Its row is locked before it is
// judged, because somebody may start it just now.
const sqlForgetJob = `
WITH job AS (
    DELETE FROM jobs
     WHERE id = ANY (ARRAY(SELECT id FROM jobs
                            WHERE id < $1 AND state IN ('planned', 'finished', 'aborted') AND updated_at < $2
                            ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED))
    RETURNING id
), item AS (
    DELETE FROM job_items i USING job j WHERE i.job_id = j.id
)
SELECT count(*) FROM job`

const columns = `id, kind, status, version, cause, outcome, reason, fingerprint, tenant, transaction_id,
       COALESCE(step, ''), COALESCE(phase, ''), participant, action, attempt, revision, content_sha256, subject, headers,
       body, traceparent, buried_count, buried_at, updated_at`

const sqlGet = `SELECT ` + columns + ` FROM dead_letters WHERE id = $1`

const sqlLettersByID = `SELECT ` + columns + ` FROM dead_letters WHERE id = ANY ($1::uuid[])`

const sqlList = `
SELECT ` + columns + `
  FROM dead_letters
 WHERE ($1::uuid IS NULL OR id < $1)
   AND ($2::text = '' OR status = $2)
   AND ($3::text = '' OR participant = $3)
   AND ($4::text = '' OR cause = $4)
   AND ($5::uuid IS NULL OR transaction_id = $5)
   AND ($6::text = '' OR fingerprint = $6)
   AND ($7::text = '' OR tenant = $7)
 ORDER BY id DESC LIMIT $8`

const sqlInsertAudit = `
INSERT INTO audit (id, tenant, actor, action, object, allowed, reason, detail) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

// sqlListAudit goes on behind the entry that was seen last, wherever another clock has put the ids.
const sqlListAudit = `
SELECT id, at, tenant, actor, action, object, allowed, reason, detail
  FROM audit
 WHERE ($1::uuid IS NULL OR (at, id) < (SELECT seen.at, seen.id FROM audit seen WHERE seen.id = $1))
   AND ($2::text[] IS NULL OR object = ANY ($2))
   AND ($3::text = '' OR tenant = $3)
   AND ($4::text = '' OR actor = $4)
   AND ($5::text = '' OR action = $5)
   AND ($6::boolean IS NULL OR allowed = $6)
   AND ($7::timestamptz IS NULL OR at >= $7)
 ORDER BY at DESC, id DESC LIMIT $8`
