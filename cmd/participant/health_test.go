package main

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/testdb"
)

// A bank that runs is ready, and one that does not is not. A second one cannot take its address.
func TestHealth(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	t.Setenv("DATABASE_URL", testdb.NewDSN(t, testdb.Template{}))
	t.Setenv("NATS_URL", testdb.Cluster(t).NATSURL())
	t.Setenv("SAGACITY_PREFIX", testdb.Prefix(t))
	t.Setenv("SAGACITY_HEALTH_URL", "http://"+address)
	health := func() (int, string) {
		var out buffer
		code := run(t.Context(), []string{"health"}, &out, &out)
		return code, out.String()
	}
	if code, said := health(); code != exitFailed || !strings.Contains(said, "--health-listen") {
		t.Errorf("nobody runs: exit %d, %s", code, said)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var log buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"bank", "--name", "bank-a", "--health-listen", address}, &log, &log)
	}()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.NewTimer(30 * time.Second)
	defer timeout.Stop()
	for {
		if code, said := health(); code == exitOK && said == "ready\n" {
			break
		}
		select {
		case <-ticker.C:
		case code := <-ended:
			t.Fatalf("it ended with %d: %s", code, log.String())
		case <-timeout.C:
			t.Fatalf("it is not ready: %s", log.String())
		}
	}
	var second buffer
	if code := run(t.Context(), []string{"bank", "--name", "bank-a", "--health-listen", address}, &second, &second); code != exitFailed || !strings.Contains(second.String(), "choose another address") {
		t.Errorf("a second one: exit %d, %s", code, second.String())
	}
	cancel()
	select {
	case code := <-ended:
		if code != exitOK {
			t.Errorf("it ended with %d: %s", code, log.String())
		}
	case <-timeout.C:
		t.Fatal("it does not end")
	}
}
