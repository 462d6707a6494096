package containers

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // for wait.ForSQL
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/nats-io/nats.go"
	"github.com/testcontainers/testcontainers-go"
	natsmodule "github.com/testcontainers/testcontainers-go/modules/nats"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/coordinator/client"
	roles "github.com/sagacity-tx/sagacity/coordinator/token"
	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/schema"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/participant"
)

// The cluster's own files.
const (
	initScript = "../../deploy/postgres/init.sh"
	natsConfig = "../../deploy/nats/nats.conf"
)

const (
	password = "s0e7d5c3b1" // of everything: nothing in the containers outlives the test
	token    = "0123456789abcdef0123456789abcdef"
	cents    = 100_000 // what alice and bob begin with
)

// stand is a coordinator and two banks in this process, on a PostgreSQL and a NATS in containers.
type stand struct {
	t        *testing.T
	postgres *postgres.PostgresContainer
	nats     *natsmodule.NATSContainer
	pgPort   string
	natsPort string

	client *client.Client
	a, b   *pgxpool.Pool
	url    string
}

func newStand(t *testing.T) *stand {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // an image may have to be pulled
	defer cancel()
	s := &stand{t: t, pgPort: freePort(t), natsPort: freePort(t)}
	var starting sync.WaitGroup
	var pgErr, natsErr error
	starting.Go(func() { pgErr = s.startPostgres(ctx) })
	starting.Go(func() { natsErr = s.startNATS(ctx) })
	starting.Wait()
	if s.postgres != nil {
		testcontainers.CleanupContainer(t, s.postgres)
	}
	if s.nats != nil {
		testcontainers.CleanupContainer(t, s.nats)
	}
	if pgErr != nil || natsErr != nil {
		t.Fatalf("start PostgreSQL: %v\nstart NATS: %v", pgErr, natsErr)
	}
	s.startCoordinator(ctx)
	s.a = s.startBank(ctx, "bank-a", "alice")
	s.b = s.startBank(ctx, "bank-b", "bob")
	return s
}

func (s *stand) startPostgres(ctx context.Context) (err error) {
	s.postgres, err = postgres.Run(ctx, image("POSTGRES_IMAGE", "postgres:15"),
		postgres.WithPassword(password),
		testcontainers.WithEnv(map[string]string{
			"COORDINATOR_PASSWORD": password, "BANK_A_PASSWORD": password, "BANK_B_PASSWORD": password,
		}),
		postgres.WithInitScripts(initScript),
		fixedPort("5432/tcp", s.pgPort),
		// Over TCP: the server that runs the script is reachable on a socket only.
		testcontainers.WithWaitStrategy(wait.ForSQL("5432/tcp", "pgx", func(string, network.Port) string { return s.dsn("coordinator") })),
	)
	return err
}

func (s *stand) startNATS(ctx context.Context) error {
	config, err := os.Open(natsConfig)
	if err != nil {
		return err
	}
	defer config.Close()
	s.nats, err = natsmodule.Run(ctx, image("NATS_IMAGE", "nats:2"),
		testcontainers.WithEnv(map[string]string{"NATS_USER": "sagacity", "NATS_PASSWORD": password}),
		natsmodule.WithConfigFile(config),
		fixedPort("4222/tcp", s.natsPort),
		testcontainers.WithWaitStrategy(wait.ForListeningPort("4222/tcp").SkipInternalCheck()), // the image may have no shell
	)
	return err
}

func image(env, fallback string) string { return cmp.Or(os.Getenv(env), fallback) }

// fixedPort keeps a container's port the same when it is started again, as an address of a server is.
func fixedPort(inside, outside string) testcontainers.CustomizeRequestOption {
	return testcontainers.WithHostConfigModifier(func(c *container.HostConfig) {
		if c.PortBindings == nil {
			c.PortBindings = network.PortMap{}
		}
		c.PortBindings[network.MustParsePort(inside)] = []network.PortBinding{{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: outside}}
	})
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// dsn is that of a database whose owner has its name.
func (s *stand) dsn(database string) string {
	return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%s/%s?sslmode=disable", database, password, s.pgPort, database)
}

func (s *stand) natsURL() string {
	return fmt.Sprintf("nats://sagacity:%s@127.0.0.1:%s", password, s.natsPort)
}

// run runs something until the test ends.
func (s *stand) run(what string, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("%s: %v", what, err)
		}
	})
}

func (s *stand) startCoordinator(ctx context.Context) {
	t := s.t
	t.Helper()
	dsn := s.dsn("coordinator")
	if _, err := schema.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	pool, err := pg.Open(ctx, pg.Config{DSN: dsn, MaxConns: 12})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	quiet := slog.New(slog.DiscardHandler)
	b, err := bus.Connect(ctx, bus.Config{URL: s.natsURL(), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	relay, err := outbox.NewRelay(outbox.Config{Pool: pool, Publisher: b, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := coordinator.New(coordinator.Config{Pool: pool, Bus: b, Relay: relay, Log: quiet, Lanes: 2})
	if err != nil {
		t.Fatal(err)
	}
	s.run("relay", relay.Run)
	s.run("coordinator", engine.Run)
	auth, err := api.ConfiguredToken(token, api.Identity{Tenant: "default", Client: "test", Actor: "test", Roles: roles.AllRoles, AllTenants: true})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api.New(api.Config{Coordinator: engine, Authenticate: auth, Log: quiet}))
	t.Cleanup(server.Close)
	s.url = server.URL
	if s.client, err = client.New(server.URL, client.Options{Token: token}); err != nil {
		t.Fatal(err)
	}
}

// startBank starts a bank on its own database, with a role that sees no other.
func (s *stand) startBank(ctx context.Context, name, account string) *pgxpool.Pool {
	t := s.t
	t.Helper()
	pool, err := pg.Open(ctx, pg.Config{DSN: s.dsn(strings.ReplaceAll(name, "-", "_")), MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := bank.Migrate(ctx, pool); err != nil {
		t.Fatal(err)
	}
	if err := bank.Seed(ctx, pool, cents, account); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.natsURL(), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	p, err := bank.NewParticipant(name, pool, nc, func(c *participant.Config) {
		c.Logger, c.Concurrency = slog.New(slog.DiscardHandler), 6
	})
	if err != nil {
		t.Fatal(err)
	}
	s.run(name, p.Run)
	return pool
}
