package notify

const sqlInsertNotice = `
INSERT INTO notices (id, kind, group_key, code, count, tenant, object, summary) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

// One process at a time makes deliveries; the lock goes with the transaction.
const sqlLockGather = `SELECT pg_try_advisory_xact_lock(hashtext('sagacity.notify'))`

// sqlGather takes the notices of the groups that had no delivery for a while. It goes by what is there, never by a
// cursor: a notice that is committed late is taken late.
const sqlGather = `
WITH due AS (
    SELECT n.id FROM notices n
     WHERE NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.kind = n.kind AND d.group_key = n.group_key
                          AND d.created_at > clock_timestamp() - $2::interval)
     ORDER BY n.id LIMIT $1
), taken AS (
    DELETE FROM notices n USING due WHERE n.id = due.id RETURNING n.*
)
SELECT kind, group_key, sum(count)::integer, min(at), max(at), (array_agg(code ORDER BY id))[1],
       (array_agg(tenant ORDER BY id))[1], (array_agg(object ORDER BY id))[1], (array_agg(summary ORDER BY id))[1]
  FROM taken GROUP BY kind, group_key ORDER BY min(id::text)`

const sqlTargets = `
SELECT w.id, w.kinds, (SELECT count(*) FROM (SELECT FROM webhook_deliveries d WHERE d.webhook_id = w.id AND d.status = 'pending' LIMIT $1) AS p)
  FROM webhooks w ORDER BY w.id`

const sqlInsertDelivery = `
INSERT INTO webhook_deliveries (id, webhook_id, kind, group_key, body) VALUES ($1, $2, $3, $4, $5)`

// sqlClaimDelivery takes the delivery that is due first of each webhook that has none in flight here. Should this process end,
// another takes it when the lease is over.
const sqlClaimDelivery = `
UPDATE webhook_deliveries d SET attempts = d.attempts + 1, next_at = clock_timestamp() + $2::interval
  FROM webhooks w
 WHERE w.id = d.webhook_id
   AND d.id = ANY (ARRAY(
        SELECT x.id FROM webhook_deliveries x
         WHERE x.id IN (SELECT DISTINCT ON (webhook_id) id FROM webhook_deliveries
                         WHERE status = 'pending' AND next_at <= clock_timestamp() AND webhook_id <> ALL ($1::uuid[])
                         ORDER BY webhook_id, next_at, id)
           AND x.status = 'pending' AND x.next_at <= clock_timestamp()
           FOR UPDATE SKIP LOCKED))
RETURNING d.id, d.webhook_id, d.kind, d.body, d.attempts, w.url, w.secret`

// sqlEndAttempt says what became of an attempt, unless another one has begun.
const sqlEndAttempt = `
UPDATE webhook_deliveries
   SET status = $3, answer = $4, problem = $5, next_at = clock_timestamp() + $6::interval,
       ended_at = CASE WHEN $3::text <> 'pending' THEN clock_timestamp() END
 WHERE id = $1 AND attempts = $2 AND status = 'pending'`

const sqlForget = `
DELETE FROM webhook_deliveries WHERE id = ANY (ARRAY(
    SELECT id FROM webhook_deliveries WHERE ended_at < clock_timestamp() - $1::interval ORDER BY ended_at LIMIT $2))`

// The lock makes the count exact: of two at one time the second counts the first.
const sqlLockWebhooks = `SELECT pg_advisory_xact_lock(hashtext('sagacity.webhooks'))`

const sqlInsertWebhook = `
INSERT INTO webhooks (id, url, secret, kinds, actor)
SELECT $1, $2, $3, $4, $5 WHERE (SELECT count(*) FROM webhooks) < $6
RETURNING id, url, kinds, actor, created_at`

const sqlListWebhooks = `SELECT id, url, kinds, actor, created_at FROM webhooks ORDER BY id`

const sqlDeleteWebhook = `DELETE FROM webhooks WHERE id = $1 RETURNING id, url, kinds, actor, created_at`

const sqlListDeliveries = `
SELECT id, webhook_id, kind, status, attempts, next_at, answer, problem, created_at, ended_at, body
  FROM webhook_deliveries
 WHERE webhook_id = $1 AND ($2::text = '' OR status = $2) AND ($3::uuid IS NULL OR id < $3)
 ORDER BY id DESC LIMIT $4`

const sqlWebhookExists = `SELECT EXISTS (SELECT FROM webhooks WHERE id = $1)`
