package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/coordinator/token"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/schema"
	"github.com/sagacity-tx/sagacity/internal/tcp"
	"github.com/sagacity-tx/sagacity/notify"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// serverConfig says what one coordinator process works with.
type serverConfig struct {
	DatabaseURL string
	NATSURL     string
	Prefix      string
	Listen      string // address of the HTTP API
	Token       string // one that is let in beside those of the database; "": none
	TokenFile   string // where Token was read from
	Anonymous   bool   // let in whoever is on this machine, without a token
	TLSCert     string // files of the certificate and its key; "": no TLS
	TLSKey      string
	WithoutTLS  bool // listen elsewhere than on loopback although there is no TLS
	Connections int
	Lanes       int // zero: the coordinator's default
	Admission   flow.AdmissionPolicy
	Flow        flow.Policy
	AutoPause   int                    // as coordinator.Config has it
	Events      coordinator.EventsMode // "": its default
	Webhooks    notify.Config          // how webhooks are told
	Retention   coordinator.Retention

	ApproveAll     bool
	AllowEdit      bool
	ApprovalExpiry time.Duration // zero: the coordinator's default

	Log *slog.Logger
}

// server is one coordinator process: engine, relay and API.
type server struct {
	cfg         serverConfig
	pool        *pgxpool.Pool
	bus         *bus.Bus
	relay       *outbox.Relay
	coordinator *coordinator.Coordinator
	tokens      *token.Store
	listener    net.Listener
	http        *http.Server
	certificate *certificate // nil: no TLS
}

// newServer connects to everything and listens, so that what is wrong shows before anything runs.
func newServer(ctx context.Context, cfg serverConfig) (_ *server, err error) {
	s := &server{cfg: cfg}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := checkListen(&cfg); err != nil {
		return s, err
	}
	if err := s.loadCertificate(); err != nil {
		return s, err
	}
	s.pool, err = pg.Open(ctx, pg.Config{DSN: cfg.DatabaseURL, ApplicationName: "coordinator", MaxConns: int32(cfg.Connections)})
	if err != nil {
		return s, fmt.Errorf("%w; check --database-url (DATABASE_URL)", err)
	}
	if err := schema.Check(ctx, cfg.DatabaseURL); err != nil {
		return s, err
	}
	s.tokens = token.New(s.pool)
	auth, err := authenticator(&cfg, s.tokens)
	if err != nil {
		return s, err
	}
	s.bus, err = bus.Connect(ctx, bus.Config{URL: cfg.NATSURL, Name: "coordinator", Prefix: cfg.Prefix, Logger: cfg.Log})
	if err != nil {
		return s, fmt.Errorf("%w; check --nats-url (NATS_URL)", err)
	}
	s.relay, err = outbox.NewRelay(outbox.Config{Pool: s.pool, Publisher: s.bus, Logger: cfg.Log})
	if err != nil {
		return s, err
	}
	s.coordinator, err = coordinator.New(coordinator.Config{
		Pool: s.pool, Bus: s.bus, Relay: s.relay, Log: cfg.Log, Lanes: cfg.Lanes, Admission: cfg.Admission,
		Flow: cfg.Flow, AutoPause: cfg.AutoPause, Events: cfg.Events, Webhooks: cfg.Webhooks,
		Retention:  cfg.Retention,
		ApproveAll: cfg.ApproveAll, AllowEdit: cfg.AllowEdit, ApprovalExpiry: cfg.ApprovalExpiry,
	})
	if err != nil {
		return s, err
	}
	s.listener, err = listen(ctx, cfg.Listen)
	if err != nil {
		return s, err
	}
	s.http = api.Server(s.listener.Addr().String(), api.New(api.Config{
		Coordinator: s.coordinator, Tokens: s.tokens, Authenticate: auth, Ready: s.ready, Log: cfg.Log,
	}), cfg.Log)
	if s.certificate != nil {
		s.http.TLSConfig = s.certificate.config()
	}
	s.warnWithoutTokens(ctx)
	return s, nil
}

func (s *server) loadCertificate() (err error) {
	if s.cfg.TLSCert != "" {
		s.certificate, err = loadCertificate(s.cfg.TLSCert, s.cfg.TLSKey, s.cfg.Log)
	}
	return err
}

// warnWithoutTokens says what to do where nobody could be let in.
func (s *server) warnWithoutTokens(ctx context.Context) {
	if s.cfg.Anonymous || s.cfg.Token != "" {
		return
	}
	if list, err := s.tokens.List(ctx, token.Filter{Limit: 1}); err == nil && len(list) == 0 {
		s.cfg.Log.Warn(`there is no token that lets anyone in; make one with "coordinator token create"`)
	}
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	listener, err := tcp.Config{}.ListenConfig().Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another address with --listen", address, err)
	}
	return listener, nil
}

// url returns where the API is.
func (s *server) url() string {
	if s.certificate != nil {
		return "https://" + s.listener.Addr().String()
	}
	return "http://" + s.listener.Addr().String()
}

func (s *server) serveHTTP() error {
	if s.certificate != nil {
		return s.http.ServeTLS(s.listener, "", "")
	}
	return s.http.Serve(s.listener)
}

// ready reports whether the process can do its work now.
func (s *server) ready(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	if !s.bus.Connected() {
		return errors.New("NATS: not connected")
	}
	return nil
}

// shutdownTimeout bounds how long requests in flight may take when the process stops.
const shutdownTimeout = 10 * time.Second

// run works until ctx ends or something fails for good. It stops in order: no new requests, then the engine,
// then the relay, which publishes what the engine stored last.
func (s *server) run(ctx context.Context) error {
	defer s.close()
	relayCtx, stopRelay := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRelay()
	stop := ctx
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.relay.Run(relayCtx) })
	group.Go(func() error {
		defer stopRelay()
		return s.coordinator.Run(ctx)
	})
	group.Go(func() error {
		if err := s.serveHTTP(); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve HTTP on %s: %w", s.listener.Addr(), err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if err := s.http.Shutdown(shutdown); err != nil {
			return s.http.Close()
		}
		return nil
	})
	err := group.Wait()
	if stop.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // stopped before it had begun
	}
	return err
}

func (s *server) close() {
	if s.listener != nil {
		_ = s.listener.Close() // usually closed by the HTTP server
	}
	if s.bus != nil {
		s.bus.Close()
	}
	if s.pool != nil {
		s.pool.Close()
	}
}
