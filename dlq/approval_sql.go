package dlq

const approvalColumns = `id, tenant, dead_letter, letter_version, revision, content_sha256, approver, reason, break_glass,
       created_at, expires_at, used_at, COALESCE(used_by, ''), revoked_at, COALESCE(revoked_by, '')`

// An approval lasts by the database's clock.
const sqlInsertApproval = `
INSERT INTO approvals (id, tenant, dead_letter, letter_version, revision, content_sha256, approver, reason, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp() + $9::interval)
RETURNING ` + approvalColumns

// An approval is used once, in the write that carries the replay out. Everything else that it is bound to has been
// compared by then, and the dead letter's version is in the same write.
const sqlUseApproval = `
WITH written AS (
    UPDATE approvals SET used_at = clock_timestamp(), used_by = $2
     WHERE id = $1 AND used_at IS NULL AND revoked_at IS NULL AND expires_at > clock_timestamp()
    RETURNING 1
)
SELECT expect_rows((SELECT count(*) FROM written), 1, 'SG404')`

// Who breaks the glass approves and uses it in one write (E3).
const sqlBreakGlass = `
INSERT INTO approvals (id, tenant, dead_letter, letter_version, revision, content_sha256, approver, reason, break_glass,
                       expires_at, used_at, used_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, true, clock_timestamp(), clock_timestamp(), $7)`

const sqlGetApproval = `SELECT clock_timestamp(), ` + approvalColumns + ` FROM approvals WHERE id = $1`

const sqlLockApproval = sqlGetApproval + ` FOR UPDATE`

const sqlRevokeApproval = `
UPDATE approvals SET revoked_at = clock_timestamp(), revoked_by = $2 WHERE id = $1
RETURNING ` + approvalColumns

const sqlListApprovals = `
SELECT ` + approvalColumns + `
  FROM approvals
 WHERE ($1::uuid IS NULL OR id < $1)
   AND ($2::uuid IS NULL OR dead_letter = $2)
   AND ($3::text = '' OR approver = $3)
   AND ($4::text = '' OR $4 = CASE WHEN used_at IS NOT NULL THEN 'used' WHEN revoked_at IS NOT NULL THEN 'revoked'
                                   WHEN expires_at <= clock_timestamp() THEN 'expired' ELSE 'open' END)
   AND ($5::text = '' OR tenant = $5)
 ORDER BY id DESC LIMIT $6`
