package bus_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/sagacity-tx/sagacity/internal/bus"
)

func TestMain(m *testing.M) {
	// A stream that is created while its server shuts down keeps these two goroutines of the server.
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

// patience bounds every wait of a test.
const patience = 20 * time.Second

// natsServer is a server of one test, which may be stopped, wiped and started again on its port.
type natsServer struct {
	t    *testing.T
	dir  string
	port int
	srv  *server.Server
}

func startServer(t *testing.T) *natsServer {
	t.Helper()
	s := &natsServer{t: t, dir: t.TempDir(), port: server.RANDOM_PORT}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *natsServer) start() {
	s.t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: s.port, JetStream: true, StoreDir: s.dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	srv.Start()
	if !srv.ReadyForConnections(patience) {
		s.t.Fatal("the NATS server does not start")
	}
	addr, ok := srv.Addr().(*net.TCPAddr)
	if !ok {
		s.t.Fatalf("the NATS server listens on %v", srv.Addr())
	}
	s.srv, s.port = srv, addr.Port
}

func (s *natsServer) stop() {
	if s.srv != nil {
		s.srv.Shutdown()
		s.srv.WaitForShutdown()
		s.srv = nil
	}
}

// restartEmpty is the loss of the whole JetStream store.
func (s *natsServer) restartEmpty() {
	s.t.Helper()
	s.stop()
	if err := os.RemoveAll(s.dir); err != nil {
		s.t.Fatal(err)
	}
	s.start()
}

func (s *natsServer) url() string { return "nats://127.0.0.1:" + itoa(s.port) }

func itoa(n int) string {
	return (&net.TCPAddr{Port: n}).String()[1:]
}

// connect returns a bus on the server with its streams made.
func (s *natsServer) connect(c bus.Config) *bus.Bus {
	s.t.Helper()
	b := s.connectOnly(c)
	if err := b.EnsureStreams(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return b
}

func (s *natsServer) connectOnly(c bus.Config) *bus.Bus {
	s.t.Helper()
	c.URL = s.url()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	b, err := bus.Connect(s.t.Context(), c)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(b.Close)
	return b
}

// jetStream returns a second way to the server, for looking and for breaking things.
func (s *natsServer) jetStream() (*nats.Conn, jetstream.JetStream) {
	s.t.Helper()
	nc, err := nats.Connect(s.url(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		s.t.Fatal(err)
	}
	return nc, js
}

// publish publishes messages and returns the result of each.
func publish(t *testing.T, b *bus.Bus, msgs ...bus.Message) []error {
	t.Helper()
	type result struct {
		i   int
		err error
	}
	results := make(chan result, len(msgs)+1)
	b.Publish(t.Context(), msgs, func(i int, err error) { results <- result{i, err} })
	errs := make([]error, len(msgs))
	for range msgs {
		r := receive(t, results)
		errs[r.i] = r.err
	}
	return errs
}

// publishUntilStored tries until a PubAck comes, as the outbox does.
func publishUntilStored(t *testing.T, b *bus.Bus, msgs ...bus.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := errors.Join(publish(t, b, msgs...)...)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not stored: %v", err)
		}
	}
}

func receive[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v := <-ch:
		return v
	case <-timer.C:
		t.Fatal("nothing came in time")
		panic("unreachable")
	}
}

func command(participant, id string) bus.Message {
	return bus.Message{
		Subject: "saga.cmd." + participant,
		Header:  map[string][]string{"Nats-Msg-Id": {id}},
		Data:    []byte(id),
	}
}
