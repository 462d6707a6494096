package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// buffer may be read while the program writes.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestCommandLine(t *testing.T) {
	for _, name := range []string{"DATABASE_URL", "NATS_URL", "SAGACITY_PARTICIPANT"} {
		t.Setenv(name, "")
	}
	for _, test := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"version", 0, "devel\n", ""},
		{"schema", 0, participant.SchemaSQL(), ""},
		{"", 2, "", "participant: no command (see: participant --help)\n"},
		{"rob", 2, "", `unknown command "rob"`},
		{"version now", 2, "", "participant: unknown command"},
		{"bank --nome x", 2, "", "unknown flag: --nome (see: participant bank --help)\n"},
		{"bank", 2, "", "participant: no name; give --name or set SAGACITY_PARTICIPANT, for example bank-a\n"},
		{"bank --name bank-a", 2, "", "participant: no database; give --database-url or set DATABASE_URL\n"},
		{"bank --name bank-a --log-level loud", 2, "", `--log-level is "loud"`},
		{"bank --name bank-a --database-url postgres://u:secret@127.0.0.1:1/d", 1, "", "127.0.0.1"},
	} {
		var stdout, stderr buffer
		code := run(t.Context(), strings.Fields(test.args), &stdout, &stderr)
		if code != test.code || stdout.String() != test.stdout || !strings.Contains(stderr.String(), test.stderr) {
			t.Errorf("participant %s: exit %d, stdout %.100q, stderr %q", test.args, code, stdout.String(), stderr.String())
		}
		if strings.Contains(stderr.String(), "secret") {
			t.Errorf("participant %s shows a password: %s", test.args, stderr.String())
		}
	}
}

// The environment stands in for flags; the program runs until it is asked to end.
func TestBankRuns(t *testing.T) {
	dsn := testdb.NewDSN(t, testdb.Template{})
	prefix := testdb.Prefix(t)
	t.Setenv("DATABASE_URL", dsn)
	t.Setenv("NATS_URL", testdb.Cluster(t).NATSURL())
	t.Setenv("SAGACITY_PREFIX", prefix)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout, stderr buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, strings.Fields("bank --name bank-a --account alice --account bob --balance-cents 70 --sabotage tombstone"), &stdout, &stderr)
	}()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.NewTimer(20 * time.Second)
	defer timeout.Stop()
	for !strings.Contains(stderr.String(), "participant runs") {
		select {
		case <-ticker.C:
		case code := <-ended:
			t.Fatalf("ended with %d: %s", code, stderr.String())
		case <-timeout.C:
			t.Fatalf("it does not run: %s", stderr.String())
		}
	}
	cancel()
	select {
	case code := <-ended:
		if code != 0 || stdout.String() != "" {
			t.Errorf("ended with %d, stdout %q", code, stdout.String())
		}
	case <-timeout.C:
		t.Fatal("it does not end")
	}
	if !strings.Contains(stderr.String(), "without a safeguard") {
		t.Error("it does not warn of the safeguard that is missing")
	}
	wantTotal(t, dsn, 140)
}

func wantTotal(t *testing.T, dsn string, cents int64) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if total, err := bank.Total(t.Context(), pool); err != nil || total != cents {
		t.Errorf("total %d, %v", total, err)
	}
}
