package devcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	runtimePrefix = "sagacity-"
	// socketName is what PostgreSQL calls the socket of port 5432.
	socketName = ".s.PGSQL.5432"
	// socketPathBytesMax is the longest path of a unix socket (Linux 107, macOS 103).
	socketPathBytesMax = 103
	// unlockedAge is how old a runtime directory without lock file must be to count
	// as abandoned: its maker creates the lock file right after the directory.
	unlockedAge = 10 * time.Minute
	// sweepWait bounds the wait for the PostgreSQL of a killed process to end.
	sweepWait = time.Second
)

// runtimeDir is the directory of one cluster under the temporary directory. It
// holds the socket directory and, for an ephemeral cluster, the state.
type runtimeDir struct {
	path string
	lock *dirLock
}

func (d *runtimeDir) socketDir() string { return filepath.Join(d.path, "run") }
func (d *runtimeDir) stateDir() string  { return filepath.Join(d.path, "state") }

// newRuntimeDir makes and locks a runtime directory whose socket directory belongs
// to ident. A sweeper may take a directory before it is locked; then another is made.
func newRuntimeDir(ident *identity) (_ *runtimeDir, err error) {
	const attemptsMax = 10
	var d *runtimeDir
	for attempt := 1; d == nil; attempt++ {
		path, err := os.MkdirTemp(runtimeBase(ident), fmt.Sprintf("%s%d-", runtimePrefix, os.Getpid()))
		if err != nil {
			return nil, fmt.Errorf("devcluster: make the runtime directory: %w", err)
		}
		lock, err := lockDir(path)
		if err == nil {
			d = &runtimeDir{path: path, lock: lock}
			continue
		}
		if attempt == attemptsMax {
			return nil, errors.Join(err, os.RemoveAll(path))
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("devcluster: make the runtime directory: %w", err), d.remove())
		}
	}()
	if err := os.Mkdir(d.socketDir(), 0o700); err != nil {
		return nil, err
	}
	if err := ident.chown(d.socketDir()); err != nil {
		return nil, err
	}
	if ident != nil { // PostgreSQL must pass through to its socket, others must not
		if err := os.Lchown(d.path, -1, int(ident.gid)); err != nil {
			return nil, err
		}
		if err := os.Chmod(d.path, 0o710); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// remove deletes the directory while it is locked, then gives the lock up.
func (d *runtimeDir) remove() error {
	if err := os.RemoveAll(d.path); err != nil {
		return errors.Join(fmt.Errorf("devcluster: remove the runtime directory: %w", err), d.lock.release())
	}
	return d.lock.release()
}

// runtimeBase returns the temporary directory, or /tmp where a socket path there
// would be too long or PostgreSQL could not reach it.
func runtimeBase(ident *identity) string {
	const longestName = len(runtimePrefix) + len("4194304-4294967295/run/") + len(socketName)
	base, err := filepath.Abs(os.TempDir())
	if err != nil || len(base)+1+longestName > socketPathBytesMax || (ident != nil && !everyoneReaches(base)) {
		return "/tmp"
	}
	return base
}

// everyoneReaches tells whether any user may pass through a directory and its parents.
func everyoneReaches(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// sweepStale removes the runtime directories that killed processes of this user
// left behind. What it cannot remove now, a later sweep will: it only logs.
func sweepStale(ctx context.Context, log *slog.Logger) {
	bases := slices.Compact([]string{filepath.Clean(os.TempDir()), "/tmp"})
	for _, base := range bases {
		entries, err := os.ReadDir(base)
		if err != nil {
			log.WarnContext(ctx, "cannot look for abandoned runtime directories", "directory", base, "error", err)
			continue
		}
		for _, entry := range entries {
			if !entry.IsDir() || !isRuntimeName(entry.Name()) {
				continue
			}
			path := filepath.Join(base, entry.Name())
			if removed, err := sweepOne(ctx, path); err != nil {
				log.WarnContext(ctx, "cannot remove an abandoned runtime directory", "directory", path, "error", err)
			} else if removed {
				log.InfoContext(ctx, "removed an abandoned runtime directory", "directory", path)
			}
		}
	}
}

// isRuntimeName matches <prefix><pid>-<random number>.
func isRuntimeName(name string) bool {
	rest, ok := strings.CutPrefix(name, runtimePrefix)
	if !ok {
		return false
	}
	pid, random, ok := strings.Cut(rest, "-")
	return ok && isNumber(pid) && isNumber(random)
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// sweepOne removes a runtime directory of this user if no live process uses it.
func sweepOne(ctx context.Context, path string) (removed bool, err error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if owner, ok := ownerUID(info); !ok || owner != os.Geteuid() || !info.IsDir() {
		return false, nil
	}
	lock, err := openLock(path, 0)
	var inUse *InUseError
	switch {
	case errors.As(err, &inUse):
		return false, nil
	case errors.Is(err, fs.ErrNotExist):
		if time.Since(info.ModTime()) < unlockedAge {
			return false, nil // being made right now
		}
		err := os.RemoveAll(path)
		return err == nil, err
	case err != nil:
		return false, err
	}
	// The orphan, if any, is on its way out. One that is not is left to a later sweep.
	dead := &runtimeDir{path: path, lock: lock}
	dataDir := filepath.Join(dead.stateDir(), "postgres")
	for _, dir := range []string{dataDir, dataDir + initSuffix} {
		if err := waitOrphan(ctx, dir, sweepWait); err != nil {
			return false, errors.Join(err, lock.release())
		}
	}
	err = dead.remove()
	return err == nil, err
}
