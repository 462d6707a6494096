package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Counters are readings that only grow. The difference of two is what lay between them cost.
type Counters struct {
	Commits    int64
	Statements int64 // -1 if pg_stat_statements is not there
	WALBytes   int64
	CPU        time.Duration // of this process and those it started, which PostgreSQL's are; -1 without /proc
}

// Meter reads the counters of one PostgreSQL server, in all its databases, and of this process.
type Meter struct {
	Pool       *pgxpool.Pool // of a database where pg_stat_statements may be created
	statements bool
}

// NewMeter prepares pg_stat_statements where the server has it.
func NewMeter(ctx context.Context, pool *pgxpool.Pool) *Meter {
	_, err := pool.Exec(ctx, `CREATE EXTENSION IF NOT EXISTS pg_stat_statements`)
	return &Meter{Pool: pool, statements: err == nil}
}

const sqlCounters = `
SELECT (SELECT sum(xact_commit) FROM pg_stat_database)::bigint, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint`

// Read returns the counters now. PostgreSQL's backends report commits up to a second late, at both ends of what
// is measured: over ten seconds that leaves a few percent.
func (m *Meter) Read(ctx context.Context) (Counters, error) {
	c := Counters{Statements: -1}
	if err := m.Pool.QueryRow(ctx, sqlCounters).Scan(&c.Commits, &c.WALBytes); err != nil {
		return c, fmt.Errorf("read PostgreSQL's counters: %w", err)
	}
	if m.statements {
		if err := m.Pool.QueryRow(ctx, `SELECT sum(calls)::bigint FROM pg_stat_statements`).Scan(&c.Statements); err != nil {
			return c, fmt.Errorf("read pg_stat_statements: %w", err)
		}
	}
	cpu, err := cpuTime()
	c.CPU = cpu
	return c, err
}

// Sub returns what lay between an earlier reading and this one.
func (c Counters) Sub(earlier Counters) Counters {
	d := Counters{
		Commits: c.Commits - earlier.Commits, Statements: -1,
		WALBytes: c.WALBytes - earlier.WALBytes, CPU: -1,
	}
	if c.CPU >= 0 {
		d.CPU = c.CPU - earlier.CPU
	}
	if c.Statements >= 0 {
		d.Statements = c.Statements - earlier.Statements
	}
	return d
}

// clockTicks is USER_HZ, which Linux fixes at 100 for programs.
const clockTicks = 100

// cpuTime sums the CPU time of this process and its descendants, living and ended, from /proc.
func cpuTime() (time.Duration, error) {
	self := os.Getpid()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return -1, err
	}
	parent := make(map[int]int)
	ticks := make(map[int]int64)
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, ppid, used, ok := parseStat(string(data))
		if ok {
			parent[pid], ticks[pid] = ppid, used
		}
	}
	var sum int64
	for pid := range ticks {
		for at, hops := pid, 0; at > 1 && hops < 64; at, hops = parent[at], hops+1 {
			if at == self {
				sum += ticks[pid]
				break
			}
		}
	}
	return time.Duration(sum) * time.Second / clockTicks, nil
}

// parseStat reads pid, parent and CPU ticks (own and of ended children) from a line of /proc/pid/stat.
func parseStat(line string) (pid, ppid int, ticks int64, ok bool) {
	head, rest, found := strings.Cut(line, " (")
	end := strings.LastIndex(rest, ") ")
	if !found || end < 0 {
		return 0, 0, 0, false
	}
	f := strings.Fields(rest[end+2:])
	if len(f) < 15 {
		return 0, 0, 0, false
	}
	pid, err := strconv.Atoi(head)
	if err != nil {
		return 0, 0, 0, false
	}
	ppid, err = strconv.Atoi(f[1])
	for _, i := range []int{11, 12, 13, 14} { // utime, stime, cutime, cstime
		n, convErr := strconv.ParseInt(f[i], 10, 64)
		if convErr != nil {
			return 0, 0, 0, false
		}
		ticks += n
	}
	return pid, ppid, ticks, err == nil
}
