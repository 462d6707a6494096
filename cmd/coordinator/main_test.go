package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/schema"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

func TestMain(m *testing.M) {
	_ = os.Unsetenv(envCoordinatorDatabase) // of a shell that has read the addresses of dev; its name is one
	testdb.Main(m)
}

var (
	coordinatorSchema = testdb.Template{Name: "coordinator", Migrate: func(ctx context.Context, dsn string) error {
		_, err := schema.Up(ctx, dsn)
		return err
	}}
	bankSchema = testdb.Template{Name: "bank", Migrate: func(ctx context.Context, dsn string) error {
		pool, err := pgxpool.New(ctx, dsn)
		if err != nil {
			return err
		}
		defer pool.Close()
		if err := bank.Migrate(ctx, pool); err != nil {
			return err
		}
		return bank.Seed(ctx, pool, 1000, "alice", "bob")
	}}
)

// world is a running coordinator with one bank, "bank-a".
type world struct {
	t    *testing.T
	url  string
	bank *pgxpool.Pool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, bank: testdb.New(t, bankSchema)}
	prefix, log := testdb.Prefix(t), slog.New(slog.DiscardHandler)
	s, err := newServer(t.Context(), serverConfig{
		DatabaseURL: testdb.NewDSN(t, coordinatorSchema), NATSURL: testdb.Cluster(t).NATSURL(), Prefix: prefix,
		Listen: "127.0.0.1:0", Anonymous: true, Connections: 6, Lanes: 2, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.url = s.url()
	p, err := bank.NewParticipant("bank-a", w.bank, testdb.NATS(t), func(c *participant.Config) {
		c.Prefix, c.Logger, c.Concurrency = prefix, log, 4
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for name, f := range map[string]func(context.Context) error{"server": s.run, "bank": p.Run} {
		running.Go(func() {
			if err := f(ctx); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	t.Cleanup(func() { cancel(); running.Wait() })
	return w
}

// result is what a command left behind.
type result struct {
	code           int
	stdout, stderr string
}

// commandLimit only keeps a test from hanging.
const commandLimit = 4 * time.Minute

// command runs the program; the test fails if it does not end.
func command(t *testing.T, stdin io.Reader, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := runWith(ctx, args, stdin, &stdout, &stderr)
	if ctx.Err() != nil {
		t.Errorf("%s: not ended after %s", strings.Join(args, " "), commandLimit)
	}
	return result{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// run runs a command on the world's coordinator.
func (w *world) run(args ...string) result {
	w.t.Helper()
	return command(w.t, strings.NewReader(""), append(args, "--server", w.url)...)
}

// want checks exit code and what the messages say.
func (r result) want(t *testing.T, code int, stderr ...string) result {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", r.code, code, r.stdout, r.stderr)
	}
	for _, text := range stderr {
		if !strings.Contains(r.stderr, text) {
			t.Errorf("stderr does not say %q:\n%s", text, r.stderr)
		}
	}
	return r
}

// submission writes a submission to a file and returns its path.
func submission(t *testing.T, def *saga.Definition, input map[string]any) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"definition": json.RawMessage(def.JSON()), "input": input})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "submission.json")
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// start starts a transaction and returns its id.
func (w *world) start(def *saga.Definition, input map[string]any) string {
	w.t.Helper()
	r := w.run("tx", "start", "-f", submission(w.t, def, input)).want(w.t, exitOK, "started (request id ")
	return strings.TrimSpace(r.stdout)
}

var (
	withdraw = saga.Define("withdraw").Saga("take", "bank-a", bank.ActionWithdraw).MustBuild()
	// payout has an operation that has to go forward and is set aside after one attempt.
	payout = saga.Define("payout").Retriable("pay", "bank-a", bank.ActionPayout, saga.PhaseTwoAttempts(1)).MustBuild()
)

// Figures that differ from run to run.
var volatile = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`), "<id-------------------------------->"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z`), "<time------------------>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`[0-9a-f]{64}`), "<sha256>"},
	{regexp.MustCompile(`\b[0-9a-f]{16}\b`), "<16 digits>"},
	{regexp.MustCompile(`"version": \d+,`), `"version": <n>,`},
}

func stable(text string) string {
	for _, v := range volatile {
		text = v.pattern.ReplaceAllLiteralString(text, v.text)
	}
	return text
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got = stable(got); got != want {
		t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
	}
}

// memberOf returns a member of a JSON object.
func memberOf(t *testing.T, text, name string) string {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("not a JSON object: %v\n%s", err, text)
	}
	return fmt.Sprint(v[name])
}
