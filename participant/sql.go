package participant

// The barrier's statements. The casts are for the modes in which pgx does not ask the server for types.
const (
	sqlEnter = `
SELECT verdict, keep, outcome, code, reason, state, result, result_type, revision, content_sha256, retry_after_ms, replayed
  FROM saga.barrier_enter($1::text, $2::uuid, $3::text, $4::text, $5::text, $6::text, $7::bytea, $8::integer,
       p_deadline => $9::timestamptz, p_lock_timeout_ms => $10::integer)`

	sqlEnterAll = `
SELECT saga.barrier_enter_all($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::integer[],
       $8::timestamptz[], p_lock_timeout_ms => $9::integer)`

	sqlEnterLease = `
SELECT verdict, keep, outcome, code, reason, state, result, result_type, revision, content_sha256, retry_after_ms, replayed, lease_token
  FROM saga.barrier_enter($1::text, $2::uuid, $3::text, $4::text, $5::text, $6::text, $7::bytea, $8::integer,
       p_deadline => $9::timestamptz, p_lock_timeout_ms => $10::integer, p_lease => $11::bigint * interval '1 millisecond')`

	sqlInquire = `
SELECT verdict, keep, outcome, code, reason, state, result, result_type, revision, content_sha256, retry_after_ms, replayed
  FROM saga.barrier_inquire($1::text, $2::uuid, $3::text, $4::text, $5::bytea, $6::integer)`

	sqlLeave = `
SELECT saga.barrier_leave($1::text, $2::uuid, $3::text, $4::text, $5::bytea, $6::integer, $7::text,
       p_code => $8::text, p_reason => $9::text, p_result => $10::bytea, p_result_type => $11::text)`

	sqlLeaveAll = `
SELECT saga.barrier_leave_all($1::text[], $2::uuid[], $3::text[], $4::text[], $5::bytea[], $6::integer[], $7::text[],
       $8::text[], $9::text[], $10::bytea[], $11::text[])`

	sqlLeaveLease = `
SELECT saga.barrier_leave($1::text, $2::uuid, $3::text, $4::text, $5::bytea, $6::integer, $7::text,
       p_code => $8::text, p_reason => $9::text, p_result => $10::bytea, p_result_type => $11::text, p_lease_token => $12::bigint)`

	sqlFound = `
SELECT saga.barrier_found($1::text, $2::uuid, $3::text, $4::bigint, $5::text,
       p_code => $6::text, p_reason => $7::text, p_result => $8::bytea, p_result_type => $9::text)`

	sqlRelease = `SELECT saga.barrier_release($1::text, $2::uuid, $3::text, $4::bigint, $5::boolean)`

	sqlSuspectBegin = `SELECT saga.barrier_suspect_begin($1::text, $2::uuid, $3::text, $4::text, $5::integer, $6::bigint, $7::integer)`
	sqlSuspectEnd   = `SELECT saga.barrier_suspect_end($1::text, $2::uuid, $3::text, $4::text)`
	sqlSuspectPurge = `DELETE FROM saga.barrier_suspect WHERE begun_at < clock_timestamp() - interval '30 days'`

	sqlTell           = `SELECT saga.barrier_tell($1::text, NULL, $2::bigint * interval '1 millisecond')`
	sqlMakePartitions = `SELECT saga.barrier_partitions()`
	sqlRetain         = `
SELECT held, coalesce(blocked, ''), dropped, deleted
  FROM saga.barrier_retain($1::text, $2::uuid, $3::bigint * interval '1 millisecond', p_rows_max => $4::integer)`

	sqlSavepoint  = `SAVEPOINT saga_handler`
	sqlRollbackTo = `ROLLBACK TO SAVEPOINT saga_handler`
	sqlCommit     = `COMMIT`

	sqlSavepointBatch = `SAVEPOINT saga_batch`
	sqlSavepointGroup = `SAVEPOINT saga_operation`
	sqlReleaseGroup   = `RELEASE SAVEPOINT saga_operation`
	sqlUndoGroup      = `ROLLBACK TO SAVEPOINT saga_operation; RELEASE SAVEPOINT saga_operation`
)
