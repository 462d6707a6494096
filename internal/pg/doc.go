// Package pg opens PostgreSQL pools with every setting spelled out, and answers what callers ask about errors
// of PostgreSQL and pgx; what the errors mean is said by package fault/pgfault.
//
// It owns no table and no goroutine beyond the pool's own.
//
// # Poolers
//
// Nothing here needs a session: a pool sets application_name and no other start-up parameter, which
// pgbouncer accepts in transaction mode. pgx prepares statements on the server; a pooler that cannot
// follow those (pgbouncer before 1.21) needs default_query_exec_mode=exec in the DSN, which pgx reads.
//
// # Failure
//
// A connection attempt ends after ConnectTimeout. A connection whose peer is gone fails its statement
// after UserTimeout (Linux) or once keepalives are unanswered (elsewhere), so no caller waits for the
// kernel's quarter of an hour. When a commit was sent and no answer came its outcome is unknown:
// CommitUnknown says so, and the caller must look before it tries again.
package pg
