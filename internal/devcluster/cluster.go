package devcluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Config says what cluster to start. Its zero value is an ephemeral, non-durable
// cluster on a free port that logs nothing: the one that tests want.
type Config struct {
	// Dir is the state directory, made when missing and kept at Stop. It must
	// belong to the calling user. "" uses a new directory that Stop removes.
	Dir string
	// Durable keeps PostgreSQL's default durability. False turns fsync and full
	// page writes off: faster, and lost when the machine crashes.
	Durable bool
	// NATSPort is the port of NATS on 127.0.0.1. 0 picks a free one.
	NATSPort int
	// Log receives progress and failures. nil discards them.
	Log *slog.Logger
}

func (c Config) validate() error {
	if c.NATSPort < 0 || c.NATSPort > 65535 {
		return fmt.Errorf("devcluster: NATSPort is %d, want 0 to 65535", c.NATSPort)
	}
	return nil
}

// Cluster is one running PostgreSQL server and one running NATS server.
type Cluster struct {
	// Postgres is the PostgreSQL server.
	Postgres *Postgres
	// NATS is the NATS server.
	NATS *NATS

	runtime   *runtimeDir
	stateLock *dirLock
	ephemeral bool

	stopOnce sync.Once
	stopErr  error
}

// Start starts PostgreSQL and NATS side by side and returns when both accept
// connections. It first removes what killed processes of this user left behind.
// ctx bounds the start only. Where PostgreSQL is not installed the error is a
// *PostgresMissingError; where another process uses Dir it is an *InUseError.
func Start(ctx context.Context, cfg Config) (_ *Cluster, err error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ident, err := childIdentity()
	if err != nil {
		return nil, err
	}
	sweepStale(ctx, log)

	c := &Cluster{ephemeral: cfg.Dir == ""}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
		}
	}()
	if c.runtime, err = newRuntimeDir(ident); err != nil {
		return nil, err
	}
	state := c.runtime.stateDir()
	if cfg.Dir != "" {
		if state, err = filepath.Abs(cfg.Dir); err != nil {
			return nil, fmt.Errorf("devcluster: state directory %s: %w", cfg.Dir, err)
		}
	}
	if err := c.prepare(ctx, cfg, state, ident, log); err != nil {
		return nil, err
	}
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.Postgres.Start(gctx) })
	group.Go(func() error { return c.NATS.Start(gctx) })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return c, nil
}

// prepare locks the state directory and fills in Postgres and NATS, not yet started.
func (c *Cluster) prepare(ctx context.Context, cfg Config, state string, ident *identity, log *slog.Logger) error {
	if err := makeOwnDir(state); err != nil {
		return err
	}
	var err error
	if c.stateLock, err = lockDir(state); err != nil {
		return err
	}
	dataDir := filepath.Join(state, "postgres")
	sec, err := loadSecrets(state, dataDir)
	if err != nil {
		return err
	}
	major, err := dataDirMajor(dataDir)
	if err != nil {
		return err
	}
	bin, err := findBinaries(ctx, major, dataDir)
	if err != nil {
		return err
	}
	if ident, err = ident.ownerOf(dataDir); err != nil {
		return err
	}
	c.Postgres = &Postgres{
		bin: bin, ident: ident, dataDir: dataDir, socketDir: c.runtime.socketDir(),
		logPath: filepath.Join(state, "postgres.log"), password: sec.PostgresPassword,
		durable: cfg.Durable, log: log,
	}
	c.NATS = &NATS{
		storeDir: filepath.Join(state, "nats"), port: cfg.NATSPort,
		user: sec.NATSUser, password: sec.NATSPassword, log: log,
	}
	return nil
}

// Stop stops NATS, then PostgreSQL, and removes the directories that are not to be
// kept. When ctx ends before PostgreSQL has shut down in order, PostgreSQL is shut
// down at once: its committed data stays. Later calls, from any goroutine, wait for
// the first and return its result.
func (c *Cluster) Stop(ctx context.Context) error {
	c.stopOnce.Do(func() { c.stopErr = c.stop(ctx) })
	return c.stopErr
}

func (c *Cluster) stop(ctx context.Context) error {
	var errs []error
	if c.NATS != nil {
		c.NATS.Stop()
	}
	if c.Postgres != nil {
		mode := Fast
		if c.ephemeral {
			mode = Immediate // nobody will read the data again
		}
		errs = append(errs, c.Postgres.stop(ctx, mode))
	}
	if c.stateLock != nil {
		errs = append(errs, c.stateLock.release())
	}
	if c.runtime != nil {
		errs = append(errs, c.runtime.remove())
	}
	return errors.Join(errs...)
}

// DSN returns the URL of a database of the PostgreSQL server, for pgx. It carries
// the password: do not log it.
func (c *Cluster) DSN(database string) string { return c.Postgres.DSN(database) }

// NATSURL returns the URL of the NATS server. It carries the password: do not log it.
func (c *Cluster) NATSURL() string { return c.NATS.URL() }

// makeOwnDir makes dir (0700) or checks that it is a directory of this user.
func makeOwnDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("devcluster: make the state directory: %w; choose a directory you may write to", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("devcluster: state directory: %w", err)
	}
	if owner, ok := ownerUID(info); ok && owner != os.Geteuid() {
		return fmt.Errorf("devcluster: state directory %s belongs to user id %d, this process runs as %d: "+
			"run as its owner or choose another directory", dir, owner, os.Geteuid())
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("devcluster: others may write to the state directory %s (mode %04o): run chmod go-w %s",
			dir, info.Mode().Perm(), dir)
	}
	return nil
}
