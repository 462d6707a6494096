// Package coordinator embeds the migrations of the coordinator's own tables.
package coordinator

import "embed"

// FS holds the migrations in the root directory, in goose's format.
//
//go:embed *.sql
var FS embed.FS
