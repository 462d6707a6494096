package devcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pidFileName is PostgreSQL's own lock file; its first line is a process id.
const pidFileName = "postmaster.pid"

// waitOrphan waits until no PostgreSQL runs on a data directory whose lock we hold.
// The parent of one that runs there is dead, so it is about to end; one that does
// not within limit fails with *InUseError. It removes a process id file that names
// an unrelated process, which would make PostgreSQL refuse to start.
func waitOrphan(ctx context.Context, dataDir string, limit time.Duration) error {
	path := filepath.Join(dataDir, pidFileName)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		pid, err := readPid(path)
		if err != nil || pid == 0 {
			return err
		}
		switch runsOn(pid, dataDir) {
		case pidDead:
			return nil // PostgreSQL replaces the file
		case pidReused:
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("devcluster: remove the stale %s: %w", path, err)
			}
			return nil
		case pidOurs:
		}
		if !pause(ctx, pollInterval) {
			return &InUseError{Dir: dataDir, Holder: strconv.Itoa(pid)}
		}
	}
}

// readPid reads a process id file, 0 when there is none (or none in it yet).
func readPid(path string) (int, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("devcluster: %w", err)
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
		return pid, nil
	}
	return 0, nil
}

type pidState int

const (
	pidDead   pidState = iota // no such process
	pidReused                 // a process, but not a PostgreSQL on this directory
	pidOurs                   // a PostgreSQL on this directory
)

// runsOn tells whether process pid is a PostgreSQL on dataDir. PostgreSQL works in
// its data directory; where the system does not show that, a live process counts.
func runsOn(pid int, dataDir string) pidState {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return pidDead
	}
	if runtime.GOOS != "linux" {
		return pidOurs
	}
	cwd, err := os.Stat(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil { // ended, a zombie, or of another user
		return pidReused
	}
	dir, err := os.Stat(dataDir)
	if err == nil && os.SameFile(cwd, dir) {
		return pidOurs
	}
	return pidReused
}

// pollInterval is the pause between two looks at something that gives no signal.
const pollInterval = 20 * time.Millisecond

// pause waits for d and returns true, or false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
