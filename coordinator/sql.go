package coordinator

// The statements of the store. Every write of a lane is one pipelined batch of these, in this order, and so
// one implicit transaction and one round trip.

// sqlSettings pins plans that stay right whatever the statistics say: the tables are empty when statements
// are first planned and large later, and every access is by id. The settings last until the end of the
// transaction, so they survive a transaction pooler (C7). It answers with the database's clock (C10).
const sqlSettings = `
SELECT clock_timestamp(),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true)`

// sqlLock locks the rows in the order of their ids, so that batches never wait for each other in a circle. Here
// and below ids are joined, not compared with ANY, so that each is looked up in its own partition only.
const sqlLock = `
SELECT t.id FROM unnest($1::uuid[]) AS u (id) JOIN transactions t ON t.id = u.id ORDER BY t.id FOR NO KEY UPDATE OF t`

// sqlUpdate writes each transaction only at the version it was decided on (C9), and fails as a whole if one
// is not. The timer is lazy: it is moved only to an earlier instant, or by the wake that it caused.
const sqlUpdate = `
WITH input AS (
    SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::boolean[], $5::text[], $6::text[], $7::text[],
                         $8::text[], $9::timestamptz[], $10::timestamptz[], $11::timestamptz[], $12::boolean[])
        AS u (id, version, status, suspended, why, why_step, why_code, why_reason, decided_at, finished_at, wake_at, woken)
), written AS (
    UPDATE transactions t
       SET version = u.version + 1, status = u.status, suspended = u.suspended,
           why = NULLIF(u.why, ''), why_step = NULLIF(u.why_step, ''), why_code = NULLIF(u.why_code, ''),
           why_reason = NULLIF(u.why_reason, ''), decided_at = u.decided_at, finished_at = u.finished_at,
           wake_at = CASE WHEN u.finished_at IS NOT NULL THEN NULL
                          WHEN u.woken THEN u.wake_at
                          ELSE LEAST(t.wake_at, u.wake_at) END
      FROM input u
     WHERE t.id = u.id AND t.version = u.version
    RETURNING 1
)
SELECT expect_rows((SELECT count(*) FROM written), cardinality($1::uuid[]))`

// sqlRearm moves the timers of transactions whose wake found nothing to do. It names the version too: a stale
// cache must not hide what is due.
const sqlRearm = `
WITH written AS (
    UPDATE transactions t SET wake_at = u.wake_at
      FROM unnest($1::uuid[], $2::bigint[], $3::timestamptz[]) AS u (id, version, wake_at)
     WHERE t.id = u.id AND t.version = u.version
    RETURNING 1
)
SELECT expect_rows((SELECT count(*) FROM written), cardinality($1::uuid[]))`

// sqlInsertRequests inserts keys in their order: one that somebody else is inserting is waited for.
const sqlInsertRequests = `
INSERT INTO requests (tenant, client, request_id, transaction_id, content_sha256, answer)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::uuid[], $5::bytea[], $6::bytea[])
 ORDER BY 1, 2, 3`

// sqlCheckForgotten fails if a key that was just inserted is one that retention has forgotten (S1.3). It is a statement of
// its own, after the insert: it sees what was committed while the insert waited for the row to go.
const sqlCheckForgotten = `
SELECT expect_rows((SELECT count(*) FROM unnest($1::text[], $2::text[], $3::text[]) AS u (tenant, client, request_id)
                      JOIN request_hashes h ON h.hash = request_hash(u.tenant, u.client, u.request_id)), 0, 'SG410')`

const sqlInsertTransactions = `
INSERT INTO transactions (id, version, status, suspended, tenant, client, request_id, definition, definition_name,
                          why, why_reason, created_at, start_at, deadline, decided_at, finished_at, wake_at,
                          traceparent, tracestate)
SELECT u.id, 1, u.status, false, u.tenant, u.client, NULLIF(u.request_id, ''), u.definition, u.definition_name,
       NULLIF(u.why, ''), NULLIF(u.why_reason, ''), u.created_at, u.start_at, u.deadline, u.decided_at, u.finished_at,
       u.wake_at, NULLIF(u.traceparent, ''), NULLIF(u.tracestate, '')
  FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::text[], $8::text[],
              $9::text[], $10::timestamptz[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[],
              $14::timestamptz[], $15::timestamptz[], $16::text[], $17::text[])
    AS u (id, status, tenant, client, request_id, definition, definition_name, why, why_reason, created_at, start_at,
          deadline, decided_at, finished_at, wake_at, traceparent, tracestate)`

const sqlInsertSubmissions = `
INSERT INTO submissions (transaction_id, content_sha256, body)
SELECT * FROM unnest($1::uuid[], $2::bytea[], $3::bytea[])`

const sqlWriteOperations = `
INSERT INTO operations AS o (transaction_id, step, phase, state, wait, replaying, attempt, counted, counted_to, floor,
                             revision, content_sha256, sent_at, next_at, outcome, code, reason, result, result_type)
SELECT u.transaction_id, u.step, u.phase, u.state, u.wait, u.replaying, u.attempt, u.counted, u.counted_to, u.floor,
       u.revision, u.content_sha256, u.sent_at, u.next_at, NULLIF(u.outcome, ''), NULLIF(u.code, ''),
       NULLIF(u.reason, ''), u.result, NULLIF(u.result_type, '')
  FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::boolean[], $7::integer[],
              $8::integer[], $9::integer[], $10::integer[], $11::integer[], $12::bytea[], $13::timestamptz[],
              $14::timestamptz[], $15::text[], $16::text[], $17::text[], $18::bytea[], $19::text[])
    AS u (transaction_id, step, phase, state, wait, replaying, attempt, counted, counted_to, floor, revision,
          content_sha256, sent_at, next_at, outcome, code, reason, result, result_type)
    ON CONFLICT (transaction_id, step, phase) DO UPDATE
   SET state = EXCLUDED.state, wait = EXCLUDED.wait, replaying = EXCLUDED.replaying, attempt = EXCLUDED.attempt,
       counted = EXCLUDED.counted, counted_to = EXCLUDED.counted_to, floor = EXCLUDED.floor,
       revision = EXCLUDED.revision, content_sha256 = EXCLUDED.content_sha256, sent_at = EXCLUDED.sent_at,
       next_at = EXCLUDED.next_at, outcome = EXCLUDED.outcome, code = EXCLUDED.code, reason = EXCLUDED.reason,
       result = EXCLUDED.result, result_type = EXCLUDED.result_type`

const sqlInsertAttempts = `
INSERT INTO attempts (transaction_id, step, phase, attempt, sent_at, ended_at, outcome, code, reason)
SELECT u.id, u.step, u.phase, u.attempt, u.sent_at, u.ended_at, u.outcome, NULLIF(u.code, ''), NULLIF(u.reason, '')
  FROM unnest($1::uuid[], $2::text[], $3::text[], $4::integer[], $5::timestamptz[], $6::timestamptz[], $7::text[],
              $8::text[], $9::text[])
    AS u (id, step, phase, attempt, sent_at, ended_at, outcome, code, reason)`

const sqlInsertIncident = `
INSERT INTO incidents (id, tenant, transaction_id, step, phase, problem, subject, headers, body)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

const sqlLoadTransactions = `
SELECT t.id, t.version, t.status, t.suspended, t.tenant, t.client, COALESCE(t.request_id, ''), t.definition,
       t.definition_name, COALESCE(t.why, ''), COALESCE(t.why_step, ''), COALESCE(t.why_code, ''),
       COALESCE(t.why_reason, ''), t.created_at, t.start_at, t.deadline, t.decided_at, t.finished_at, t.wake_at,
       COALESCE(t.traceparent, ''), COALESCE(t.tracestate, '')
  FROM unnest($1::uuid[]) AS u (id) JOIN transactions t ON t.id = u.id`

const sqlLoadSubmissions = `
SELECT transaction_id, content_sha256, body
  FROM unnest($1::uuid[]) AS u (id) JOIN submissions ON transaction_id = u.id`

const sqlLoadOperations = `
SELECT transaction_id, step, phase, state, wait, replaying, attempt, counted, counted_to, floor, revision,
       content_sha256, sent_at, next_at, COALESCE(outcome, ''), COALESCE(code, ''), COALESCE(reason, ''), result,
       COALESCE(result_type, '')
  FROM unnest($1::uuid[]) AS u (id) JOIN operations ON transaction_id = u.id`

// sqlFindRequests finds keys that are stored, and those that are only remembered: without a transaction.
const sqlFindRequests = `
SELECT r.tenant, r.client, r.request_id, r.transaction_id, r.content_sha256, r.answer
  FROM requests r
  JOIN unnest($1::text[], $2::text[], $3::text[]) AS u (tenant, client, request_id)
 USING (tenant, client, request_id)
UNION ALL
SELECT u.tenant, u.client, u.request_id, NULL, NULL, NULL
  FROM unnest($1::text[], $2::text[], $3::text[]) AS u (tenant, client, request_id)
  JOIN request_hashes h ON h.hash = request_hash(u.tenant, u.client, u.request_id)`

// sqlClaimTimers takes transactions that are due, for a while: should this process end, another takes them
// later. It waits for no lock, so it is in nobody's way.
const sqlClaimTimers = `
UPDATE transactions t SET wake_at = clock_timestamp() + $2::interval
 WHERE t.id = ANY(ARRAY(SELECT id FROM transactions WHERE wake_at <= clock_timestamp() ORDER BY wake_at LIMIT $1
                           FOR NO KEY UPDATE SKIP LOCKED))
RETURNING t.id`

const sqlEnded = `SELECT id FROM transactions WHERE id = ANY($1::uuid[]) AND finished_at IS NOT NULL`

// sqlFloor finds the oldest transaction that has not ended: only those have a timer. The one that was the oldest before, if
// it still has not ended, is one row by its key; however many wait beside it are not read.
const sqlFloor = `
SELECT COALESCE((SELECT id::text FROM transactions WHERE id = $1::uuid AND wake_at IS NOT NULL),
                (SELECT min(id::text COLLATE "C") FROM transactions WHERE wake_at IS NOT NULL)), clock_timestamp()`

const sqlListTransactions = `
SELECT t.id, t.version, t.status, t.suspended, t.tenant, t.client, COALESCE(t.request_id, ''), t.definition,
       t.definition_name, COALESCE(t.why, ''), COALESCE(t.why_step, ''), COALESCE(t.why_code, ''),
       COALESCE(t.why_reason, ''), t.created_at, t.start_at, t.deadline, t.decided_at, t.finished_at, t.wake_at,
       COALESCE(t.traceparent, ''), COALESCE(t.tracestate, '')
  FROM transactions t
 WHERE ($1::text IS NULL OR t.tenant = $1)
   AND ($2::text IS NULL OR t.client = $2)
   AND ($3::uuid IS NULL OR t.id < $3)
   AND ($4::text = '' OR t.status = $4)
   AND ($5::text = '' OR t.definition_name = $5)
   AND ($6::boolean IS NULL OR t.suspended = $6)
 ORDER BY t.id DESC LIMIT $7`

const sqlListAttempts = `
SELECT step, phase, attempt, sent_at, ended_at, outcome, COALESCE(code, ''), COALESCE(reason, '')
  FROM attempts WHERE transaction_id = $1 AND ($2::text = '' OR step = $2 AND phase = $3)
 ORDER BY ended_at, attempt LIMIT $4`

// sqlPresence says that a coordinator runs, and forgets those that have not said so for long.
const sqlPresence = `
WITH gone AS (
    DELETE FROM coordinators WHERE seen_at < clock_timestamp() - interval '1 minute' AND id <> $1
)
INSERT INTO coordinators (id, seen_at, participants, in_flight, takes_replies)
VALUES ($1, clock_timestamp(), $2::text[], $3::integer[], $4)
ON CONFLICT (id) DO UPDATE
SET seen_at = EXCLUDED.seen_at, participants = EXCLUDED.participants, in_flight = EXCLUDED.in_flight,
    takes_replies = EXCLUDED.takes_replies`

// sqlOthers reads which other coordinators run, which of them take replies as far as is known, and what they have in flight.
const sqlOthers = `
SELECT id, takes_replies AND seen_at >= clock_timestamp() - $2::interval, participants, in_flight FROM coordinators
WHERE id <> $1 AND seen_at > clock_timestamp() - $3::interval`

// sqlLeave says that a coordinator has stopped.
const sqlLeave = `DELETE FROM coordinators WHERE id = $1`
