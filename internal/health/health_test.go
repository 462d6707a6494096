package health_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/health"
)

func TestReadyAndNot(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var down atomic.Bool
	ended := make(chan error, 1)
	go func() {
		ended <- health.Serve(ctx, l, func(ctx context.Context) error {
			if _, ok := ctx.Deadline(); !ok {
				t.Error("the check has no deadline")
			}
			if down.Load() {
				return errors.New("secret")
			}
			return nil
		})
	}()
	base := "http://" + l.Addr().String()
	for _, url := range []string{base, base + "/"} {
		if err := health.Check(t.Context(), url); err != nil {
			t.Error(err)
		}
	}
	down.Store(true)
	if err := health.Check(t.Context(), base); err == nil || !strings.Contains(err.Error(), "HTTP 503") {
		t.Errorf("got %v", err)
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
	}
	if health.Check(t.Context(), base) == nil {
		t.Error("it is ready and does not run")
	}
}

func TestURLsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "127.0.0.1:1", "ftp://127.0.0.1", "http://u:hunter2@127.0.0.1", "http://%zz:hunter2@x", "http://x?y=1"} {
		if err := health.Check(t.Context(), url); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: got %v", url, err)
		}
	}
}
