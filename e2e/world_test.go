package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/internal/devcluster"
)

// The banks, and the accounts that each has.
const (
	bankA        = "bank-a"
	bankB        = "bank-b"
	accounts     = 50
	accountCents = 1_000_000
)

var bankNames = []string{bankA, bankB}

// world is a cluster with a coordinator and two banks on it, each a process.
type world struct {
	cluster *devcluster.Cluster
	logs    string
	client  *client.Client
	pool    *pgxpool.Pool            // of the coordinator's database
	banks   map[string]*pgxpool.Pool // of the banks' databases

	coordinators []*process
	addresses    addresses // where they listen now
	bank         map[string]*process
	bankArgs     []string
	argsOf       map[string][]string // of one bank, beside those of all
}

// newWorld starts everything and stops it at the end of the test.
func newWorld(t *testing.T, bankArgs ...string) *world {
	t.Helper()
	return newWorldOf(t, nil, bankArgs...)
}

// newWorldOf is newWorld with arguments of single banks.
func newWorldOf(t *testing.T, argsOf map[string][]string, bankArgs ...string) *world {
	t.Helper()
	program(t, "coordinator") // build first: it may take its time
	w := &world{logs: logsDir(t), banks: make(map[string]*pgxpool.Pool), bank: make(map[string]*process), bankArgs: bankArgs, argsOf: argsOf}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var err error
	if w.cluster, err = devcluster.Start(ctx, devcluster.Config{}); err != nil {
		t.Fatal(err)
	}
	stop := undo.add(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := w.cluster.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: stop the cluster:", err)
		}
	})
	t.Cleanup(stop)
	showLogsOfFailure(t, w.logs, w.cluster.Postgres.LogPath())
	w.pool = w.database(t, "coordinator")
	migrate := startProcess(t, spec{name: "coordinator migrate", args: []string{"migrate"}, env: w.env("coordinator")})
	if code := migrate.wait(t, time.Minute); code != 0 {
		t.Fatalf("coordinator migrate: exit code %d\n%s", code, migrate.log.tail())
	}
	for _, name := range bankNames {
		w.banks[name] = w.database(t, databaseOf(name))
		w.startBank(t, name)
	}
	w.client = newClient(t, &w.addresses)
	w.startCoordinator(t, 0)
	return w
}

func databaseOf(bank string) string { return strings.ReplaceAll(bank, "-", "_") }

// database makes a database and opens a pool on it.
func (w *world) database(t *testing.T, name string) *pgxpool.Pool {
	t.Helper()
	dsn, err := w.cluster.CreateDatabase(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// env carries the addresses with their passwords, which have no place on a command line.
func (w *world) env(database string) []string {
	return []string{"DATABASE_URL=" + w.cluster.DSN(database), "COORDINATOR_DATABASE_URL=", "NATS_URL=" + w.cluster.NATSURL()}
}

// startCoordinator starts the nth coordinator, perhaps again.
func (w *world) startCoordinator(t *testing.T, n int) {
	t.Helper()
	name := "coordinator serve"
	if n > 0 {
		name += fmt.Sprintf(" %d", n+1)
	}
	p := startProcess(t, spec{
		name: name, args: []string{"serve", "--anonymous", "--listen", "127.0.0.1:0"}, env: w.env("coordinator"), ready: "API on ",
	})
	address, err := addressIn(p.announced)
	if err != nil {
		t.Fatal(err)
	}
	if n == len(w.coordinators) {
		w.coordinators = append(w.coordinators, nil)
	}
	w.coordinators[n] = p
	w.addresses.set(n, address)
}

func (w *world) startBank(t *testing.T, name string) {
	t.Helper()
	names := make([]string, accounts)
	for i := range names {
		names[i] = account(i)
	}
	args := []string{"bank", "--name", name, "--balance-cents", fmt.Sprint(accountCents), "--account", strings.Join(names, ",")}
	// Like any service it ends when it starts without its database, so the next fault has to wait.
	w.bank[name] = startProcess(t, spec{
		name: "participant " + name, args: slices.Concat(args, w.bankArgs, w.argsOf[name]), env: w.env(databaseOf(name)), ready: "participant runs",
	})
}

func account(i int) string { return fmt.Sprintf("account-%02d", i) }

// killBank kills a bank and starts it again.
func (w *world) killBank(t *testing.T, name string) {
	t.Helper()
	w.bank[name].kill()
	w.startBank(t, name)
}

// unfinished counts the transactions that have not ended.
func (w *world) unfinished(ctx context.Context) (n int, err error) {
	err = w.pool.QueryRow(ctx, `SELECT count(*) FROM transactions WHERE finished_at IS NULL`).Scan(&n)
	return n, err
}

// addresses are where the coordinators listen. Each has another one each time it starts: the kernel may give the
// old one to somebody else meanwhile.
type addresses struct {
	mu     sync.Mutex
	list   []string
	hidden map[int]bool
}

// hide keeps callers away from a coordinator, like a load balancer whose health check failed, or leads them there
// again. Calls that are under way stay.
func (a *addresses) hide(n int, hidden bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hidden == nil {
		a.hidden = make(map[int]bool)
	}
	a.hidden[n] = hidden
}

func (a *addresses) set(n int, address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = slices.Grow(a.list, 1)[:max(len(a.list), n+1)]
	a.list[n] = address
}

// any returns one of them that is not hidden, like a load balancer that does not look whether anybody is there.
func (a *addresses) any() (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var shown []string
	for n, address := range a.list {
		if !a.hidden[n] {
			shown = append(shown, address)
		}
	}
	if len(shown) == 0 {
		return "", errors.New("there is no coordinator to call")
	}
	return shown[rand.IntN(len(shown))], nil
}

// newClient calls any of the coordinators, as nobody in particular.
func newClient(t *testing.T, a *addresses) *client.Client {
	t.Helper()
	return newClientOf(t, a, "")
}

// newClientOf calls any of the coordinators with a token.
func newClientOf(t *testing.T, a *addresses, token string) *client.Client {
	t.Helper()
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	transport := &http.Transport{
		DisableKeepAlives: true, // each request may go to another one
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			address, err := a.any()
			if err != nil {
				return nil, &net.OpError{Op: "dial", Net: network, Err: err}
			}
			return dialer.DialContext(ctx, network, address)
		},
	}
	c, err := client.New("http://localhost", client.Options{HTTPClient: &http.Client{Transport: transport}, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// addressIn reads the address of the API in the line that announces it.
func addressIn(line string) (string, error) {
	_, after, _ := strings.Cut(line, "http://")
	u, err := url.Parse("http://" + strings.TrimSpace(after))
	if err != nil || u.Port() == "" {
		return "", fmt.Errorf("%q names no address", line)
	}
	return u.Host, nil
}

// alive tells whether a process has not ended, waited for or not.
func alive(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) && syscall.Kill(pid, 0) == nil
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// postgresLog returns the PostgreSQL log.
func (w *world) postgresLog(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Clean(w.cluster.Postgres.LogPath()))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
