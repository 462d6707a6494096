package main

// sqlWeeks returns the statements that make the partitions of past weeks which are not there.
const sqlWeeks = `
SELECT format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', parent || '_w' || week, parent, week_floor(week), week_floor(week + 1))
  FROM unnest(ARRAY['transactions', 'submissions', 'operations', 'attempts']) AS parent,
       generate_series(week_of(clock_timestamp()) - $1::integer, week_of(clock_timestamp())) AS week
 WHERE to_regclass(parent || '_w' || week) IS NULL`

// sqlSpan returns the time over which finished transactions are spread: whole weeks that are past, and this one until now.
const sqlSpan = `
SELECT date_trunc('milliseconds', clock_timestamp() - $1::integer * interval '7 days'), clock_timestamp()`

// sqlTemplate finds the one transaction that ran.
const sqlTemplate = `SELECT id::text FROM transactions WHERE status = 'committed'`

// sqlFill adds finished transactions $1 to $2 of $3: each a copy of transaction $4, with all its rows, under an id and a
// request id of its own, at its time between $5 and $6. Request ids are random, as those of clients are.
const sqlFill = `
WITH made AS MATERIALIZED (
    SELECT (lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3) ||
            '8' || substr(md5(n::text), 4, 15))::uuid AS id,
           gen_random_uuid()::text AS request_id, at
      FROM generate_series($1::bigint, $2::bigint) AS n,
           LATERAL (SELECT $5::timestamptz + ($6::timestamptz - $5::timestamptz) * (n::float8 / $3::bigint) AS at) AS time
), transaction AS (
    INSERT INTO transactions (id, version, status, suspended, tenant, client, request_id, definition, definition_name,
                              created_at, decided_at, finished_at, deadline, traceparent, tracestate)
    SELECT m.id, t.version, t.status, t.suspended, t.tenant, t.client, m.request_id, t.definition, t.definition_name,
           m.at, m.at + (t.decided_at - t.created_at), m.at + (t.finished_at - t.created_at),
           m.at + (t.deadline - t.created_at), t.traceparent, t.tracestate
      FROM made m, transactions t WHERE t.id = $4::uuid
), submission AS (
    INSERT INTO submissions (transaction_id, content_sha256, body)
    SELECT m.id, s.content_sha256, s.body FROM made m, submissions s WHERE s.transaction_id = $4::uuid
), request AS (
    INSERT INTO requests (tenant, client, request_id, transaction_id, content_sha256, answer, created_at)
    SELECT r.tenant, r.client, m.request_id, m.id, r.content_sha256, r.answer, m.at
      FROM made m, requests r WHERE r.transaction_id = $4::uuid
)
INSERT INTO operations (transaction_id, step, phase, state, wait, replaying, attempt, counted, counted_to, floor, revision,
                        content_sha256, sent_at, next_at, outcome, code, reason, result, result_type)
SELECT m.id, o.step, o.phase, o.state, o.wait, o.replaying, o.attempt, o.counted, o.counted_to, o.floor, o.revision,
       o.content_sha256, m.at + (o.sent_at - t.created_at), m.at + (o.next_at - t.created_at), o.outcome, o.code, o.reason,
       o.result, o.result_type
  FROM made m, operations o, transactions t WHERE o.transaction_id = $4::uuid AND t.id = $4::uuid`

// The index of request ids is built once, at the end: ten million random insertions would take longer than all the rest.
const (
	sqlDropKey = `ALTER TABLE requests DROP CONSTRAINT requests_pkey`
	sqlAddKey  = `ALTER TABLE requests ADD PRIMARY KEY (tenant, client, request_id)`
)

const (
	sqlVacuum = `VACUUM (ANALYZE) transactions, submissions, operations, requests`
	sqlSizes  = `
SELECT pg_size_pretty(pg_database_size(current_database())),
       (SELECT pg_size_pretty(sum(pg_total_relation_size(i.inhrelid))) FROM pg_inherits i WHERE i.inhparent = 'transactions'::regclass),
       (SELECT pg_size_pretty(sum(pg_total_relation_size(i.inhrelid))) FROM pg_inherits i WHERE i.inhparent = 'submissions'::regclass),
       (SELECT pg_size_pretty(sum(pg_total_relation_size(i.inhrelid))) FROM pg_inherits i WHERE i.inhparent = 'operations'::regclass),
       pg_size_pretty(pg_total_relation_size('requests'))`
	sqlFilled = `
SELECT (SELECT count(*) FROM transactions WHERE finished_at IS NOT NULL), (SELECT count(*) FROM submissions),
       (SELECT count(*) FROM requests), (SELECT count(*) FROM operations), (SELECT count(DISTINCT tableoid) FROM transactions)`
	sqlDeadlocks = `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`
)

// Of the transactions of a coordinator that was killed, by the start of their request ids: those that have not ended, for
// which the index of timers is enough, and those that ended after it was killed.
const (
	sqlUnended = `
SELECT count(*) FROM transactions WHERE wake_at IS NOT NULL AND finished_at IS NULL AND starts_with(request_id, $1)`
	sqlEndedAfter = `
SELECT count(*), COALESCE(extract(epoch FROM max(finished_at) - $2::timestamptz), 0)::float8
  FROM transactions WHERE finished_at > $2 AND starts_with(request_id, $1)`
)
