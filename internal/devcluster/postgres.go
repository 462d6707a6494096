package devcluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// StopMode says how PostgreSQL shuts down.
type StopMode string

const (
	// Fast disconnects clients, rolls their transactions back and shuts down in order.
	Fast StopMode = "fast"
	// Immediate stops like a crash: the next start recovers from the write-ahead log.
	Immediate StopMode = "immediate"
)

const (
	// startTimeout bounds a start, which may include crash recovery.
	startTimeout = 2 * time.Minute
	// orphanTimeout bounds the wait for the PostgreSQL of a killed process to end.
	orphanTimeout = 15 * time.Second
	// crashTimeout bounds an immediate shutdown: PostgreSQL itself kills what has
	// not ended after 5 s.
	crashTimeout = 10 * time.Second
	// logBytesMax is the size beyond which a start puts the log file aside.
	logBytesMax = 16 << 20
)

// Postgres is one PostgreSQL server, a child process. Its methods may be called
// from several goroutines; starts and stops happen one after the other.
type Postgres struct {
	bin       binaries
	ident     *identity
	dataDir   string
	socketDir string
	logPath   string
	password  string
	durable   bool
	log       *slog.Logger

	mu   sync.Mutex
	proc *process
}

// DSN returns the URL of a database, for pgx. It carries the password: do not log
// it. It stays the same over restarts.
func (p *Postgres) DSN(database string) string {
	query := url.Values{"host": {p.socketDir}, "port": {"5432"}, "sslmode": {"disable"}}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(superuser, p.password), Path: "/" + database, RawQuery: query.Encode()}
	return u.String()
}

// LogPath returns the path of the server's log file.
func (p *Postgres) LogPath() string { return p.logPath }

// Done returns a channel that is closed when the server that runs now ends, asked
// to or not. It is closed already when none runs.
func (p *Postgres) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc == nil {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return p.proc.done
}

// Start starts the server and returns when it accepts connections. A server that
// runs already is left alone. An error leaves no server running.
func (p *Postgres) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc != nil && !p.proc.ended() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	if err := waitOrphan(ctx, p.dataDir, orphanTimeout); err != nil {
		return err
	}
	if err := p.initDataDir(ctx); err != nil {
		return err
	}
	logFile, logStart, err := p.openLog()
	if err != nil {
		return err
	}
	defer func() { _ = logFile.Close() }()
	cmd, release, err := p.command(context.WithoutCancel(ctx), "postgres", p.dataDir, p.settings()...)
	if err != nil {
		return fmt.Errorf("devcluster: start PostgreSQL: %w", err)
	}
	defer release()
	cmd.Stdout, cmd.Stderr = logFile, logFile
	proc, err := startProcess(cmd, p.exited)
	if err != nil {
		return fmt.Errorf("devcluster: start PostgreSQL: %w", err)
	}
	if err := p.awaitReady(ctx, proc); err != nil {
		return fmt.Errorf("devcluster: start PostgreSQL on %s: %w; its log (%s) ends:\n%s",
			p.dataDir, errors.Join(err, quit(proc)), p.logPath, tail(p.logPath, logStart))
	}
	p.proc = proc
	p.log.Debug("PostgreSQL is ready", "pid", cmd.Process.Pid, "data", p.dataDir, "version", p.bin.major)
	return nil
}

// settings returns the command line settings of the server.
func (p *Postgres) settings() []string {
	settings := []string{
		"listen_addresses=", "port=5432",
		"unix_socket_directories=" + p.socketDir, "unix_socket_permissions=0700",
		"max_connections=200", "shared_buffers=128MB",
		"timezone=UTC", "log_timezone=UTC", "logging_collector=off",
	}
	if p.bin.hasLibrary("pg_stat_statements") {
		settings = append(settings, "shared_preload_libraries=pg_stat_statements")
	}
	if !p.durable {
		// synchronous_commit stays on: an immediate stop must not lose a commit.
		settings = append(settings, "fsync=off", "full_page_writes=off", "max_wal_size=256MB")
	}
	args := make([]string, 0, 2*len(settings))
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	return args
}

// openLog opens the log file to append and returns where it ends now.
func (p *Postgres) openLog() (*os.File, int64, error) {
	if info, err := os.Stat(p.logPath); err == nil && info.Size() > logBytesMax {
		if err := os.Rename(p.logPath, p.logPath+".1"); err != nil {
			return nil, 0, fmt.Errorf("devcluster: put the PostgreSQL log aside: %w", err)
		}
	}
	f, err := os.OpenFile(p.logPath, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("devcluster: open the PostgreSQL log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("devcluster: open the PostgreSQL log: %w", err), f.Close())
	}
	return f, info.Size(), nil
}

// exited reports a server that ended by itself.
func (p *Postgres) exited(proc *process) {
	if !proc.expected.Load() {
		p.log.Error("PostgreSQL ended by itself", "error", proc.err, "log", p.logPath)
	}
}

// awaitReady connects until it works. It gives up when the server ends, when it
// refuses the password, and when ctx ends.
func (p *Postgres) awaitReady(ctx context.Context, proc *process) error {
	var last error
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		conn, err := pgx.Connect(attempt, p.DSN("postgres"))
		cancel()
		if err == nil {
			return conn.Close(ctx)
		}
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code == "28P01" { // invalid_password
			return fmt.Errorf("the password beside the data directory is not the server's: %w", err)
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if proc.ended() {
			return fmt.Errorf("it ended (%w)", proc.err)
		}
		if !pause(ctx, pollInterval) {
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), last)
		}
	}
}

// Stop shuts the server down in order (Fast). When ctx ends first the server stops
// at once (Immediate), which loses no commit. A stopped server is left alone.
func (p *Postgres) Stop(ctx context.Context) error { return p.stop(ctx, Fast) }

// Restart stops the server as mode says and starts it on the same data and socket.
func (p *Postgres) Restart(ctx context.Context, mode StopMode) error {
	if err := p.stop(ctx, mode); err != nil {
		return err
	}
	return p.Start(ctx)
}

func (p *Postgres) stop(ctx context.Context, mode StopMode) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc == nil {
		return nil
	}
	proc := p.proc
	p.proc = nil
	if proc.ended() {
		return nil
	}
	if mode == Fast {
		if err := proc.signal(syscall.SIGINT); err != nil {
			return fmt.Errorf("devcluster: stop PostgreSQL: %w", err)
		}
		select {
		case <-proc.done:
			return nil
		case <-ctx.Done():
		}
	}
	return quit(proc)
}

// quit shuts a server down at once and waits for its end.
func quit(proc *process) error {
	if err := proc.signal(syscall.SIGQUIT); err != nil {
		return fmt.Errorf("devcluster: stop PostgreSQL: %w", err)
	}
	timer := time.NewTimer(crashTimeout)
	defer timer.Stop()
	select {
	case <-proc.done:
		return nil
	case <-timer.C:
		proc.killGroup()
		return fmt.Errorf("devcluster: stop PostgreSQL: it did not end %s after SIGQUIT and was killed", crashTimeout)
	}
}

// CreateDatabase makes an empty database and returns its DSN.
func (c *Cluster) CreateDatabase(ctx context.Context, name string) (dsn string, err error) {
	conn, err := pgx.Connect(ctx, c.DSN("postgres"))
	if err != nil {
		return "", fmt.Errorf("devcluster: create database %s: %w", name, err)
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return "", fmt.Errorf("devcluster: create database %s: %w", name, err)
	}
	return c.DSN(name), nil
}
