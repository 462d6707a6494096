// Command participant runs the bank of the demonstrations, and prints the barrier's SQL for services that bring
// their own migrations.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the build: -ldflags "-X main.version=…".
var version = "devel"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
