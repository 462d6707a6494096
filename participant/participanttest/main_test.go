package participanttest_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/participant/participanttest"
	"github.com/sagacity-tx/sagacity/saga"
)

func TestMain(m *testing.M) { testdb.Main(m) }

const seedCents = 1_000_000

// bankDatabase returns a database with a bank; alter changes its barrier.
func bankDatabase(t *testing.T, alter ...func(string) (string, error)) *pgxpool.Pool {
	t.Helper()
	pool := testdb.New(t, testdb.Template{})
	if err := errors.Join(bank.Migrate(t.Context(), pool, alter...), bank.Seed(t.Context(), pool, seedCents, "alice")); err != nil {
		t.Fatal(err)
	}
	return pool
}

// process is a participant that runs within the test and can be restarted. Each life has a connection of its own,
// which is cut at its end, as by kill.
type process struct {
	t    *testing.T
	make func(*nats.Conn) *participant.Participant
	conn *nats.Conn

	mu     sync.Mutex
	cancel context.CancelFunc
	ended  chan error
}

// start runs a participant, one for each life, until the end of the test.
func start(t *testing.T, makeOne func(*nats.Conn) *participant.Participant) *process {
	t.Helper()
	p := &process{t: t, make: makeOne}
	if err := p.begin(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.end(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *process) begin() (err error) {
	if p.conn, err = nats.Connect(testdb.Cluster(p.t).NATSURL()); err != nil {
		return err
	}
	one := p.make(p.conn)
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.ended = cancel, make(chan error, 1)
	go func() { p.ended <- one.Run(ctx) }()
	return nil
}

func (p *process) end() error {
	p.cancel()
	defer p.conn.Close()
	return <-p.ended
}

// restart is for Config.Restart.
func (p *process) restart(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.end(); err != nil {
		return err
	}
	return p.begin()
}

// rough makes a participant that leaves what it has in hand when it is stopped.
func rough(prefix string) func(*participant.Config) {
	return func(c *participant.Config) {
		c.Prefix, c.Concurrency, c.Logger = prefix, 8, slog.New(slog.DiscardHandler)
		c.DrainTimeout, c.HandlerTimeout = 1, 2*time.Second // the lease of an external effect is a little longer
	}
}

func newBank(t *testing.T, pool *pgxpool.Pool, nc *nats.Conn, prefix string) *participant.Participant {
	t.Helper()
	p, err := bank.NewParticipant("bank", pool, nc, rough(prefix))
	if err != nil {
		t.Error(err)
	}
	return p
}

// bankKinds are the actions of the bank; those with bank.ExternalPrefix before the name are of the same kind.
var bankKinds = map[string]saga.Kind{
	bank.ActionDebit: saga.KindTCC, bank.ActionCredit: saga.KindTCC,
	bank.ActionWithdraw: saga.KindSaga, bank.ActionDeposit: saga.KindSaga,
	bank.ActionCharge: saga.KindPivot, bank.ActionGrant: saga.KindPivot,
	bank.ActionPayout: saga.KindRetriable, bank.ActionCollect: saga.KindRetriable,
}

func move(w bank.Wish) func(int) []byte {
	return func(n int) []byte { return input(bank.Move{Account: "alice", Cents: int64(n%7) + 1, Wish: w}) }
}

// bankAction returns an action of the bank with all that the suite can use.
func bankAction(pool *pgxpool.Pool, name string) participanttest.Action {
	kind := bankKinds[strings.TrimPrefix(name, bank.ExternalPrefix)]
	return participanttest.Action{
		Name: name, Kind: kind,
		Input:    move(bank.Wish{}),
		Refusing: move(bank.Wish{Refuse: "no"}),
		Failing:  move(bank.Wish{FailTimes: 1}),
		Effects: func(ctx context.Context, c participanttest.Case) (participanttest.Effect, error) {
			var tries, confirms, cancels int
			err := pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE phase = 'try'), count(*) FILTER (WHERE phase = 'confirm'),
				count(*) FILTER (WHERE phase = 'cancel') FROM bank.effects WHERE transaction_id = $1`, [16]byte(c.Transaction)).Scan(&tries, &confirms, &cancels)
			return effectOf(kind, tries, confirms, cancels), err
		},
	}
}

func effectOf(kind saga.Kind, tries, confirms, cancels int) participanttest.Effect {
	if kind == saga.KindTCC {
		return participanttest.Effect{Held: tries - confirms - cancels, Final: confirms}
	}
	return participanttest.Effect{Final: tries - cancels}
}
