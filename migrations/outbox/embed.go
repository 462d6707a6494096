// Package outbox embeds the migrations of the outbox table. It holds no code.
package outbox

import "embed"

// FS holds the goose files, in order.
//
//go:embed *.sql
var FS embed.FS
