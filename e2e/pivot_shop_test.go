package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

// race is one transaction whose pivot is fenced, with everything that is random about it.
type race struct {
	n        int
	byClient bool          // cancelled by its client; else by its deadline
	patience time.Duration // from the submission to the deadline, beside the time that a pivot needs to start
	way      raceWay
	try      time.Duration   // when the road lets the pivot's try through, see way
	fence    time.Duration   // how long the road holds the fence
	hold     time.Duration   // how long the try stays in its transaction with its change done, see way
	end      string          // of the try's first run: done, fails or refuses
	copies   []time.Duration // of the try, each so long after the fence was let through

	reply     time.Duration // how long the road holds a reply to the try
	replyLost bool          // instead

	began   time.Time
	arrived chan struct{}  // closed when the pivot's try is on the road
	instant chan time.Time // when the client is going to cancel
	coming  chan struct{}  // closed when the fence is on the road
	passed  chan struct{}  // closed when it was let through
	first   bus.Message    // the try
	tries   atomic.Int32   // let through by the road, copies too
	fences  atomic.Int32   // the same
	ran     atomic.Bool    // the try's handler began
	met     atomic.Bool    // the fence waited for the try in the database
	id      saga.ID        // of the transaction
	ended   client.Transaction
	tooLate bool // the client was told so
	err     error
}

// raceWay is where the two are when they compete.
type raceWay string

const (
	wayApart   raceWay = "apart"          // the try is let through around the instant at which the deadline passes or the client cancels
	wayRoad    raceWay = "on the road"    // the try is held until its fence is there too
	wayHandler raceWay = "in the handler" // the handler stays until its fence was let through, and then for hold
	holdMax            = 1 * time.Second  // of wayHandler
)

func newRace(rnd *rand.Rand, n int) *race {
	ms := func(from, to int) time.Duration {
		return time.Duration(from*1000+rnd.IntN((to-from)*1000)) * time.Microsecond
	}
	r := &race{
		n: n, byClient: rnd.IntN(2) == 0, end: "done", fence: ms(0, 20), reply: ms(0, 60), replyLost: rnd.IntN(3) == 0,
		arrived: make(chan struct{}), instant: make(chan time.Time, 1), coming: make(chan struct{}), passed: make(chan struct{}),
	}
	if r.byClient {
		r.patience, r.try, r.hold = time.Minute, ms(-40, 100), ms(0, 100)
		r.way = pick(rnd, wayApart, wayRoad, wayRoad, wayHandler)
	} else {
		// A try that begins after its deadline is refused by the barrier, fence or not, so those that race have to
		// begin before, and to last: a coordinator looks every 100 ms whether deadlines have passed.
		r.patience, r.try, r.hold = ms(300, 600), ms(-250, 0), ms(0, 400)
		r.way = pick(rnd, wayApart, wayHandler)
	}
	switch r.way {
	case wayApart:
	case wayRoad:
		r.try, r.fence, r.hold = ms(0, 60), ms(0, 60), ms(0, 30)
	case wayHandler:
		r.hold = ms(0, 120)
		r.end = pick(rnd, "done", "fails", "refuses")
	}
	if rnd.IntN(4) == 0 {
		r.end = pick(rnd, "fails", "refuses")
	}
	for range rnd.IntN(3) {
		r.copies = append(r.copies, ms(0, 40))
	}
	return r
}

func (r *race) String() string {
	cause := "deadline after " + r.patience.String()
	if r.byClient {
		cause = "client cancels"
	}
	return fmt.Sprintf("race %d (%s; %s: try %s, fence %s, hold %s, %s, reply %s or lost %v, copies %v; %d tries and %d fences let through, met %v)",
		r.n, cause, r.way, r.try, r.fence, r.hold, r.end, r.reply, r.replyLost, r.copies, r.tries.Load(), r.fences.Load(), r.met.Load())
}

// shop is a participant whose commands come over a road with delays. Four instances of it take commands, like four
// processes: what meets in the database has to be in two of them.
type shop struct {
	w    *world
	name string
	pool *pgxpool.Pool
	road *road
	def  *saga.Definition

	mu     sync.Mutex
	races  []*race
	byID   map[saga.ID]*race // those whose pivot was sent
	fenced int               // races
	start  time.Duration     // moving average of the time from a submission to the pivot's try
}

// shopInput is the input of every step.
type shopInput struct {
	Race int `json:"race"`
}

// shopSchema: effects has one row for every run of a handler that was committed, without a key, so that a run
// too many shows. The trigger makes fences stay in their transaction for a moment, and tells whether somebody
// waited for one.
const shopSchema = `
CREATE SCHEMA shop;
CREATE TABLE shop.effects (transaction_id uuid NOT NULL, step text NOT NULL, phase text NOT NULL);
CREATE TABLE shop.fences_met (transaction_id uuid NOT NULL);
CREATE FUNCTION shop.linger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM pg_sleep(0.025);
    INSERT INTO shop.fences_met SELECT NEW.transaction_id FROM pg_locks
     WHERE locktype = 'transactionid' AND transactionid = pg_current_xact_id()::xid AND NOT granted LIMIT 1;
    RETURN NULL;
END $$;
CREATE TRIGGER linger AFTER INSERT ON saga.barrier FOR EACH ROW WHEN (NEW.state = 'null_cancelled') EXECUTE FUNCTION shop.linger();`

const (
	sqlShopEffect    = `INSERT INTO shop.effects (transaction_id, step, phase) VALUES ($1, $2, $3)`
	sqlSomebodyWaits = `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'transactionid' AND transactionid = pg_current_xact_id()::xid AND NOT granted)`
)

const (
	shopInstances   = 4
	shopConcurrency = 12
)

// newShop starts a shop that ends with the test. alter, if given, changes the SQL of its barrier.
func newShop(t *testing.T, w *world, name string, alter func(string) (string, error)) *shop {
	t.Helper()
	policy := policy(saga.AttemptTimeout(10 * time.Second)) // what is late here is late on purpose
	s := &shop{w: w, name: name, byID: make(map[saga.ID]*race), def: saga.Define(name).
		TCC("hold", name, "hold", policy...).
		Pivot("charge", name, "charge", policy...).
		Retriable("ship", name, "ship", policy...).MustBuild()}
	dsn, err := w.cluster.CreateDatabase(t.Context(), databaseOf(name))
	if err != nil {
		t.Fatal(err)
	}
	s.pool, err = pg.Open(t.Context(), pg.Config{DSN: dsn, ApplicationName: name, MaxConns: shopInstances*shopConcurrency + 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.pool.Close)
	s.installBarrier(t, alter)
	if _, err := s.pool.Exec(t.Context(), shopSchema); err != nil {
		t.Fatal(err)
	}
	s.road = newRoad(t, s)
	for n := range shopInstances {
		s.open(t, n)
	}
	return s
}

// open starts one instance.
func (s *shop) open(t *testing.T, n int) {
	t.Helper()
	log, err := os.Create(filepath.Join(s.w.logs, fmt.Sprintf("participant-%s-%d.log", s.name, n)))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.w.cluster.NATSURL(), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	p, err := participant.New(participant.Config{
		Name: s.name, Pool: s.pool, NATS: nc, Prefix: s.road.prefix(), Concurrency: shopConcurrency,
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	settle := func(ctx context.Context, tx pgx.Tx, c participant.Settle[shopInput, participant.None]) error {
		return s.effect(ctx, tx, c.Operation)
	}
	try := func(ctx context.Context, tx pgx.Tx, c participant.Call[shopInput]) (participant.None, error) {
		return participant.None{}, s.effect(ctx, tx, c.Operation)
	}
	participant.Handle(p, "hold", participant.TCC[shopInput, participant.None]{Try: try, Confirm: settle, Cancel: settle})
	participant.Handle(p, "charge", participant.Pivot[shopInput, participant.None]{Try: s.charge})
	participant.Handle(p, "ship", participant.Retriable[shopInput, participant.None]{Try: try})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		nc.Close()
		log.Close()
	})
}

func (s *shop) effect(ctx context.Context, tx pgx.Tx, op participant.Operation) error {
	_, err := tx.Exec(ctx, sqlShopEffect, [16]byte(op.Transaction), op.Step, string(op.Phase))
	return err
}

// charge is the pivot: its change is made, and for a while not committed.
func (s *shop) charge(ctx context.Context, tx pgx.Tx, c participant.Call[shopInput]) (none participant.None, err error) {
	r := s.raceOf(c.Input.Race)
	r.ran.Store(true)
	if err := s.effect(ctx, tx, c.Operation); err != nil {
		return none, err
	}
	s.stay(ctx, r)
	tries, fences := r.tries.Load(), r.fences.Load()
	var waits bool
	if err := tx.QueryRow(ctx, sqlSomebodyWaits).Scan(&waits); err != nil {
		return none, err
	}
	if waits && tries == 1 && fences > 0 { // it is no copy of the try that waits
		r.met.Store(true)
	}
	switch {
	case r.end == "fails" && c.Attempt == 1:
		return none, errors.New("fails at the first attempt")
	case r.end == "refuses":
		return none, participant.Refuse("not_today", nil)
	}
	return none, nil
}

// stay lets time go by in the pivot's transaction.
func (s *shop) stay(ctx context.Context, r *race) {
	hold := r.hold
	if r.way == wayHandler {
		limited, cancel := context.WithTimeout(ctx, holdMax)
		defer cancel()
		select {
		case <-r.passed:
		case <-limited.Done():
		}
		hold += min(s.startTime()/4, holdMax/2) // what comes over the road needs as long as the machine does
	}
	pause(ctx, hold)
}

func (s *shop) raceOfTransaction(id saga.ID) *race {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// meet notes that the try of a race's pivot is on the road. It may come there again.
func (s *shop) meet(r *race, id saga.ID, m bus.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[id] == nil {
		s.start += (time.Since(r.began) - s.start) / 16
		s.byID[id], r.first = r, m
		close(r.arrived)
	}
}

// startTime is what a pivot needs to start, on this machine with its load of now.
func (s *shop) startTime() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start
}

func (s *shop) raceOf(n int) *race {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.races[n]
}

// inParallel carries out what next returns, until it returns nil.
func (s *shop) inParallel(t *testing.T, workers int, next func() *race) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), endLimit)
	defer cancel()
	began := time.Now()
	var work sync.WaitGroup
	for range workers {
		work.Go(func() {
			for r := next(); r != nil && ctx.Err() == nil; r = next() {
				r.err = s.carryOut(ctx, r)
			}
		})
	}
	work.Wait()
	t.Logf("%s: %d transactions ended after %s", s.name, len(s.races), time.Since(began).Round(10*time.Millisecond))
}

func (s *shop) carryOut(ctx context.Context, r *race) error {
	r.began = time.Now()
	submitted, err := s.w.client.Submit(ctx, client.Submission{Definition: s.def, Input: shopInput{Race: r.n}, Timeout: r.patience + 2*s.startTime()},
		client.SubmitOptions{RequestID: fmt.Sprintf("%s-%d", s.name, r.n)})
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	r.id = submitted.ID
	if r.byClient {
		select {
		case <-r.arrived:
		case <-ctx.Done():
			return errors.New("the pivot's try was never sent")
		}
		const lead = 80 * time.Millisecond // more than any try is let through before
		at := time.Now().Add(lead)
		r.instant <- at
		pause(ctx, time.Until(at))
		_, err := s.w.client.Cancel(ctx, r.id, "changed my mind")
		var p *client.Problem
		if r.tooLate = errors.As(err, &p) && p.Code == client.CodeNotCancellable; err != nil && !r.tooLate {
			return fmt.Errorf("cancel: %w", err)
		}
	}
	r.ended, err = s.w.client.Wait(ctx, r.id)
	return err
}

// settle waits until the last copy of the last command has been answered.
func (s *shop) settle(t *testing.T) {
	t.Helper()
	eventually(t, time.Minute, "the road is empty and nothing waits at its end", func() bool { return s.road.empty(t) })
}
