package gateway_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/examples/gateway"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

func TestMain(m *testing.M) { testdb.Main(m) }

const (
	name           = "payments"
	waitTimeout    = 30 * time.Second
	handlerTimeout = time.Second
	lease          = handlerTimeout + 200*time.Millisecond // it has to pass in most tests
)

var schema = testdb.Template{Name: "payments", Migrate: func(ctx context.Context, dsn string) error {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	return participant.Migrate(ctx, pool)
}}

// kit is a gateway, a participant that calls it, and a coordinator that only sends and listens.
type kit struct {
	t       *testing.T
	pool    *pgxpool.Pool
	gateway *gateway.Gateway
	server  *httptest.Server
	prefix  string
	bus     *bus.Bus
	p       *participant.Participant

	mu      sync.Mutex
	got     map[string]saga.Reply
	arrived chan struct{}
}

func newKit(t *testing.T, g *gateway.Gateway) *kit {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	k := &kit{
		t: t, pool: testdb.New(t, schema), gateway: g, server: httptest.NewServer(g), prefix: testdb.Prefix(t),
		got: map[string]saga.Reply{}, arrived: make(chan struct{}, 1),
	}
	t.Cleanup(k.server.Close)
	nc := testdb.NATS(t)
	var err error
	if k.bus, err = bus.New(nc, bus.Config{Prefix: k.prefix, Logger: log}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.bus.Close)
	if err := k.bus.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.p, err = participant.New(participant.Config{
		Name: name, Pool: k.pool, NATS: nc, Prefix: k.prefix, Concurrency: 2, HandlerTimeout: handlerTimeout, Logger: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	k.background("replies", func(ctx context.Context) error {
		return k.bus.Consume(ctx, bus.Consumer{Stream: bus.Replies, Durable: "coordinator"}, k.receive)
	})
	return k
}

func (k *kit) payments() gateway.Payments {
	return gateway.Payments{URL: k.server.URL, HTTP: k.server.Client()}
}

// serve runs the participant with the action "charge".
func (k *kit) serve(h participant.Handler) {
	participant.Handle(k.p, "charge", h)
	k.background("participant", k.p.Run)
}

func (k *kit) background(what string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(k.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	k.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			k.t.Errorf("%s: %v", what, err)
		}
	})
}

func (k *kit) receive(d *bus.Delivery) {
	reply, err := wire.DecodeReply(d.Message)
	if err != nil {
		k.t.Errorf("a reply cannot be decoded: %v", err)
	}
	k.mu.Lock()
	k.got[answered(reply.Key(), reply.Attempt)] = reply
	k.mu.Unlock()
	_ = d.Ack()
	select {
	case k.arrived <- struct{}{}:
	default:
	}
}

func answered(key saga.OperationKey, attempt int) string {
	return key.String() + "#" + string(rune('0'+attempt))
}

// step is one step of a transaction, and what was sent of it.
type step struct {
	k       *kit
	id      saga.ID
	kind    saga.Kind
	charge  gateway.Charge
	attempt map[saga.Phase]int
}

func (k *kit) step(kind saga.Kind, c gateway.Charge) *step {
	var id saga.ID
	_, _ = rand.Read(id[:])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli())<<16)
	copy(id[:6], ms[:6])
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return &step{k: k, id: id, kind: kind, charge: c, attempt: map[saga.Phase]int{}}
}

func (s *step) key(phase saga.Phase) saga.OperationKey {
	return saga.OperationKey{Tenant: "acme", Transaction: s.id, Step: "pay", Phase: phase}
}

// send sends the next attempt of a phase and waits for its reply.
func (s *step) send(phase saga.Phase) saga.Reply {
	k := s.k
	k.t.Helper()
	s.attempt[phase]++
	input, err := json.Marshal(s.charge)
	if err != nil {
		k.t.Fatal(err)
	}
	c := saga.Command{
		Verb: saga.VerbExecute, Tenant: "acme", Transaction: s.id, Step: "pay", Phase: phase, Kind: s.kind, Participant: name,
		Action: "charge", Attempt: s.attempt[phase], Revision: 1, ReplyTo: wire.ReplySubject(k.prefix, name, 0),
		Body: saga.SettleBody(saga.Payload{Data: input}, saga.Payload{}), // S2.5: a cancel does not know what the try returned
	}
	if phase == saga.PhaseTry {
		c.Body = saga.TryBody(saga.Payload{Data: input}, nil)
	}
	c.ContentSHA256 = saga.ContentSHA256(c.Action, c.Body)
	m, err := wire.EncodeCommand(k.prefix, c)
	if err != nil {
		k.t.Fatal(err)
	}
	ack := make(chan error, 1)
	k.bus.Publish(k.t.Context(), []bus.Message{m}, func(_ int, err error) { ack <- err })
	if err := <-ack; err != nil {
		k.t.Fatal(err)
	}
	timer := time.NewTimer(waitTimeout)
	defer timer.Stop()
	for {
		k.mu.Lock()
		reply, ok := k.got[answered(c.Key(), c.Attempt)]
		k.mu.Unlock()
		if ok {
			return reply
		}
		select {
		case <-k.arrived:
		case <-timer.C:
			k.t.Fatalf("no reply to %s", c.Key())
		}
	}
}

// end sends attempts of a phase, as patiently as the replies ask for, until one ends it.
func (s *step) end(phase saga.Phase) saga.Reply {
	s.k.t.Helper()
	for range 9 {
		r := s.send(phase)
		if r.Outcome != saga.OutcomeRetry && r.Outcome != saga.OutcomeInProgress {
			return r
		}
		wait(r.RetryAfter)
	}
	s.k.t.Fatalf("the %s does not end", phase)
	return saga.Reply{}
}

// wait lets a lease pass: the time itself is what is waited for.
func wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

func (s *step) want(r saga.Reply, outcome saga.Outcome, code string) {
	s.k.t.Helper()
	if r.Outcome != outcome || r.Code != code {
		s.k.t.Errorf("%s answered %s %q (%s), want %s %q", r.Key(), r.Outcome, r.Code, r.Reason, outcome, code)
	}
}

// wantEffects checks what the gateway did for the step.
func (s *step) wantEffects(charged, refunded int) {
	s.k.t.Helper()
	c, r := s.k.gateway.Effects(s.key(saga.PhaseTry).String())
	if c != charged || r != refunded {
		s.k.t.Errorf("charged %d times and refunded %d times, want %d and %d", c, r, charged, refunded)
	}
}
