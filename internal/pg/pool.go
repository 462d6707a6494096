package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/tcp"
)

// Defaults of Config.
const (
	DefaultMaxConns        = 10
	DefaultConnectTimeout  = 5 * time.Second
	DefaultKeepAlive       = tcp.DefaultKeepAlive
	DefaultUserTimeout     = tcp.DefaultUserTimeout
	DefaultIOTimeout       = time.Minute
	DefaultMaxConnLifetime = time.Hour
	DefaultMaxConnIdleTime = 10 * time.Minute
)

const (
	healthCheckPeriod = 30 * time.Second
	pingTimeout       = 5 * time.Second
)

// Config says how to open a pool. Only DSN has no default.
type Config struct {
	DSN             string        // URL or keyword form; also read from the PG… environment variables
	ApplicationName string        // shown in pg_stat_activity; zero: what the DSN says, else "sagacity"
	MaxConns        int32         // zero: DefaultMaxConns, whatever the number of CPUs
	MinIdleConns    int32         // kept ready; zero: none
	ConnectTimeout  time.Duration // of one connection attempt; zero: DefaultConnectTimeout
	KeepAlive       time.Duration // TCP keepalive: idle time and interval; zero: DefaultKeepAlive
	UserTimeout     time.Duration // how long sent data may stay unacknowledged (Linux); zero: DefaultUserTimeout

	// IOTimeout is how long one read or write of a connection may take, the answer to a statement included; zero:
	// DefaultIOTimeout. Longer statements need a connection of their own.
	IOTimeout time.Duration

	// Customize is called last, for tracers, TLS and tests; nil: nothing more to set.
	Customize func(*pgxpool.Config)
}

func (c Config) withDefaults() Config {
	setDefault(&c.MaxConns, DefaultMaxConns)
	setDefault(&c.ConnectTimeout, DefaultConnectTimeout)
	setDefault(&c.KeepAlive, DefaultKeepAlive)
	setDefault(&c.UserTimeout, DefaultUserTimeout)
	setDefault(&c.IOTimeout, DefaultIOTimeout)
	return c
}

func setDefault[T int32 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

func (c Config) validate() error {
	switch {
	case c.MaxConns < 1:
		return fmt.Errorf("pg: max conns is %d; use at least 1", c.MaxConns)
	case c.MinIdleConns < 0 || c.MinIdleConns > c.MaxConns:
		return fmt.Errorf("pg: min idle conns is %d; use 0 to max conns (%d)", c.MinIdleConns, c.MaxConns)
	case min(c.ConnectTimeout, c.KeepAlive, c.UserTimeout, c.IOTimeout) < 0:
		return errors.New("pg: a timeout is negative; use 0 for the default")
	}
	return nil
}

// Open makes a pool and proves with one round trip that the server can be reached. The error names the
// server and never the password.
func Open(ctx context.Context, c Config) (*pgxpool.Pool, error) {
	pc, err := c.pool()
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("pg: open a pool: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("pg: reach PostgreSQL at %s (database %q, user %q): %w",
			pc.ConnConfig.Host, pc.ConnConfig.Database, pc.ConnConfig.User, err)
	}
	return pool, nil
}

// pool translates c for pgxpool.
func (c Config) pool() (*pgxpool.Config, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	pc, err := pgxpool.ParseConfig(c.DSN)
	if err != nil {
		return nil, fmt.Errorf("pg: %w", WithoutDSN(err))
	}
	pc.MaxConns = c.MaxConns
	pc.MinConns = 0
	pc.MinIdleConns = c.MinIdleConns
	pc.MaxConnLifetime = DefaultMaxConnLifetime
	pc.MaxConnLifetimeJitter = DefaultMaxConnLifetime / 10
	pc.MaxConnIdleTime = DefaultMaxConnIdleTime
	pc.HealthCheckPeriod = healthCheckPeriod
	pc.PingTimeout = pingTimeout

	params := pc.ConnConfig.RuntimeParams
	switch {
	case c.ApplicationName != "":
		params["application_name"] = c.ApplicationName
	case params["application_name"] == "":
		params["application_name"] = "sagacity"
	}
	pc.ConnConfig.ConnectTimeout = c.ConnectTimeout
	dialer := tcp.Config{ConnectTimeout: c.ConnectTimeout, KeepAlive: c.KeepAlive, UserTimeout: c.UserTimeout}.Dialer()
	pc.ConnConfig.DialFunc = withIOTimeout(dialer.DialContext, c.IOTimeout)
	if c.Customize != nil {
		c.Customize(pc)
	}
	return pc, nil
}
