package testdb

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sagacity-tx/sagacity/internal/devcluster"
)

const (
	startTimeout = 3 * time.Minute
	stopTimeout  = 30 * time.Second
)

// shared is the one cluster of the test package.
var shared = &lazyCluster{templates: map[string]*template{}}

// lazyCluster starts a cluster for the first test that asks.
type lazyCluster struct {
	mu        sync.Mutex
	main      bool // Main runs, so somebody will stop the cluster
	started   bool
	cluster   *devcluster.Cluster
	err       error
	templates map[string]*template
}

// Main runs the tests of a package, stops the cluster and ends the process with the
// tests' exit code, or with 1 when the tests pass but the cluster does not stop or
// goroutines are left over. The options name goroutines to ignore.
func Main(m *testing.M, ignore ...goleak.Option) {
	shared.mu.Lock()
	shared.main = true
	shared.mu.Unlock()
	runMoreAtOnce()
	os.Exit(shared.finish(m.Run(), ignore...))
}

// runMoreAtOnce lets twice as many parallel tests run at the same time as there are processors, unless -parallel says how
// many: tests with a database wait most of their time. The flags have not been read yet.
func runMoreAtOnce() {
	_ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))) // the flag exists
}

// lostInClient is a goroutine of nats.go that waits on a nil channel for ever when the connection is closed in the very
// moment in which the first asynchronous publish starts it (v1.55.0, jetstream.newAsyncReply). There is nothing to stop it by.
var lostInClient = goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect")

// finish stops the cluster, looks for leaks and returns the exit code of the process.
func (l *lazyCluster) finish(code int, ignore ...goleak.Option) int {
	err := l.stop()
	if err == nil && code == 0 { // leaks of a failed test would hide its failure
		err = goleak.Find(append(ignore, lostInClient)...)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "testdb: after the tests: %v\n", err)
		code = max(code, 1)
	}
	return code
}

// get returns the cluster and starts it at the first call. A start that failed is
// not tried again: every test fails with the same reason, fast.
func (l *lazyCluster) get() (*devcluster.Cluster, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.main {
		return nil, errors.New("testdb: nobody would stop the cluster: add func TestMain(m *testing.M) { testdb.Main(m) }")
	}
	if !l.started {
		l.started = true
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		l.cluster, l.err = devcluster.Start(ctx, devcluster.Config{})
	}
	return l.cluster, l.err
}

func (l *lazyCluster) stop() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cluster == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return l.cluster.Stop(ctx)
}

// Cluster returns the package's cluster. A test that stops a part of it disturbs
// those that run beside it: it must not be parallel, and must start it again.
func Cluster(t testing.TB) *devcluster.Cluster {
	t.Helper()
	c, err := shared.get()
	if err != nil {
		t.Fatal(err)
	}
	return c
}
