package coordinator_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/coordinator/token"
	"github.com/sagacity-tx/sagacity/internal/pgproxy"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	sdk "github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

// The experiments X1 to X4: a client, the API, a coordinator, and a participant of the SDK whose effects are rows of its
// own database. Something breaks, the client asks again, and the rows are counted.
func TestExperiments(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]pgproxy.Cut{
		"before commit": pgproxy.Before, "after commit": pgproxy.After, "in the middle of the answer to the commit": pgproxy.Middle,
	} {
		t.Run("X1/database connection cut "+name, func(t *testing.T) {
			t.Parallel()
			x := newExperiment(t)
			x.cutCommit(cut)
			first := x.post(x.client(), "k", x.body)
			if x.cut.Load() != 0 {
				t.Fatal("the cut never happened")
			}
			first.expect(http.StatusAccepted)
			x.expectReplayed("k", first.body)
			x.expectEffects(1)
		})
		t.Run("X1/database connection cut "+name+", and the response lost", func(t *testing.T) {
			t.Parallel()
			x := newExperiment(t)
			x.cutCommit(cut)
			x.cutResponse(nothing)
			x.post(x.client(), "k", x.body).expectLost()
			x.expectReplayed("k", x.storedAnswer("k"))
			x.expectEffects(1)
		})
	}
	t.Run("X1/connection cut in the middle of the response", func(t *testing.T) {
		t.Parallel()
		x := newExperiment(t)
		x.cutResponse(half)
		x.post(x.client(), "k", x.body).expectLost()
		x.expectReplayed("k", x.storedAnswer("k"))
		x.expectEffects(1)
	})
	// The documented reason why keys exist.
	t.Run("X2/no key, first response lost", func(t *testing.T) {
		t.Parallel()
		x := newExperiment(t)
		x.cutResponse(nothing)
		x.post(x.client(), "", x.body).expectLost()
		x.post(x.client(), "", x.body).expect(http.StatusAccepted)
		x.expectEffects(2)
	})
	t.Run("X3/first response lost", func(t *testing.T) {
		t.Parallel()
		x := newExperiment(t)
		x.cutResponse(nothing)
		x.post(x.client(), "k", x.body).expectLost()
		x.expectReplayed("k", x.storedAnswer("k"))
		x.expectEffects(1)
	})
	t.Run("X3/12 concurrent", testTwelveConcurrent)
	t.Run("X3/different body", func(t *testing.T) {
		t.Parallel()
		x := newExperiment(t)
		first := x.post(x.client(), "k", x.body)
		first.expect(http.StatusAccepted)
		other := bodyWith(x.def, map[string]any{"input": map[string]int{"cents": 200}})
		refused := x.post(x.client(), "k", other)
		refused.expect(http.StatusUnprocessableEntity)
		if !strings.Contains(string(refused.body), `"key_reused"`) {
			t.Errorf("refused with %s", refused.body)
		}
		x.expectReplayed("k", first.body)
		x.expectEffects(1)
	})
	t.Run("X3/restart, then retry", func(t *testing.T) {
		t.Parallel()
		x := newExperiment(t)
		first := x.post(x.client(), "k", x.body)
		first.expect(http.StatusAccepted)
		x.stop()
		x.start()
		x.expectReplayed("k", first.body)
		x.expectEffects(1)
	})
	t.Run("X3/participant crashes after the effect and before the record", testParticipantCrash)
	t.Run("X3/coordinator stops after the effect and before its record", testCoordinatorGone)
	t.Run("X4", testApprovedReplays)
}

func testTwelveConcurrent(t *testing.T) {
	t.Parallel()
	x := newExperiment(t)
	answers := make([]response, 12)
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range answers {
		client := x.client()
		all.Go(func() {
			<-begin
			answers[i] = x.post(client, "k", x.body)
		})
	}
	close(begin)
	all.Wait()
	fresh := 0
	for _, a := range answers {
		a.expect(http.StatusAccepted)
		if !a.replayed {
			fresh++
		}
		if !bytes.Equal(a.body, answers[0].body) {
			t.Errorf("two answers to one key: %s and %s", a.body, answers[0].body)
		}
	}
	if fresh != 1 {
		t.Errorf("%d of 12 were told that it is new", fresh)
	}
	x.expectEffects(1)
}

// The effect is made and its database transaction is not committed when the participant's connection dies and the
// participant stops. Another one of its name takes over.
func testParticipantCrash(t *testing.T) {
	t.Parallel()
	x := newExperiment(t)
	var runs atomic.Int64
	crashed := make(chan struct{})
	x.book = func(ctx context.Context, tx pgx.Tx) error {
		if runs.Add(1) > 1 {
			return nil
		}
		var pid uint32
		if err := tx.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
			return err
		}
		if _, err := x.ledger.Exec(ctx, `SELECT pg_terminate_backend($1)`, pid); err != nil {
			return err
		}
		close(crashed)
		<-ctx.Done() // this process does nothing more
		return ctx.Err()
	}
	first := x.post(x.client(), "k", x.body)
	first.expect(http.StatusAccepted)
	await(t, crashed, "the handler has made its effect")
	x.restartParticipant()
	x.expectReplayed("k", first.body)
	x.expectEffects(1)
	if n := runs.Load(); n != 2 {
		t.Errorf("the handler ran %d times, want the one that crashed and one more", n)
	}
}

// The effect is committed in the participant while no coordinator runs that could record it.
func testCoordinatorGone(t *testing.T) {
	t.Parallel()
	x := newExperiment(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(entered) })
	x.book = func(ctx context.Context, _ pgx.Tx) error {
		once()
		select {
		case <-leave:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	first := x.post(x.client(), "k", x.body)
	first.expect(http.StatusAccepted)
	await(t, entered, "the handler has made its effect")
	x.stop()
	close(leave)
	x.w.until("the effect is committed", func() bool { return x.effects() == 1 })
	if n := x.w.count(`SELECT count(*) FROM transactions WHERE finished_at IS NULL`); n != 1 {
		t.Errorf("%d transactions have not ended, want the one whose coordinator has gone", n)
	}
	x.start()
	x.expectReplayed("k", first.body)
	x.expectEffects(1)
}

func await(t *testing.T, signal <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-signal:
	case <-time.After(30 * time.Second):
		t.Fatalf("never happened: %s", what)
	}
}

// How much of a response a client gets.
const (
	whole int32 = iota
	half
	nothing
)

// experiment is everything between a client and the rows that are its effects.
type experiment struct {
	t        *testing.T
	w, flaky *world
	ledger   *pgxpool.Pool // the participant's database
	def      *saga.Definition
	body     []byte
	book     func(context.Context, pgx.Tx) error // called when the effect is made; nil: nothing more; set before the first submission

	c               *coordinator.Coordinator
	stop            func() // the coordinator
	stopParticipant func()
	handler         atomic.Pointer[api.Handler]
	proxy           *httptest.Server // where clients connect
	cut             atomic.Int32     // pgproxy.Cut of the next commit of a submission
	response        atomic.Int32     // how much of the next response gets through
}

func newExperiment(t *testing.T) *experiment {
	t.Helper()
	x := &experiment{t: t}
	x.def = saga.Define("order").Saga("book", "ledger", "book", saga.AttemptTimeout(3*time.Second),
		saga.RetryBackoff(saga.StrategyExponential, 10*time.Millisecond, 100*time.Millisecond)).MustBuild()
	x.body = body(x.def)
	x.w, x.flaky = through(t, func(r pgproxy.Round) pgproxy.Cut {
		if r.Statements < 5 { // fewer than a submission has
			return pgproxy.None
		}
		return pgproxy.Cut(x.cut.Swap(int32(pgproxy.None)))
	})
	x.ledger = newPool(t, testdb.NewDSN(t, testdb.Template{}))
	if err := sdk.Migrate(x.w.ctx(time.Minute), x.ledger); err != nil {
		t.Fatal(err)
	}
	if _, err := x.ledger.Exec(x.w.ctx(time.Minute), `CREATE TABLE effects (transaction_id uuid, phase text)`); err != nil {
		t.Fatal(err)
	}
	x.startParticipant()
	x.start()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { x.handler.Load().ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	x.proxy = httptest.NewServer(x.between(server))
	t.Cleanup(x.proxy.Close)
	return x
}

// start starts a coordinator, perhaps in the place of one that was stopped.
func (x *experiment) start() {
	c, stop := x.flaky.coordinator()
	x.c, x.stop = c, stop
	x.handler.Store(api.New(api.Config{
		Coordinator: c, Log: quietLog,
		Authenticate: func(*http.Request) (api.Identity, error) {
			return api.Identity{Tenant: caller.Tenant, Client: caller.Client, Roles: token.Client}, nil
		},
	}))
	if x.cut.Load() == 0 && x.w.count(`SELECT count(*) FROM definitions`) == 0 { // stored before anything breaks, and takes no effect
		p := coordinator.RegisterParams{Actor: "ann", Body: x.def.JSON()}
		if _, _, err := c.RegisterDefinition(x.w.ctx(20*time.Second), p); err != nil {
			x.t.Fatal(err)
		}
	}
}

func (x *experiment) startParticipant() {
	p, err := sdk.New(sdk.Config{
		Name: "ledger", Pool: x.ledger, NATS: x.w.nc, Prefix: x.w.prefix, Logger: quietLog,
		AckWait: time.Second, DrainTimeout: 100 * time.Millisecond,
	})
	if err != nil {
		x.t.Fatal(err)
	}
	record := func(ctx context.Context, tx pgx.Tx, op sdk.Operation) error {
		_, err := tx.Exec(ctx, `INSERT INTO effects VALUES ($1, $2)`, op.Transaction.String(), string(op.Phase))
		return err
	}
	sdk.Handle(p, "book", sdk.Saga[sdk.None, sdk.None]{
		Try: func(ctx context.Context, tx pgx.Tx, c sdk.Call[sdk.None]) (sdk.None, error) {
			if err := record(ctx, tx, c.Operation); err != nil || x.book == nil {
				return sdk.None{}, err
			}
			return sdk.None{}, x.book(ctx, tx)
		},
		Cancel: func(ctx context.Context, tx pgx.Tx, c sdk.Settle[sdk.None, sdk.None]) error {
			return record(ctx, tx, c.Operation)
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := p.Run(ctx); err != nil && ctx.Err() == nil {
			x.t.Errorf("participant: %v", err)
		}
	})
	x.stopParticipant = sync.OnceFunc(func() { cancel(); running.Wait() })
	x.t.Cleanup(x.stopParticipant)
}

func (x *experiment) restartParticipant() {
	x.stopParticipant()
	x.startParticipant()
}

// between passes requests on, and of the response to one of them as much as cutResponse says. The API has answered it
// whole by then.
func (x *experiment) between(server *httptest.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		onward, err := http.NewRequestWithContext(r.Context(), r.Method, server.URL+r.URL.Path, r.Body)
		if err != nil {
			x.t.Error(err)
			return
		}
		onward.Header = r.Header
		answer, err := server.Client().Do(onward)
		if err != nil {
			x.t.Errorf("the API does not answer: %v", err)
			return
		}
		defer answer.Body.Close()
		all, err := httputil.DumpResponse(answer, true)
		if err != nil {
			x.t.Error(err)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			x.t.Error(err)
			return
		}
		defer conn.Close()
		switch x.response.Swap(whole) {
		case half:
			all = all[:len(all)-len(`{"id":"`)] // the client has most of the body
		case nothing:
			all = nil
		}
		_, _ = conn.Write(all)
	})
}

func (x *experiment) cutCommit(c pgproxy.Cut) { x.cut.Store(int32(c)) }
func (x *experiment) cutResponse(much int32)  { x.response.Store(much) }

// client returns a client with a connection of its own, which repeats nothing by itself.
func (x *experiment) client() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
}

// response is what a client got, or why it got nothing.
type response struct {
	t        *testing.T
	status   int
	body     []byte
	replayed bool
	err      error
}

// post submits, without a key if there is none.
func (x *experiment) post(client *http.Client, key string, body []byte) response {
	r := response{t: x.t}
	req, err := http.NewRequestWithContext(x.w.ctx(30*time.Second), http.MethodPost, x.proxy.URL+"/v1/transactions", bytes.NewReader(body))
	if err != nil {
		r.err = err
		return r
	}
	req.GetBody = nil // the transport must not repeat it
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	answer, err := client.Do(req)
	if err != nil {
		r.err = err
		return r
	}
	defer answer.Body.Close()
	r.status, r.replayed = answer.StatusCode, answer.Header.Get("Idempotent-Replayed") == "true"
	r.body, r.err = io.ReadAll(answer.Body)
	return r
}

func (r response) expect(status int) {
	r.t.Helper()
	if r.err != nil || r.status != status {
		r.t.Fatalf("got %d %s, %v, want %d", r.status, r.body, r.err, status)
	}
}

func (r response) expectLost() {
	r.t.Helper()
	if r.err == nil {
		r.t.Fatalf("the response came through: %d %s", r.status, r.body)
	}
}

// storedAnswer is the first response as the coordinator keeps it.
func (x *experiment) storedAnswer(key string) (answer []byte) {
	x.t.Helper()
	if err := x.w.pool.QueryRow(x.w.ctx(10*time.Second), `SELECT answer FROM requests WHERE request_id = $1`, key).Scan(&answer); err != nil {
		x.t.Fatal(err)
	}
	return answer
}

// expectReplayed asks again, twice: each time the first response comes, byte for byte (I2).
func (x *experiment) expectReplayed(key string, first []byte) {
	x.t.Helper()
	for range 2 {
		again := x.post(x.client(), key, x.body)
		again.expect(http.StatusAccepted)
		if !again.replayed || !bytes.Equal(again.body, first) {
			x.t.Errorf("asked again: replayed %t, %s, want %s", again.replayed, again.body, first)
		}
	}
}

func (x *experiment) effects() (n int) {
	x.t.Helper()
	if err := x.ledger.QueryRow(x.w.ctx(10*time.Second), `SELECT count(*) FROM effects`).Scan(&n); err != nil {
		x.t.Fatal(err)
	}
	return n
}

// expectEffects counts the effects when everything has ended: so many transactions, all committed, each with one.
func (x *experiment) expectEffects(want int) {
	x.t.Helper()
	x.w.until("all have ended", func() bool { return x.w.count(`SELECT count(*) FROM transactions WHERE finished_at IS NULL`) == 0 })
	if n := x.w.count(`SELECT count(*) FROM transactions WHERE status = 'committed'`); n != want {
		x.t.Errorf("%d committed transactions, want %d", n, want)
	}
	if n := x.effects(); n != want {
		x.t.Errorf("%d effects, want %d", n, want)
	}
	x.w.expectSound(want)
	x.t.Logf("%d effects of %d transactions", x.effects(), want)
}
