package participant_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

const (
	waitTimeout = 20 * time.Second
	bankName    = "bank-a"
	tenant      = "acme"
	seedCents   = 100_000
)

var bankSchema = testdb.Template{Name: "bank", Migrate: func(ctx context.Context, dsn string) error {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	return errors.Join(bank.Migrate(ctx, pool), bank.Seed(ctx, pool, seedCents, "alice", "bob"))
}}

// kit is a bank with its database, and a coordinator that only sends and listens.
type kit struct {
	t      *testing.T
	pool   *pgxpool.Pool
	nc     *nats.Conn
	prefix string
	bus    *bus.Bus
	log    *logBuffer

	groupMax int // in TestInGroups

	mu      sync.Mutex
	got     []saga.Reply
	arrived chan struct{}
}

func newKit(t *testing.T) *kit {
	t.Helper()
	k := &kit{
		t: t, pool: testdb.New(t, bankSchema), nc: testdb.NATS(t), prefix: testdb.Prefix(t),
		log: &logBuffer{}, arrived: make(chan struct{}, 1),
	}
	if strings.HasPrefix(t.Name(), "TestInGroups/") {
		k.groupMax = groupMax
	}
	var err error
	if k.bus, err = bus.New(k.nc, bus.Config{Prefix: k.prefix, Logger: k.logger()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.bus.Close)
	if err := k.bus.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- k.bus.Consume(ctx, bus.Consumer{Stream: bus.Replies, Durable: "coordinator"}, k.receive)
	}()
	t.Cleanup(func() {
		cancel()
		if err := wait(t, "the end of the reply consumer", ended); err != nil {
			t.Errorf("replies: %v", err)
		}
	})
	return k
}

func (k *kit) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(k.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (k *kit) receive(d *bus.Delivery) {
	reply, err := wire.DecodeReply(d.Message)
	if err != nil {
		k.t.Errorf("a reply cannot be decoded: %v", err)
	}
	k.mu.Lock()
	k.got = append(k.got, reply)
	k.mu.Unlock()
	_ = d.Ack()
	select {
	case k.arrived <- struct{}{}:
	default:
	}
}

// replies returns what has come so far.
func (k *kit) replies() []saga.Reply {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]saga.Reply(nil), k.got...)
}

// until waits until the replies satisfy a condition.
func (k *kit) until(what string, ok func([]saga.Reply) bool) {
	k.t.Helper()
	timer := time.NewTimer(waitTimeout)
	defer timer.Stop()
	for !ok(k.replies()) {
		select {
		case <-k.arrived:
		case <-timer.C:
			k.t.Fatalf("waited in vain for %s; replies: %+v\nlog:\n%s", what, k.replies(), k.log)
		}
	}
}

// running is a participant that runs.
type running struct {
	t      *testing.T
	cancel context.CancelFunc
	ended  chan error
	once   sync.Once
}

// stop asks it to end and waits until it has.
func (r *running) stop() {
	r.t.Helper()
	r.once.Do(func() {
		r.cancel()
		if err := wait(r.t, "the end of the participant", r.ended); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
}

func (k *kit) config() participant.Config {
	return participant.Config{
		Name: bankName, Pool: k.pool, NATS: k.nc, Prefix: k.prefix, Concurrency: 4, Logger: k.logger(),
		AckWait: time.Second, GroupMax: k.groupMax,
	}
}

// bank returns a bank that does not run yet.
func (k *kit) bank(opts ...func(*participant.Config)) *participant.Participant {
	k.t.Helper()
	p, err := bank.NewParticipant(bankName, k.pool, k.nc, append([]func(*participant.Config){
		func(c *participant.Config) { *c = k.config() },
	}, opts...)...)
	if err != nil {
		k.t.Fatal(err)
	}
	return p
}

// new returns a participant without actions.
func (k *kit) new(opts ...func(*participant.Config)) *participant.Participant {
	k.t.Helper()
	c := k.config()
	for _, opt := range opts {
		opt(&c)
	}
	p, err := participant.New(c)
	if err != nil {
		k.t.Fatal(err)
	}
	return p
}

func (k *kit) run(p *participant.Participant) *running {
	ctx, cancel := context.WithCancel(k.t.Context())
	r := &running{t: k.t, cancel: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- p.Run(ctx) }()
	k.t.Cleanup(r.stop)
	return r
}

// command returns the first attempt of an operation of a new transaction.
func (k *kit) command(action string, kind saga.Kind, phase saga.Phase, input any) saga.Command {
	c := saga.Command{
		Verb: saga.VerbExecute, Tenant: tenant, Transaction: newID(), Step: "s", Phase: phase, Kind: kind,
		Participant: bankName, Action: action, Attempt: 1, Revision: 1,
		ReplyTo: wire.ReplySubject(k.prefix, bankName, 0),
	}
	return withInput(c, input)
}

func withInput(c saga.Command, input any) saga.Command {
	data, ok := input.(json.RawMessage)
	if !ok {
		var err error
		if data, err = json.Marshal(input); err != nil {
			panic(err)
		}
	}
	if c.Phase == saga.PhaseTry {
		return withBody(c, saga.TryBody(saga.Payload{Data: data}, nil))
	}
	return withBody(c, saga.SettleBody(saga.Payload{Data: data}, saga.Payload{}))
}

func withBody(c saga.Command, body []byte) saga.Command {
	c.Body = body
	c.ContentSHA256 = saga.ContentSHA256(c.Action, body)
	return c
}

// with returns another phase of the same step.
func with(c saga.Command, phase saga.Phase, input any) saga.Command {
	c.Phase = phase
	return withInput(c, input)
}

func again(c saga.Command) saga.Command {
	c.Attempt++
	return c
}

// send publishes commands.
func (k *kit) send(cmds ...saga.Command) {
	k.t.Helper()
	msgs := make([]bus.Message, len(cmds))
	for i, c := range cmds {
		var err error
		if msgs[i], err = wire.EncodeCommand(k.prefix, c); err != nil {
			k.t.Fatal(err)
		}
	}
	k.sendRaw(msgs...)
}

func (k *kit) sendRaw(msgs ...bus.Message) {
	k.t.Helper()
	acks := make(chan error, len(msgs))
	k.bus.Publish(k.t.Context(), msgs, func(_ int, err error) { acks <- err })
	for range msgs {
		if err := wait(k.t, "a PubAck", acks); err != nil {
			k.t.Fatal(err)
		}
	}
}

// reply waits for the reply to a command.
func (k *kit) reply(c saga.Command) (reply saga.Reply) {
	k.t.Helper()
	k.until("the reply to "+c.Key().String(), func(all []saga.Reply) bool {
		for _, r := range all {
			if r.Key() == c.Key() && r.Attempt == c.Attempt && r.Verb == c.Verb {
				reply = r
				return true
			}
		}
		return false
	})
	return reply
}

// do sends a command and waits for its reply.
func (k *kit) do(c saga.Command) saga.Reply {
	k.t.Helper()
	k.send(c)
	return k.reply(c)
}

// want checks a reply's outcome and code.
func want(t *testing.T, r saga.Reply, outcome saga.Outcome, code string) {
	t.Helper()
	if r.Outcome != outcome || r.Code != code {
		t.Errorf("%s answered %s %q (%s), want %s %q", r.Key(), r.Outcome, r.Code, r.Reason, outcome, code)
	}
}

func (k *kit) runs(c saga.Command) int {
	k.t.Helper()
	n, err := bank.Runs(k.t.Context(), k.pool, c.Key())
	if err != nil {
		k.t.Fatal(err)
	}
	return n
}

func (k *kit) wantRuns(c saga.Command, n int) {
	k.t.Helper()
	if got := k.runs(c); got != n {
		k.t.Errorf("%s took effect %d times, want %d", c.Key(), got, n)
	}
}

// commandsLeft waits until the command stream holds n messages.
func (k *kit) commandsLeft(n int) {
	k.t.Helper()
	poll(k.t, "the command stream is settled", func() bool {
		messages, err := k.bus.Messages(k.t.Context(), bus.Commands)
		return err == nil && messages == n
	})
}

// poll waits for what nothing announces.
func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	timer := time.NewTimer(waitTimeout)
	defer timer.Stop()
	for !ok() {
		select {
		case <-ticker.C:
		case <-timer.C:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func wait[T any](t *testing.T, what string, ch <-chan T) (v T) {
	t.Helper()
	timer := time.NewTimer(waitTimeout)
	defer timer.Stop()
	select {
	case v = <-ch:
	case <-timer.C:
		t.Fatalf("waited in vain for %s", what)
	}
	return v
}

func newID() saga.ID {
	var id saga.ID
	_, _ = rand.Read(id[:])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli())<<16)
	copy(id[:6], ms[:6])
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id
}

// logBuffer holds a test's log.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
