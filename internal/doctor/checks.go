package doctor

// check is one thing that must not be in the coordinator's database. Its statement selects what is, as the id of what
// it is about and a sentence without end; nothing if all is well.
type check struct {
	name string
	rule string
	what string // that has to be so
	over walk
	sql  string
}

// walk is how a check goes through its table.
type walk int

const (
	overTransactions walk = iota // by ranges of ids: $1 excluded, $2 included; $3 rows at most
	overRequests                 // by ranges of keys: ($1, $2, $3) excluded, ($4, $5, $6) included; $7 rows at most
	overNothing                  // once; $1 rows at most
	overBanks                    // once for each bank
)

// within begins the statements over transactions: the transactions and operations of the range, and the steps of
// their definitions. What is a part of a table is not materialized, so that it is joined by the table's key.
const within = `
WITH tx AS NOT MATERIALIZED (
    SELECT * FROM transactions WHERE id > $1::uuid AND id <= $2::uuid
), op AS NOT MATERIALIZED (
    SELECT * FROM operations WHERE transaction_id > $1::uuid AND transaction_id <= $2::uuid
), letter AS NOT MATERIALIZED (
    SELECT * FROM dead_letters WHERE transaction_id > $1::uuid AND transaction_id <= $2::uuid AND kind = 'operation'
), step AS MATERIALIZED (
    SELECT d.sha256 AS definition, s ->> 'name' AS name, s ->> 'kind' AS kind, s ->> 'participant' AS participant
      FROM (SELECT DISTINCT definition FROM tx) AS used
      JOIN definitions d ON d.sha256 = used.definition
     CROSS JOIN LATERAL jsonb_array_elements(convert_from(d.body, 'UTF8')::jsonb -> 'steps') AS s
)`

// checks are those of the coordinator's database, in the order in which they are reported. What one finds the
// others leave to it, as far as that is possible.
var checks = []check{
	{"transaction-columns", "I-7", "a transaction's columns belong to its status", overTransactions, sqlTransactionColumns},
	{"operation-columns", "S2.14", "an operation's columns belong to its state", overTransactions, sqlOperationColumns},
	{"operation-step", "S2.2", "an operation is one that the definition has", overTransactions, sqlOperationStep},
	{"operation-direction", "S2.10", "an operation belongs to the direction of its transaction", overTransactions, sqlOperationDirection},
	{"confirmed-and-cancelled", "I-1", "no transaction has a confirm and a cancel that are done", overTransactions, sqlConfirmedAndCancelled},
	{"committed-not-done", "I-2", "in a committed transaction everything is done", overTransactions, sqlCommittedNotDone},
	{"cancelled-not-undone", "I-2", "in a cancelled transaction everything that was sent is undone", overTransactions, sqlCancelledNotUndone},
	{"ended-operation-open", "I-7", "a transaction that has ended has no open operation", overTransactions, sqlEndedOperationOpen},
	{"ended-dead-letter-open", "I-15", "a transaction that has ended has no open dead letter", overTransactions, sqlEndedDeadLetterOpen},
	{"dead-letter-missing", "D1", "an operation that waits for a person has a dead letter that shows it", overTransactions, sqlDeadLetterMissing},
	{"dead-letter-without-operation", "D2", "an open dead letter's operation waits for a person", overTransactions, sqlDeadLetterWithoutOperation},
	{"dead-letter-twice", "D1", "an operation has at most one dead letter", overTransactions, sqlDeadLetterTwice},
	{"suspended-flag", "S2.12", "a transaction is marked suspended while it waits for a person, and only then", overTransactions, sqlSuspendedFlag},
	{"timer-missing", "I-11", "a transaction has a timer until it ends", overTransactions, sqlTimerMissing},
	{"waits-for-nobody", "I-11", "a transaction without a due time waits for a dead letter", overTransactions, sqlWaitsForNobody},
	{"timer-late", "I-11", "a transaction's timer is not later than what is due", overTransactions, sqlTimerLate},
	{"timer-overdue", "I-11", "timers are looked after within a minute", overNothing, sqlTimerOverdue},
	{"outbox-old", "C2", "messages leave the outbox within a minute", overNothing, sqlOutboxOld},
	{"outbox-without-state", "I-8", "a command in the outbox is of an attempt that is recorded", overNothing, sqlOutboxWithoutState},
	{"submission-missing", "I-9", "a transaction has its submission", overTransactions, sqlSubmissionMissing},
	{"submission-alone", "I-9", "a submission has its transaction", overTransactions, sqlSubmissionAlone},
	{"request-missing", "I-9", "a transaction is found by its request id", overTransactions, sqlRequestMissing},
	{"request-alone", "I-9", "a request id leads to a transaction", overRequests, sqlRequestAlone},
	{"rows-alone", "I-10", "operations, attempts and dead letters have their transaction", overTransactions, sqlRowsAlone},
	{"definition-missing", "S2.14", "a transaction has its definition", overTransactions, sqlDefinitionMissing},
	{"definition-content", "S2.14", "a definition has the content that its hash says", overTransactions, sqlDefinitionContent},
	{"attempt-number", "S1.1", "attempts are numbered up to that of their operation", overTransactions, sqlAttemptNumber},
	{"incident", "S2.10", "no reply of the last day contradicts what is recorded", overNothing, sqlIncident},
}

const sqlTransactionColumns = within + `
SELECT id::text, concat('status ', status, ', version ', version, ', decided_at ', decided_at, ', finished_at ', finished_at, ', why ', why)
  FROM tx
 WHERE status NOT IN ('accepted', 'running', 'confirming', 'cancelling', 'committed', 'cancelled', 'resolved')
    OR version < 1
    OR (status IN ('accepted', 'running')) <> (decided_at IS NULL)
    OR (status IN ('committed', 'cancelled', 'resolved')) <> (finished_at IS NOT NULL)
    OR status IN ('cancelling', 'cancelled') AND why IS NULL
    OR status IN ('accepted', 'confirming', 'committed') AND why IS NOT NULL
    OR status = 'accepted' AND start_at IS NULL
 LIMIT $3`

const sqlOperationColumns = within + `
SELECT transaction_id::text, concat(step, '/', phase, ' is ', state, ', wait ', wait, ', attempt ', attempt, ', counted ', counted,
       ', counted_to ', counted_to, ', floor ', floor, ', revision ', revision, ', next_at ', next_at, ', replaying ', replaying)
  FROM op
 WHERE phase NOT IN ('try', 'confirm', 'cancel')
    OR state NOT IN ('sent', 'waiting', 'held', 'dead', 'done', 'refused', 'hanging', 'given_up', 'closed')
    OR attempt < 0 OR attempt = 0 AND state NOT IN ('waiting', 'closed') -- at the gate, and not sent (R1 to R4)
    OR revision < 1 OR counted < 0 OR counted > attempt OR counted_to > attempt OR floor > attempt + (state = 'waiting' AND sent_at IS NULL)::int
    OR (state IN ('sent', 'waiting')) <> (next_at IS NOT NULL)
    OR wait <> '' AND state <> 'waiting'
    OR replaying AND state NOT IN ('sent', 'waiting', 'held')
    OR result IS NOT NULL AND (phase <> 'try' OR state <> 'done')
    OR state IN ('refused', 'hanging') AND phase <> 'try'
    OR octet_length(content_sha256) <> 32
 LIMIT $3`

const sqlOperationStep = within + `
SELECT op.transaction_id::text, concat(op.step, '/', op.phase, ' is not in definition ', tx.definition_name)
  FROM op
  JOIN tx ON tx.id = op.transaction_id
  JOIN definitions d ON d.sha256 = tx.definition
  LEFT JOIN step ON step.definition = tx.definition AND step.name = op.step
 WHERE step.name IS NULL
    OR op.phase = 'confirm' AND step.kind <> 'tcc'
    OR op.phase = 'cancel' AND step.kind = 'retriable'
 LIMIT $3`

const sqlOperationDirection = within + `
SELECT op.transaction_id::text, concat(op.step, '/', op.phase, ' was sent, and the transaction is ', tx.status)
  FROM op
  JOIN tx ON tx.id = op.transaction_id
  JOIN step ON step.definition = tx.definition AND step.name = op.step
 WHERE tx.status = 'accepted'
    OR op.phase = 'confirm' AND tx.status IN ('running', 'cancelling', 'cancelled')
    OR op.phase = 'try' AND step.kind = 'retriable' AND tx.status IN ('running', 'cancelling', 'cancelled')
    OR op.phase = 'cancel' AND step.kind IN ('saga', 'tcc') AND tx.status IN ('running', 'confirming', 'committed')
 LIMIT $3`

const sqlConfirmedAndCancelled = within + `
SELECT tx.id::text, concat('step ', min(op.step) FILTER (WHERE op.phase = 'confirm'), ' is confirmed and step ',
       min(op.step) FILTER (WHERE op.phase = 'cancel'), ' is cancelled')
  FROM op
  JOIN tx ON tx.id = op.transaction_id
  JOIN step ON step.definition = tx.definition AND step.name = op.step
 WHERE op.state = 'done' AND (op.phase = 'confirm' OR op.phase = 'cancel' AND step.kind <> 'pivot')
 GROUP BY tx.id
HAVING count(DISTINCT op.phase) = 2
 LIMIT $3`

const sqlCommittedNotDone = within + `
SELECT tx.id::text, concat(step.kind, ' step ', step.name, ': its try is ', coalesce(try.state, 'not sent'),
       CASE step.kind WHEN 'tcc' THEN ', its confirm ' || coalesce(confirm.state, 'not sent') END)
  FROM tx
  JOIN step ON step.definition = tx.definition
  LEFT JOIN op AS try ON try.transaction_id = tx.id AND try.step = step.name AND try.phase = 'try'
  LEFT JOIN op AS confirm ON confirm.transaction_id = tx.id AND confirm.step = step.name AND confirm.phase = 'confirm'
 WHERE tx.status = 'committed'
   AND (coalesce(try.state, '') NOT IN ('done', 'sent', 'waiting', 'held', 'dead')
        OR step.kind = 'tcc' AND coalesce(confirm.state, '') NOT IN ('done', 'sent', 'waiting', 'dead'))
 LIMIT $3`

const sqlCancelledNotUndone = within + `
SELECT tx.id::text, concat(step.kind, ' step ', step.name, ': its try is ', try.state, ', its cancel ', coalesce(cancel.state, 'not sent'))
  FROM tx
  JOIN step ON step.definition = tx.definition
  JOIN op AS try ON try.transaction_id = tx.id AND try.step = step.name AND try.phase = 'try'
  LEFT JOIN op AS cancel ON cancel.transaction_id = tx.id AND cancel.step = step.name AND cancel.phase = 'cancel'
 WHERE tx.status = 'cancelled'
   AND try.attempt > 0
   AND (step.kind IN ('saga', 'tcc') AND try.state IN ('done', 'closed', 'given_up')
            AND coalesce(cancel.state, '') NOT IN ('done', 'sent', 'waiting', 'dead')
        OR step.kind = 'pivot' AND try.state = 'done'
        OR step.kind = 'pivot' AND try.state = 'closed' AND cancel.state IS DISTINCT FROM 'done')
 LIMIT $3`

const sqlEndedOperationOpen = within + `
SELECT tx.id::text, concat(op.step, '/', op.phase, ' is ', op.state, CASE WHEN op.replaying THEN ' and replaying' END, ', and the transaction is ', tx.status)
  FROM tx
  JOIN op ON op.transaction_id = tx.id
 WHERE tx.status IN ('committed', 'cancelled', 'resolved') AND op.state IN ('sent', 'waiting', 'held', 'dead')
 LIMIT $3`

const sqlEndedDeadLetterOpen = within + `
SELECT tx.id::text, concat('dead letter ', letter.id, ' of ', letter.step, '/', letter.phase, ' is ', letter.status, ', and the transaction is ', tx.status)
  FROM tx
  JOIN letter ON letter.transaction_id = tx.id
 WHERE tx.status IN ('committed', 'cancelled', 'resolved') AND letter.status IN ('open', 'replaying')
 LIMIT $3`

const sqlDeadLetterMissing = within + `
SELECT op.transaction_id::text, concat(op.step, '/', op.phase, ' is ', CASE WHEN op.replaying THEN 'being replayed' ELSE op.state END,
       ', and its dead letter is ', coalesce(letter.status, 'not there'))
  FROM op
  LEFT JOIN letter ON letter.transaction_id = op.transaction_id AND letter.step = op.step AND letter.phase = op.phase
 WHERE op.state = 'dead' AND letter.status IS DISTINCT FROM 'open'
    OR op.replaying AND letter.status IS DISTINCT FROM 'replaying'
 LIMIT $3`

const sqlDeadLetterWithoutOperation = within + `
SELECT tx.id::text, concat('dead letter ', letter.id, ' of ', letter.step, '/', letter.phase, ' is ', letter.status, ', and the operation is ',
       coalesce(op.state, 'not there'))
  FROM tx
  JOIN letter ON letter.transaction_id = tx.id
  LEFT JOIN op ON op.transaction_id = letter.transaction_id AND op.step = letter.step AND op.phase = letter.phase
 WHERE tx.status NOT IN ('committed', 'cancelled', 'resolved')
   AND (letter.status = 'open' AND op.state IS DISTINCT FROM 'dead' AND op.replaying IS NOT TRUE
        OR letter.status = 'replaying' AND op.replaying IS NOT TRUE AND op.state IS DISTINCT FROM 'dead')
 LIMIT $3`

const sqlDeadLetterTwice = within + `
SELECT transaction_id::text, concat(step, '/', phase, ' has ', count(*), ' dead letters')
  FROM letter
 GROUP BY transaction_id, step, phase
HAVING count(*) > 1
 LIMIT $3`

const sqlSuspendedFlag = within + `
SELECT tx.id::text, concat('suspended is ', tx.suspended, ' while ', tx.status)
  FROM tx
 WHERE tx.suspended <> (tx.status NOT IN ('committed', 'cancelled', 'resolved')
                        AND EXISTS (SELECT FROM op WHERE op.transaction_id = tx.id AND (op.state = 'dead' OR op.replaying)))
 LIMIT $3`

const sqlTimerMissing = within + `
SELECT id::text, concat('wake_at is ', coalesce(wake_at::text, 'null'), ' while ', status)
  FROM tx
 WHERE (status IN ('committed', 'cancelled', 'resolved')) <> (wake_at IS NULL)
 LIMIT $3`

const sqlWaitsForNobody = within + `
SELECT tx.id::text, concat('nothing is due while ', tx.status)
  FROM tx
 WHERE tx.wake_at = 'infinity'
   AND NOT EXISTS (SELECT FROM op WHERE op.transaction_id = tx.id AND (op.state = 'dead' OR op.replaying))
 LIMIT $3`

const sqlTimerLate = within + `, due AS (
    SELECT tx.id, tx.status, tx.wake_at,
           least(CASE WHEN tx.status = 'accepted' THEN tx.start_at END,
                 CASE WHEN tx.status = 'running' AND NOT EXISTS (SELECT FROM op WHERE op.transaction_id = tx.id AND op.phase = 'cancel') THEN tx.deadline END,
                 (SELECT min(op.next_at) FROM op WHERE op.transaction_id = tx.id AND op.state IN ('sent', 'waiting'))) AS due_at
      FROM tx
     WHERE tx.wake_at > clock_timestamp() + interval '1 minute'
)
SELECT id::text, concat('something is due at ', due_at, ', and the timer is set to ', wake_at)
  FROM due
 WHERE due_at < wake_at - interval '1 minute'
   AND (wake_at <> 'infinity' OR EXISTS (SELECT FROM op WHERE op.transaction_id = due.id AND (op.state = 'dead' OR op.replaying)))
 LIMIT $3`

const sqlTimerOverdue = `
SELECT id::text, concat('due since ', wake_at, ' while ', status)
  FROM transactions
 WHERE wake_at < clock_timestamp() - interval '1 minute'
 ORDER BY wake_at
 LIMIT $1`

const sqlOutboxOld = `
SELECT id::text, concat('to ', subject, ', since ', created_at)
  FROM outbox
 WHERE created_at < clock_timestamp() - interval '1 minute'
 ORDER BY id
 LIMIT $1`

const sqlOutboxWithoutState = `
WITH command AS (
    SELECT id, substring(headers FROM 'Saga-Transaction: ([0-9a-f-]{36})')::uuid AS transaction_id,
           substring(headers FROM 'Saga-Step: ([^\n]+)') AS step, substring(headers FROM 'Saga-Phase: ([^\n]+)') AS phase,
           substring(headers FROM 'Saga-Attempt: ([0-9]{1,9})')::integer AS attempt
      FROM outbox
     WHERE headers ~ 'Saga-Transaction: [0-9a-f-]{36}' AND headers ~ 'Saga-Verb: execute' AND headers ~ 'Saga-Action: '
)
SELECT c.transaction_id::text, concat('message ', c.id, ' is attempt ', c.attempt, ' of ', c.step, '/', c.phase, ', and the last one that is recorded is ',
       coalesce(o.attempt::text, 'none'))
  FROM command c
  LEFT JOIN operations o ON o.transaction_id = c.transaction_id AND o.step = c.step AND o.phase = c.phase
 WHERE c.attempt > coalesce(o.attempt, 0)
 LIMIT $1`

const sqlSubmissionMissing = within + `
SELECT tx.id::text, concat('it is ', tx.status, ' and has no submission')
  FROM tx
 WHERE NOT EXISTS (SELECT FROM submissions s WHERE s.transaction_id = tx.id)
 LIMIT $3`

const sqlSubmissionAlone = `
SELECT s.transaction_id::text, 'a submission has no transaction'
  FROM submissions s
 WHERE s.transaction_id > $1::uuid AND s.transaction_id <= $2::uuid
   AND NOT EXISTS (SELECT FROM transactions t WHERE t.id = s.transaction_id)
 LIMIT $3`

const sqlRequestMissing = within + `
SELECT tx.id::text, concat('its request id leads to ', coalesce(r.transaction_id::text, 'nothing'))
  FROM tx
  LEFT JOIN requests r ON r.tenant = tx.tenant AND r.client = tx.client AND r.request_id = tx.request_id
 WHERE tx.request_id IS NOT NULL AND r.transaction_id IS DISTINCT FROM tx.id
 LIMIT $3`

const sqlRequestAlone = `
SELECT r.transaction_id::text, concat('a request id of tenant ', r.tenant, ', client ', r.client, ' leads to it, and there is no such transaction')
  FROM requests r
 WHERE (r.tenant, r.client, r.request_id) > ($1::text, $2::text, $3::text)
   AND (r.tenant, r.client, r.request_id) <= ($4::text, $5::text, $6::text)
   AND NOT EXISTS (SELECT FROM transactions t WHERE t.id = r.transaction_id)
 LIMIT $7`

const sqlRowsAlone = within + `
SELECT id::text, concat('there is no such transaction, but ', string_agg(DISTINCT of, ' and '))
  FROM (SELECT transaction_id, 'operations' FROM op
        UNION ALL
        SELECT transaction_id, 'attempts' FROM attempts WHERE transaction_id > $1::uuid AND transaction_id <= $2::uuid
        UNION ALL
        SELECT transaction_id, 'dead letters' FROM letter
         WHERE status IN ('open', 'replaying') OR transaction_id >= (SELECT floor FROM retention)) AS part (id, of)
 WHERE NOT EXISTS (SELECT FROM tx WHERE tx.id = part.id)
 GROUP BY id
 LIMIT $3`

const sqlDefinitionMissing = within + `
SELECT tx.id::text, concat('definition ', tx.definition_name, ' is not there')
  FROM tx
 WHERE NOT EXISTS (SELECT FROM definitions d WHERE d.sha256 = tx.definition)
 LIMIT $3`

const sqlDefinitionContent = within + `
SELECT min(tx.id::text), concat('definition ', d.name, ' has another content than its hash says')
  FROM tx
  JOIN definitions d ON d.sha256 = tx.definition
 WHERE sha256(d.body) <> d.sha256
 GROUP BY d.sha256, d.name
 LIMIT $3`

const sqlAttemptNumber = within + `
SELECT tx.id::text, concat('attempt ', max(a.attempt), ' of ', a.step, '/', a.phase, ' has ended, and the last one sent is ', coalesce(max(op.attempt)::text, 'none'))
  FROM attempts a
  JOIN tx ON tx.id = a.transaction_id
  LEFT JOIN op ON op.transaction_id = a.transaction_id AND op.step = a.step AND op.phase = a.phase
 WHERE a.transaction_id > $1::uuid AND a.transaction_id <= $2::uuid AND a.attempt > coalesce(op.attempt, 0)
 GROUP BY tx.id, a.step, a.phase
 LIMIT $3`

const sqlIncident = `
SELECT transaction_id::text, concat(at, ': ', problem)
  FROM incidents
 WHERE at > clock_timestamp() - interval '1 day'
 ORDER BY id DESC
 LIMIT $1`
