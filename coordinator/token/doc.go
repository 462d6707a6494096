// Package token owns the bearer tokens of those who call the API, and the table tokens.
//
// # States
//
// A token is active until it expires or is revoked, and never active again. Rows stay, so that the audit can name what
// there was.
//
// # Guarantees
//
// A token is shown once, to who makes it, and is stored nowhere: the table has its SHA-256. Making and revoking write
// their audit row in the same database transaction (D6). A revoked or expired token is refused within CacheTTL by every
// coordinator, at once by the one that revoked it. When the database does not answer, nobody is taken for unknown:
// the error is that of the database. The clock that decides is the database's.
package token
