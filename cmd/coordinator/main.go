// Command coordinator runs transactions and lets operators look after them.
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
