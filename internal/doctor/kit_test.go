package doctor_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/doctor"
	dbschema "github.com/sagacity-tx/sagacity/internal/schema"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

func TestMain(m *testing.M) { testdb.Main(m) }

var (
	quiet  = slog.New(slog.DiscardHandler)
	caller = coordinator.Caller{Tenant: "default", Client: "test"}
)

// lived returns a database in which a coordinator and a bank have worked together, and stopped: every kind of end,
// one transaction that waits for a person, and some that are under way. The bank is in the same database: their
// schemas have nothing in common.
func lived(t *testing.T) testdb.Template {
	return testdb.Template{Name: "lived", Migrate: func(ctx context.Context, dsn string) error {
		pool, err := pgxpool.New(ctx, dsn)
		if err != nil {
			return err
		}
		defer pool.Close()
		if err := migrateAll(ctx, dsn, pool); err != nil {
			return err
		}
		w := &world{t: t, ctx: ctx, pool: pool}
		stop, err := w.start()
		if err != nil {
			return err
		}
		defer stop()
		return w.live()
	}}
}

func migrateAll(ctx context.Context, dsn string, pool *pgxpool.Pool) error {
	if _, err := dbschema.Up(ctx, dsn); err != nil {
		return err
	}
	if err := bank.Migrate(ctx, pool); err != nil {
		return err
	}
	return bank.Seed(ctx, pool, 10_000, "alice", "bob")
}

// world is a coordinator and a bank at work.
type world struct {
	t           *testing.T
	ctx         context.Context
	pool        *pgxpool.Pool
	coordinator *coordinator.Coordinator
}

func (w *world) start() (stop func(), err error) {
	nc, prefix := testdb.NATS(w.t), testdb.Prefix(w.t)
	b, err := bus.New(nc, bus.Config{Prefix: prefix, Logger: quiet})
	if err != nil {
		return nil, err
	}
	relay, err := outbox.NewRelay(outbox.Config{Pool: w.pool, Publisher: b, Logger: quiet})
	if err != nil {
		return nil, err
	}
	if w.coordinator, err = coordinator.New(coordinator.Config{Pool: w.pool, Bus: b, Relay: relay, Log: quiet, Lanes: 1}); err != nil {
		return nil, err
	}
	p, err := bank.NewParticipant("bank", w.pool, nc, func(c *participant.Config) { c.Prefix, c.Logger, c.Concurrency = prefix, quiet, 2 })
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{relay.Run, w.coordinator.Run, p.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				w.t.Error(err)
			}
		})
	}
	return func() { cancel(); running.Wait(); b.Close() }, nil
}

// live makes one of everything.
func (w *world) live() error {
	alice, bob := bank.Move{Account: "alice", Cents: 5}, bank.Move{Account: "bob", Cents: 5}
	poor, broken := bank.Move{Account: "alice", Cents: 1_000_000}, bob
	broken.Wish.FailWhile = "down"
	if err := bank.Switch(w.ctx, w.pool, "down", true); err != nil {
		return err
	}
	patient := saga.AttemptTimeout(time.Hour)
	ends := []struct {
		def    *saga.Definition
		inputs map[string]any
	}{
		{saga.Define("transfer").TCC("take", "bank", bank.ActionDebit).TCC("give", "bank", bank.ActionCredit).MustBuild(), map[string]any{"take": alice, "give": bob}},
		{
			saga.Define("order").Saga("take", "bank", bank.ActionWithdraw).Pivot("pay", "bank", bank.ActionCharge).Retriable("send", "bank", bank.ActionPayout).MustBuild(),
			map[string]any{"take": alice, "pay": alice, "send": bob},
		},
		{saga.Define("refused").Saga("take", "bank", bank.ActionWithdraw).TCC("hold", "bank", bank.ActionDebit).MustBuild(), map[string]any{"take": alice, "hold": poor}},
		{saga.Define("pivot-refused").TCC("hold", "bank", bank.ActionDebit).Pivot("pay", "bank", bank.ActionCharge).MustBuild(), map[string]any{"hold": alice, "pay": poor}},
	}
	for i, e := range ends {
		id, err := w.submit(e.def, e.inputs, "end-"+string(rune('a'+i)), time.Time{})
		if err != nil {
			return err
		}
		if v, err := w.coordinator.Wait(w.ctx, caller, id); err != nil || !v.Status.Terminal() {
			w.t.Errorf("%s: %s, %v", e.def.Name, v.Status, err)
		}
	}
	if err := w.giveUp(broken); err != nil {
		return err
	}
	if err := w.fence(broken); err != nil {
		return err
	}
	for _, open := range []struct {
		def    *saga.Definition
		inputs map[string]any
		start  time.Time
	}{
		{saga.Define("waits").Retriable("send", "bank", bank.ActionPayout, saga.PhaseTwoAttempts(1)).MustBuild(), map[string]any{"send": broken}, time.Time{}},
		{saga.Define("later").Saga("take", "bank", bank.ActionWithdraw).MustBuild(), map[string]any{"take": alice}, time.Now().Add(time.Hour)},
		{saga.Define("silent").Saga("take", "nobody", "act", patient).MustBuild(), nil, time.Time{}},
		{saga.Define("half").TCC("hold", "bank", bank.ActionDebit, patient).Retriable("send", "nobody", "act", patient).MustBuild(), map[string]any{"hold": alice}, time.Time{}},
	} {
		if _, err := w.submit(open.def, open.inputs, "", open.start); err != nil {
			return err
		}
	}
	return w.until(`SELECT (SELECT count(*) FROM dead_letters WHERE status = 'open') = 1
	                   AND (SELECT count(*) FROM operations WHERE step = 'hold' AND phase = 'confirm' AND state = 'done') = 1
	                   AND NOT EXISTS (SELECT FROM outbox)`)
}

// giveUp makes a transaction that an operator ended.
func (w *world) giveUp(broken bank.Move) error {
	def := saga.Define("given-up").Retriable("send", "bank", bank.ActionPayout, saga.PhaseTwoAttempts(1)).MustBuild()
	id, err := w.submit(def, map[string]any{"send": broken}, "", time.Time{})
	if err != nil {
		return err
	}
	if err := w.until(`SELECT count(*) = 1 FROM dead_letters WHERE status = 'open'`); err != nil {
		return err
	}
	letters, err := w.coordinator.Admin().DeadLetters(w.ctx, dlq.Filter{TransactionID: id})
	if err != nil {
		return err
	}
	_, err = w.coordinator.Admin().Discard(w.ctx, coordinator.LetterParams{Actor: "ann", DeadLetter: letters[0].ID, Reason: "test"})
	return err
}

// fence makes a transaction that its client cancelled while its pivot was open.
func (w *world) fence(broken bank.Move) error {
	def := saga.Define("fenced").Pivot("pay", "bank", bank.ActionCharge, saga.Attempts(1000)).MustBuild()
	id, err := w.submit(def, map[string]any{"pay": broken}, "", time.Time{})
	if err != nil {
		return err
	}
	if _, err := w.coordinator.Cancel(w.ctx, caller, id, "test"); err != nil {
		return err
	}
	v, err := w.coordinator.Wait(w.ctx, caller, id)
	if err == nil && v.Status != saga.StatusCancelled {
		w.t.Errorf("a fenced transaction is %s", v.Status)
	}
	return err
}

func (w *world) submit(def *saga.Definition, inputs map[string]any, requestID string, start time.Time) (saga.ID, error) {
	members := map[string]any{"definition": json.RawMessage(def.JSON())}
	if inputs != nil {
		members["inputs"] = inputs
	}
	if !start.IsZero() {
		members["start_at"] = start.UTC()
	}
	body, err := json.Marshal(members)
	if err != nil {
		return saga.ID{}, err
	}
	s, err := w.coordinator.Submit(w.ctx, coordinator.SubmitParams{Caller: caller, RequestID: requestID, Body: body})
	return s.ID, err
}

// until waits for what nothing announces.
func (w *world) until(sql string) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		var ok bool
		if err := w.pool.QueryRow(w.ctx, sql).Scan(&ok); err != nil || ok {
			return err
		}
		select {
		case <-ticker.C:
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
	}
}

// examine runs the doctor on a database that holds everything.
func examine(t *testing.T, pool *pgxpool.Pool, options ...func(*doctor.Options)) *doctor.Report {
	t.Helper()
	o := doctor.Options{Coordinator: pool, Participants: map[string]*pgxpool.Pool{"bank": pool}, RecheckAfter: time.Millisecond}
	for _, f := range options {
		f(&o)
	}
	r, err := doctor.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// problems names the checks that found something.
func problems(r *doctor.Report) []string {
	names := []string{}
	for _, c := range r.Checks {
		if c.Status == doctor.StatusProblems {
			names = append(names, c.Name)
		}
	}
	return names
}
