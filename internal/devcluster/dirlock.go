package devcluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const lockName = "lock"

// InUseError says that another live process uses a directory.
type InUseError struct {
	// Dir is the directory in use.
	Dir string
	// Holder is the process id of the user, "" when unknown.
	Holder string
}

// Error names the directory, its user and the way out.
func (e *InUseError) Error() string {
	holder := e.Holder
	if holder == "" {
		holder = "(unknown)"
	}
	return fmt.Sprintf("devcluster: %s is in use by process %s: stop that process or choose another directory", e.Dir, holder)
}

// dirLock marks a directory as used for the life of this process: the kernel drops
// the lock when the process ends, however it ends.
type dirLock struct{ file *os.File }

// lockDir locks a directory, or fails with *InUseError. It never waits.
func lockDir(dir string) (*dirLock, error) {
	lock, err := openLock(dir, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	// For people only: the lock itself is the kernel's.
	err = lock.file.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintf(lock.file, "%d\n", os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("devcluster: write the lock of %s: %w", dir, err), lock.release())
	}
	return lock, nil
}

// openLock takes the lock of a directory. Without os.O_CREATE in flags a directory
// with no lock file fails with an error that wraps fs.ErrNotExist.
func openLock(dir string, flags int) (*dirLock, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("devcluster: open the lock of %s: %w", dir, err)
	}
	lock := &dirLock{file: f}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, _ := io.ReadAll(io.LimitReader(f, 32))
		return nil, errors.Join(&InUseError{Dir: dir, Holder: strings.TrimSpace(string(holder))}, lock.release())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("devcluster: lock %s: %w", dir, err), lock.release())
	}
	// A sweeper may have locked and removed the directory between open and lock.
	ours, err1 := f.Stat()
	named, err2 := os.Lstat(path)
	if err1 != nil || err2 != nil || !os.SameFile(ours, named) {
		return nil, errors.Join(&InUseError{Dir: dir}, lock.release())
	}
	return lock, nil
}

// release gives the directory up.
func (l *dirLock) release() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("devcluster: release %s: %w", l.file.Name(), err)
	}
	return nil
}
