package coordinatortest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

// Coordinator is a coordinator in memory. Its methods may be called from any goroutine.
type Coordinator struct {
	e      *engine
	server *httptest.Server
	client *client.Client
	close  func()
}

// Option changes how a coordinator works.
type Option func(*engine)

// ManualTime lets the clock stand still until Advance is called.
func ManualTime() Option { return func(e *engine) { e.time = timeManual } }

// RealTime makes the clock that of the machine: retries, timeouts and waits take as long as they say.
func RealTime() Option { return func(e *engine) { e.time = timeReal } }

// As sets whose the transactions are; default: client "anonymous" of tenant "default", as of a coordinator in
// development. Every caller is this one, whatever credential it sends, and an operator too.
func As(tenant, name string) Option {
	return func(e *engine) { e.caller = coordinator.Caller{Tenant: tenant, Client: name} }
}

// New starts a coordinator that stops with the test. A mistake of the test, such as a step of a participant that
// nobody has made, fails it. If it fails, what happened is logged.
func New(t testing.TB, options ...Option) *Coordinator {
	t.Helper()
	c := start(func(mistake string) { t.Errorf("coordinatortest: %s", mistake) }, options)
	t.Cleanup(func() {
		c.Close()
		if t.Failed() {
			t.Logf("coordinatortest: what happened:\n%s", c.Story())
		}
	})
	return c
}

// Start starts a coordinator outside of a test, such as in an example. Mistakes are logged. Call Close when done.
func Start(options ...Option) *Coordinator {
	return start(func(mistake string) { slog.Error("coordinatortest: " + mistake) }, options)
}

func start(mistake func(string), options []Option) *Coordinator {
	e := newEngine(mistake)
	for _, o := range options {
		o(e)
	}
	handler := api.New(api.Config{
		Coordinator: e, Admin: e, Log: slog.New(slog.DiscardHandler), Authenticate: authenticator(e.caller),
	})
	c := &Coordinator{e: e, server: httptest.NewServer(handler)}
	var err error
	if c.client, err = client.New(c.server.URL, client.Options{}); err != nil {
		panic("coordinatortest: " + err.Error()) // only for a URL that is none
	}
	c.close = sync.OnceFunc(func() {
		handler.StopWaiting()
		e.stop()
		c.server.Close()
	})
	return c
}

// Close stops the coordinator and waits for handlers that run, whose context ends. Calling it twice is safe.
func (c *Coordinator) Close() { c.close() }

// URL is where the HTTP API is served: what the code under test is configured with.
func (c *Coordinator) URL() string { return c.server.URL }

// Client returns a client of it.
func (c *Coordinator) Client() *client.Client { return c.client }

// Last returns the transaction that was submitted last, as it is now. It panics if there is none.
func (c *Coordinator) Last() client.Transaction {
	id := c.e.last()
	if id.IsZero() {
		panic("coordinatortest: Last: nothing has been submitted")
	}
	return c.Transaction(id)
}

// Transaction returns the transaction as it is now. It panics if there is none of that id.
func (c *Coordinator) Transaction(id saga.ID) client.Transaction {
	tx, err := c.client.Get(context.Background(), id)
	if err != nil {
		panic(fmt.Sprintf("coordinatortest: transaction %s: %v", id, err))
	}
	return tx
}

// Now returns what the test's clock shows.
func (c *Coordinator) Now() time.Time { return c.e.clock() }

// Advance moves the test's clock on by d. What becomes due on the way happens at its instant, and Advance returns when
// all of it has happened. Do not call it from Do. It panics with RealTime.
func (c *Coordinator) Advance(d time.Duration) { c.e.advance(d) }

// Settle returns when no function of the test and no real handler runs any more and nothing is due now: after a
// submission that was not waited for, with Do or Connect.
func (c *Coordinator) Settle() { c.e.settle() }

// Story returns what has happened, one line for each event: the first 250 and the last 250.
func (c *Coordinator) Story() string { return c.e.storyText() }
