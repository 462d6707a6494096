package participant

const (
	sqlEnter = `
SELECT verdict, keep, outcome, code, reason, state, result, result_type, revision, content_sha256, retry_after_ms, replayed
  FROM saga.barrier_enter($1, $2, $3, $4, $5, $6, $7, $8, p_deadline => $9, p_lock_timeout_ms => $10)`

	sqlInquire = `
SELECT verdict, keep, outcome, code, reason, state, result, result_type, revision, content_sha256, retry_after_ms, replayed
  FROM saga.barrier_inquire($1, $2, $3, $4, $5, $6)`

	sqlLeave = `
SELECT saga.barrier_leave($1, $2, $3, $4, $5, $6, $7, p_code => $8, p_reason => $9, p_result => $10, p_result_type => $11)`

	sqlSavepoint  = `SAVEPOINT saga_handler`
	sqlRollbackTo = `ROLLBACK TO SAVEPOINT saga_handler`
	sqlCommit     = `COMMIT`
)
