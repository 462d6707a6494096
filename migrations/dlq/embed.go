// Package dlq embeds the migrations of the dead letters and the audit.
package dlq

import "embed"

// FS holds the migrations in the root directory, in goose's format.
//
//go:embed *.sql
var FS embed.FS
