// Package participant holds the SQL of the participants' barrier, in the order in which it is applied. Each
// file records its version itself, so that it may also be applied with psql.
package participant

import "embed"

// FS holds the files, named by their version: 00001_barrier.sql to 00004_batch.sql.
//
//go:embed *.sql
var FS embed.FS
