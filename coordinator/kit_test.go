package coordinator_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/internal/bus"
	dbschema "github.com/sagacity-tx/sagacity/internal/schema"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

func TestMain(m *testing.M) { testdb.Main(m) }

var schema = testdb.Template{Name: "coordinator", Migrate: func(ctx context.Context, dsn string) error {
	_, err := dbschema.Up(ctx, dsn)
	return err
}}

var quietLog = slog.New(slog.DiscardHandler)

var caller = coordinator.Caller{Tenant: "acme", Client: "shop"}

// world is a database, a NATS prefix and the coordinators that a test starts on them.
type world struct {
	t      *testing.T
	pool   *pgxpool.Pool
	nc     *nats.Conn
	prefix string
	log    *slog.Logger
	sender *bus.Bus // of the test itself; made when first used
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, pool: testdb.New(t, schema), nc: testdb.NATS(t), prefix: testdb.Prefix(t), log: quietLog}
}

// unstarted makes a coordinator and its relay.
func (w *world) unstarted(options ...func(*coordinator.Config)) (*coordinator.Coordinator, *outbox.Relay) {
	w.t.Helper()
	b := w.bus()
	relay, err := outbox.NewRelay(outbox.Config{Pool: w.pool, Publisher: b, Logger: w.log})
	if err != nil {
		w.t.Fatal(err)
	}
	cfg := coordinator.Config{
		Pool: w.pool, Bus: b, Relay: relay, Log: w.log, Lanes: 2,
		Flow: flow.Policy{RetryFloor: 1000}, // many lose replies on purpose, and have little traffic
	}
	for _, o := range options {
		o(&cfg)
	}
	c, err := coordinator.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return c, relay
}

// coordinator starts a coordinator that stops with the test, or when the returned function is called.
func (w *world) coordinator(options ...func(*coordinator.Config)) (*coordinator.Coordinator, func()) {
	w.t.Helper()
	c, relay := w.unstarted(options...)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := relay.Run(ctx); err != nil && ctx.Err() == nil {
			w.t.Errorf("relay: %v", err)
		}
	})
	running.Go(func() {
		if err := c.Run(ctx); err != nil {
			w.t.Errorf("coordinator: %v", err)
		}
	})
	stop := sync.OnceFunc(func() { cancel(); running.Wait() })
	w.t.Cleanup(stop)
	return c, stop
}

func (w *world) bus() *bus.Bus {
	w.t.Helper()
	b, err := bus.New(w.nc, bus.Config{Prefix: w.prefix, Logger: w.log})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(b.Close)
	if err := b.EnsureStreams(w.ctx(10 * time.Second)); err != nil {
		w.t.Fatal(err)
	}
	return b
}

// ctx ends after a while. A limit of seconds only keeps a test from hanging: a busy machine has more time.
func (w *world) ctx(limit time.Duration) context.Context {
	if limit >= time.Second {
		limit *= 4
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	w.t.Cleanup(cancel)
	return ctx
}

// submit starts a transaction of the definition with the same input for every step.
func (w *world) submit(c *coordinator.Coordinator, def *saga.Definition, requestID string) saga.ID {
	w.t.Helper()
	s, err := c.Submit(w.ctx(20*time.Second), coordinator.SubmitParams{Caller: caller, RequestID: requestID, Body: body(def)})
	if err != nil {
		w.t.Fatal(err)
	}
	return s.ID
}

func body(def *saga.Definition) []byte { return bodyWith(def, nil) }

// bodyWith is a submission with more members.
func bodyWith(def *saga.Definition, more map[string]any) []byte {
	members := map[string]any{"definition": json.RawMessage(def.JSON()), "input": map[string]int{"cents": 100}}
	maps.Copy(members, more)
	b, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return b
}

// wait returns the transaction once it has ended, and fails the test if it does not.
func (w *world) wait(c *coordinator.Coordinator, id saga.ID) coordinator.View {
	w.t.Helper()
	v, err := c.Wait(w.ctx(30*time.Second), caller, id)
	if err != nil {
		w.t.Fatal(err)
	}
	if !v.Status.Terminal() {
		w.t.Fatalf("transaction %s is still %s: %+v", id, v.Status, v)
	}
	return v
}

// until polls a condition that no signal announces.
func (w *world) until(what string, condition func() bool) {
	w.t.Helper()
	deadline := time.After(2 * time.Minute)
	for !condition() {
		select {
		case <-deadline:
			w.t.Fatalf("never happened: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// count returns the one number that a query selects.
func (w *world) count(sql string, args ...any) int {
	w.t.Helper()
	var n int
	if err := w.pool.QueryRow(w.ctx(10*time.Second), sql, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// participant is a participant in memory, by the rules of saga.Admit, that counts its effects.
type participant struct {
	w    *world
	name string
	bus  *bus.Bus

	mu      sync.Mutex
	rows    map[string]saga.BarrierRow
	effects map[string]int // by operation key
	seen    []saga.Command
	// handle is the user code; nil means done.
	handle func(c saga.Command) saga.Ran
	// drop loses a reply after the effect.
	drop func(c saga.Command, r saga.Reply) bool
}

// participant starts a participant that stops with the test, or when the returned function is called.
func (w *world) participant(name string, handle func(saga.Command) saga.Ran) (*participant, func()) {
	w.t.Helper()
	p := &participant{
		w: w, name: name, bus: w.bus(), handle: handle,
		rows: make(map[string]saga.BarrierRow), effects: make(map[string]int),
	}
	stop := p.start()
	return p, stop
}

func (p *participant) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		err := p.bus.Consume(ctx, bus.Consumer{
			Stream: bus.Commands, Durable: p.name, FilterSubjects: []string{wire.CommandSubject(p.w.prefix, p.name)},
		}, func(d *bus.Delivery) { p.take(ctx, d) })
		if err != nil && ctx.Err() == nil {
			p.w.t.Errorf("participant %s: %v", p.name, err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	p.w.t.Cleanup(stop)
	return stop
}

func (p *participant) take(ctx context.Context, d *bus.Delivery) {
	c, err := wire.DecodeCommand(d.Message)
	if err != nil {
		p.w.t.Errorf("participant %s: %v", p.name, err)
		_ = d.Term("undecodable")
		return
	}
	r := p.answer(c)
	p.mu.Lock()
	drop := p.drop != nil && p.drop(c, r)
	p.mu.Unlock()
	if drop {
		_ = d.Ack()
		return
	}
	m, err := wire.EncodeReply(r, c.ReplyTo)
	if err != nil {
		p.w.t.Errorf("participant %s: %v", p.name, err)
		return
	}
	p.bus.Publish(ctx, []bus.Message{m}, func(_ int, err error) {
		if err != nil {
			d.Leave()
			return
		}
		_ = d.Ack()
	})
}

// answer is one local transaction of the participant.
func (p *participant) answer(c saga.Command) saga.Reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, c)
	key := c.Transaction.String() + "/" + c.Step
	v, next := saga.Admit(p.rows[key], c, time.Now())
	if v.Do == saga.DoRun {
		ran := saga.Ran{Outcome: saga.OutcomeDone, Result: saga.Payload{Data: []byte(`{"by":"` + p.name + `"}`)}}
		if c.Phase != saga.PhaseTry {
			ran.Result = saga.Payload{}
		}
		if p.handle != nil {
			ran = p.handle(c)
		}
		if ran.Outcome == saga.OutcomeDone {
			p.effects[c.Key().String()]++
		}
		v, next = saga.Conclude(p.rows[key], c, ran)
	}
	if v.Store {
		p.rows[key] = next
	}
	r := v.Reply
	r.Participant = p.name
	return r
}

// ran counts the effects of one phase of a step.
func (p *participant) ran(id saga.ID, step string, phase saga.Phase) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.effects[saga.OperationKey{Tenant: caller.Tenant, Transaction: id, Step: step, Phase: phase}.String()]
}

// expectEffects checks how often the try and the settling phase of a step took effect.
func (p *participant) expectEffects(id saga.ID, step string, try, settle int, phase saga.Phase) {
	p.w.t.Helper()
	if got := p.ran(id, step, saga.PhaseTry); got != try {
		p.w.t.Errorf("%s: try took effect %d times, want %d", step, got, try)
	}
	if got := p.ran(id, step, phase); got != settle {
		p.w.t.Errorf("%s: %s took effect %d times, want %d", step, phase, got, settle)
	}
}

func random(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
