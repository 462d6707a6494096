package coordinator_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/devcluster"
	"github.com/sagacity-tx/sagacity/saga"
)

// Helpers of the tests that break things.

// steps are those that define makes.
var steps = []string{"s1", "s2", "s3"}

// ownCluster makes a world on a PostgreSQL and a NATS server of its own, to be stopped and broken.
func ownCluster(t *testing.T) (*world, *devcluster.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := devcluster.Start(ctx, devcluster.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	dsn, err := c.CreateDatabase(ctx, "coordinator")
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Migrate(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(c.NATSURL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	w := &world{t: t, pool: newPool(t, dsn), nc: nc, prefix: "saga", log: quietLog}
	w.recordVersions()
	return w, c
}

func newPool(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 10
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// recordVersions makes the database keep every version that a transaction row ever had.
func (w *world) recordVersions() {
	w.t.Helper()
	_, err := w.pool.Exec(w.ctx(10*time.Second), `
		CREATE TABLE versions (id uuid, version bigint, status text);
		CREATE FUNCTION record_version() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN INSERT INTO versions VALUES (NEW.id, NEW.version, NEW.status); RETURN NULL; END';
		CREATE TRIGGER record_insert AFTER INSERT ON transactions FOR EACH ROW EXECUTE FUNCTION record_version();
		CREATE TRIGGER record_update AFTER UPDATE ON transactions FOR EACH ROW
			WHEN (OLD.version <> NEW.version OR OLD.status <> NEW.status) EXECUTE FUNCTION record_version()`)
	if err != nil {
		w.t.Fatal(err)
	}
}

// expectSound checks what must hold in every database after every fault: versions rise by one per write, one
// decision each, terminal states absorbing (I-7), no incident, no dead letter, nothing left in the outbox.
func (w *world) expectSound(transactions int) {
	w.t.Helper()
	for what, sql := range map[string]string{
		"transactions whose versions are not 1, 2, 3 … (I-7)": `SELECT count(*) FROM (
			SELECT t.id FROM transactions t JOIN versions v USING (id) GROUP BY t.id, t.version
			HAVING count(*) <> t.version OR count(DISTINCT v.version) <> t.version OR max(v.version) <> t.version) bad`,
		"transactions that changed their direction or went on after their end (I-7)": `SELECT count(*) FROM (
			SELECT id FROM versions GROUP BY id
			HAVING bool_or(status IN ('confirming', 'committed')) AND bool_or(status IN ('cancelling', 'cancelled'))
			    OR count(*) FILTER (WHERE status IN ('committed', 'cancelled', 'resolved')) > 1) bad`,
		"ended transactions with a timer or unended ones without": `SELECT count(*) FROM transactions
			WHERE (finished_at IS NULL) <> (wake_at IS NOT NULL)`,
		"incidents":            `SELECT count(*) FROM incidents`,
		"dead letters":         `SELECT count(*) FROM dead_letters`,
		"keys without a row":   `SELECT count(*) FROM requests r WHERE NOT EXISTS (SELECT FROM transactions t WHERE t.id = r.transaction_id)`,
		"transactions unended": `SELECT count(*) FROM transactions WHERE finished_at IS NULL AND start_at IS NULL`,
	} {
		if n := w.count(sql); n != 0 {
			w.t.Errorf("%d %s", n, what)
		}
	}
	if n := w.count(`SELECT count(*) FROM transactions`); n != transactions {
		w.t.Errorf("%d transactions, want %d", n, transactions)
	}
	w.until("the outbox is empty", func() bool { return w.count(`SELECT count(*) FROM outbox`) == 0 })
}

// logOf returns a function that returns what a PostgreSQL server has logged since.
func logOf(t *testing.T, c *devcluster.Cluster) func() string {
	t.Helper()
	info, err := os.Stat(c.Postgres.LogPath())
	if err != nil {
		t.Fatal(err)
	}
	return func() string {
		all, err := os.ReadFile(c.Postgres.LogPath())
		if err != nil {
			t.Fatal(err)
		}
		return string(all[min(int(info.Size()), len(all)):])
	}
}

// expectNoDeadlock fails the test if transactions of PostgreSQL waited for each other in a circle (C9).
func expectNoDeadlock(t *testing.T, log string) {
	t.Helper()
	if at := strings.Index(log, "deadlock detected"); at >= 0 {
		t.Errorf("PostgreSQL had to end a deadlock:\n%s", log[at:min(at+2000, len(log))])
	}
}

// done is the reply of a participant that did what it was asked to.
func done(id saga.ID, step string, phase saga.Phase) saga.Reply {
	r := saga.Reply{
		Verb: saga.VerbExecute, Tenant: caller.Tenant, Transaction: id, Step: step, Phase: phase, Participant: "stock",
		Attempt: 1, Revision: 1, Outcome: saga.OutcomeDone,
	}
	if phase == saga.PhaseTry {
		r.Result = saga.Payload{Data: []byte(`{}`)}
	}
	return r
}

func fault(r saga.Reply, kind string) saga.Reply {
	r.Outcome, r.Code, r.Result = saga.OutcomeFault, kind, saga.Payload{}
	return r
}

// get returns the stored transaction.
func (w *world) get(c *coordinator.Coordinator, id saga.ID) coordinator.View {
	w.t.Helper()
	v, err := c.Get(w.ctx(10*time.Second), caller, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// hold executes a statement that takes a lock, and keeps it until the returned function is called.
func (w *world) hold(statement string) (release func()) {
	w.t.Helper()
	tx, err := w.pool.Begin(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	release = sync.OnceFunc(func() { _ = tx.Rollback(context.Background()) })
	w.t.Cleanup(release)
	if _, err := tx.Exec(w.ctx(10*time.Second), statement); err != nil {
		w.t.Fatal(err)
	}
	return release
}

// untilBlocked waits until so many lanes wait for a lock in the middle of a commit.
func (w *world) untilBlocked(lanes int) {
	w.t.Helper()
	w.until("lanes are blocked", func() bool {
		return w.count(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query NOT LIKE '%SKIP LOCKED%'`) == lanes
	})
}

// newID makes a transaction id as a client does.
func newID(t *testing.T) saga.ID {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return saga.ID(id)
}

func noTimers(cfg *coordinator.Config) { cfg.TimerInterval = time.Hour }

func filterOf(id saga.ID) dlq.Filter { return dlq.Filter{TransactionID: id} }
