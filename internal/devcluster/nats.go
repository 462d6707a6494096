package devcluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// natsStartTimeout bounds a start, which may include recovery of the store.
const natsStartTimeout = time.Minute

// NATS is one NATS server with JetStream on file, inside this process. Its methods
// may be called from several goroutines; starts and stops happen one after the other.
type NATS struct {
	storeDir string
	user     string
	password string
	log      *slog.Logger

	mu   sync.Mutex
	port int // 0 until the first start has picked one
	srv  *server.Server
}

// URL returns the URL of the server. It carries the password: do not log it. It is
// known after the first start and then stays the same.
func (n *NATS) URL() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	u := url.URL{
		Scheme: "nats", User: url.UserPassword(n.user, n.password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port)),
	}
	return u.String()
}

// Start starts the server, after a Stop on the same port, and returns when it
// accepts connections. A server that runs already is left alone. An error leaves
// no server running.
func (n *NATS) Start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.srv != nil {
		return nil
	}
	port := n.port
	if port == 0 {
		port = server.RANDOM_PORT
	}
	srv, err := server.NewServer(&server.Options{
		ServerName: "sagacity-dev",
		Host:       "127.0.0.1",
		Port:       port,
		Username:   n.user,
		Password:   n.password,
		JetStream:  true,
		StoreDir:   n.storeDir,
		NoSigs:     true,
		NoLog:      true, // it logs through natsLog
	})
	if err != nil {
		return fmt.Errorf("devcluster: start NATS: %w", err)
	}
	log := &natsLog{log: n.log, fatal: make(chan error, 1)}
	srv.SetLogger(log, false, false)
	srv.Start()
	if err := awaitNATS(ctx, srv, log.fatal); err != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
		return fmt.Errorf("devcluster: start NATS on 127.0.0.1 port %d, store %s: %w", n.port, n.storeDir, err)
	}
	addr, ok := srv.Addr().(*net.TCPAddr)
	if !ok {
		srv.Shutdown()
		srv.WaitForShutdown()
		return fmt.Errorf("devcluster: start NATS: it listens on %v, not on a TCP port", srv.Addr())
	}
	n.port, n.srv = addr.Port, srv
	n.log.DebugContext(ctx, "NATS is ready", "port", n.port, "store", n.storeDir)
	return nil
}

// awaitNATS waits until the server accepts connections or reports a fatal error.
func awaitNATS(ctx context.Context, srv *server.Server, fatal <-chan error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, natsStartTimeout, fmt.Errorf("not ready after %s", natsStartTimeout))
	defer cancel()
	for {
		select {
		case err := <-fatal:
			return err
		default:
		}
		if srv.ReadyForConnections(pollInterval) {
			if !srv.JetStreamEnabled() {
				return errors.New("JetStream is not enabled")
			}
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// Stop stops the server and returns when it has ended. Its store stays. A stopped
// server is left alone.
func (n *NATS) Stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.srv == nil {
		return
	}
	n.srv.Shutdown()
	n.srv.WaitForShutdown()
	n.srv = nil
}

// WipeStore deletes all streams, consumers and messages of a stopped server.
func (n *NATS) WipeStore() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.srv != nil {
		return errors.New("devcluster: wipe the NATS store: the server runs: call Stop first")
	}
	if err := os.RemoveAll(n.storeDir); err != nil {
		return fmt.Errorf("devcluster: wipe the NATS store: %w", err)
	}
	return nil
}
