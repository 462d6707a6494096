package token

const columns = `id, tenant, client, actor, roles, created_at, created_by, expires_at, last_used_at, revoked_at,
       COALESCE(expires_at <= clock_timestamp(), false)`

const sqlInsert = `
INSERT INTO tokens (id, sha256, tenant, client, actor, roles, created_by, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp() + $8::interval)
RETURNING ` + columns

const sqlFind = `SELECT ` + columns + ` FROM tokens WHERE sha256 = $1`

const sqlTouch = `
UPDATE tokens SET last_used_at = clock_timestamp()
 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < clock_timestamp() - $2::interval)`

const sqlList = `
SELECT ` + columns + `
  FROM tokens
 WHERE ($1::text = '' OR tenant = $1)
   AND ($2::uuid IS NULL OR id < $2)
   AND ($3::boolean OR revoked_at IS NULL AND COALESCE(expires_at > clock_timestamp(), true))
 ORDER BY id DESC LIMIT $4`

// Of a token that is revoked already the first time counts.
const sqlRevoke = `
UPDATE tokens SET revoked_at = clock_timestamp()
 WHERE id = $1 AND ($2::text = '' OR tenant = $2) AND revoked_at IS NULL
RETURNING ` + columns

const sqlGet = `SELECT ` + columns + ` FROM tokens WHERE id = $1 AND ($2::text = '' OR tenant = $2)`
