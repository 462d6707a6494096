package participant

// The barrier's statements. The casts are for the modes in which pgx does not ask the server for types.
const (
	sqlEnter = `
SELECT verdict, keep, outcome, code, reason, state, result, result_type, revision, content_sha256, retry_after_ms, replayed
  FROM saga.barrier_enter($1::text, $2::uuid, $3::text, $4::text, $5::text, $6::text, $7::bytea, $8::integer,
       p_deadline => $9::timestamptz, p_lock_timeout_ms => $10::integer)`

	sqlInquire = `
SELECT verdict, keep, outcome, code, reason, state, result, result_type, revision, content_sha256, retry_after_ms, replayed
  FROM saga.barrier_inquire($1::text, $2::uuid, $3::text, $4::text, $5::bytea, $6::integer)`

	sqlLeave = `
SELECT saga.barrier_leave($1::text, $2::uuid, $3::text, $4::text, $5::bytea, $6::integer, $7::text,
       p_code => $8::text, p_reason => $9::text, p_result => $10::bytea, p_result_type => $11::text)`

	sqlSavepoint  = `SAVEPOINT saga_handler`
	sqlRollbackTo = `ROLLBACK TO SAVEPOINT saga_handler`
	sqlCommit     = `COMMIT`
)
