// Package notify embeds the migrations of notices, webhooks and their deliveries.
package notify

import "embed"

// FS holds the migrations in the root directory, in goose's format.
//
//go:embed *.sql
var FS embed.FS
