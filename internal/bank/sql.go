package bank

import _ "embed"

//go:embed schema.sql
var schemaSQL string

// migrateLock keeps processes that migrate at the same time apart.
const migrateLock = `SELECT pg_advisory_xact_lock(7241560120031)`

// The changes of accounts: $1 account, $2 cents. None changes anything if the account does not exist or the
// money is not there.
const (
	sqlHold = `
UPDATE bank.accounts SET balance_cents = balance_cents - $2, held_cents = held_cents + $2
 WHERE id = $1 AND balance_cents >= $2 RETURNING balance_cents`
	sqlHoldUse = `
UPDATE bank.accounts SET held_cents = held_cents - $2
 WHERE id = $1 AND held_cents >= $2 RETURNING balance_cents`
	sqlHoldRelease = `
UPDATE bank.accounts SET balance_cents = balance_cents + $2, held_cents = held_cents - $2
 WHERE id = $1 AND held_cents >= $2 RETURNING balance_cents`
	sqlExpect = `
UPDATE bank.accounts SET incoming_cents = incoming_cents + $2
 WHERE id = $1 RETURNING balance_cents`
	sqlExpectUse = `
UPDATE bank.accounts SET balance_cents = balance_cents + $2, incoming_cents = incoming_cents - $2
 WHERE id = $1 AND incoming_cents >= $2 RETURNING balance_cents`
	sqlExpectRelease = `
UPDATE bank.accounts SET incoming_cents = incoming_cents - $2
 WHERE id = $1 AND incoming_cents >= $2 RETURNING balance_cents`
	sqlTake = `
UPDATE bank.accounts SET balance_cents = balance_cents - $2
 WHERE id = $1 AND balance_cents >= $2 RETURNING balance_cents`
	sqlGive = `
UPDATE bank.accounts SET balance_cents = balance_cents + $2
 WHERE id = $1 RETURNING balance_cents`
)

const (
	sqlAccountExists = `SELECT EXISTS (SELECT FROM bank.accounts WHERE id = $1)`
	sqlEffectInsert  = `
INSERT INTO bank.effects (tenant, transaction_id, step, phase, action, account, cents)
VALUES ($1, $2, $3, $4, $5, $6, $7)`
	sqlEffectOfTry = `
INSERT INTO bank.effects (tenant, transaction_id, step, phase, action, account, cents)
SELECT $1, $2, $3, $4, $5, $6, cents FROM bank.effects WHERE tenant = $1 AND transaction_id = $2 AND step = $3 AND phase = 'try'`
	sqlTriedCents = `
SELECT cents FROM bank.effects WHERE tenant = $1 AND transaction_id = $2 AND step = $3 AND phase = 'try'`
	sqlSwitchGet = `SELECT coalesce((SELECT is_on FROM bank.switches WHERE name = $1), false)`
	sqlSwitchSet = `
INSERT INTO bank.switches (name, is_on) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET is_on = excluded.is_on`
	sqlSeed = `
INSERT INTO bank.accounts (id, balance_cents)
SELECT account, $2 FROM unnest($1::text[]) AS account
ON CONFLICT (id) DO NOTHING`
	sqlTotal    = `SELECT coalesce(sum(balance_cents + held_cents), 0)::bigint FROM bank.accounts`
	sqlHeld     = `SELECT coalesce(sum(held_cents + incoming_cents), 0)::bigint FROM bank.accounts`
	sqlBalance  = `SELECT balance_cents FROM bank.accounts WHERE id = $1`
	sqlRepeated = `
SELECT tenant || '/' || transaction_id || '/' || step || '/' || phase || ' ran ' || count(*) || ' times'
  FROM bank.effects GROUP BY tenant, transaction_id, step, phase HAVING count(*) > 1 ORDER BY 1`
	sqlRuns = `
SELECT count(*) FROM bank.effects WHERE tenant = $1 AND transaction_id = $2 AND step = $3 AND phase = $4`
)
