package devcluster

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

var discard = slog.New(slog.DiscardHandler)

func TestSweepOne(t *testing.T) {
	t.Parallel()
	old := time.Now().Add(-2 * unlockedAge)
	for _, tc := range []struct {
		name  string
		make  func(t *testing.T, path string)
		swept bool
	}{
		{"abandoned", func(t *testing.T, path string) { writeFile(t, filepath.Join(path, lockName)) }, true},
		{"being made", func(*testing.T, string) {}, false},
		{"never locked", func(t *testing.T, path string) {
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"in use", func(t *testing.T, path string) {
			lock, err := lockDir(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = lock.release() })
		}, false},
		{"lock is a symbolic link", func(t *testing.T, path string) {
			if err := os.Symlink("/dev/null", filepath.Join(path, lockName)); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), runtimePrefix+"1-1")
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			tc.make(t, path)
			removed, err := sweepOne(t.Context(), path)
			if removed != tc.swept || exists(path) == tc.swept {
				t.Errorf("removed %v, want %v (error %v)", removed, tc.swept, err)
			}
		})
	}
}

// Makers and sweepers race: a made directory is locked and stays.
func TestSweepSparesDirectoriesBeingMade(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	stop := make(chan struct{})
	var sweepers sync.WaitGroup
	for range 2 {
		sweepers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				entries, _ := os.ReadDir(base)
				for _, entry := range entries {
					_, _ = sweepOne(t.Context(), filepath.Join(base, entry.Name()))
				}
			}
		})
	}
	made := 0
	for i := range 100 {
		path := filepath.Join(base, runtimePrefix+"1-"+itoa(i))
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		lock, err := lockDir(path)
		if err != nil {
			var inUse *InUseError
			if !errors.As(err, &inUse) && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("lost the race with %v", err)
			}
			continue
		}
		made++
		writeFile(t, filepath.Join(path, "state"))
		if err := (&runtimeDir{path: path, lock: lock}).remove(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	sweepers.Wait()
	if made == 0 {
		t.Error("no directory survived its making")
	}
}

func TestRuntimeNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"sagacity-12-345": true, "sagacity-12": false, "sagacity-x-1": false, "sagacity-1-1x": false,
		"sagacity-": false, "sagacity--1": false, "other-1-1": false, "sagacity-docs-1": false,
	} {
		if isRuntimeName(name) != want {
			t.Errorf("%s: got %v", name, !want)
		}
	}
}

func TestRuntimeBase(t *testing.T) {
	long := filepath.Join(t.TempDir(), "a-directory-name-that-makes-the-path-of-the-socket-too-long-for-any-kernel")
	t.Setenv("TMPDIR", long)
	if got := runtimeBase(nil); got != "/tmp" {
		t.Errorf("got %s", got)
	}
	closed, err := os.MkdirTemp("/tmp", "sg") //nolint:usetesting // the path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(closed) }()
	t.Setenv("TMPDIR", closed)
	if got := runtimeBase(nil); got != closed {
		t.Errorf("an ordinary user gets %s", got)
	}
	if got := runtimeBase(&identity{uid: 1, gid: 1}); got != "/tmp" {
		t.Errorf("root gets %s, which the server's user cannot reach", got)
	}
}

func writeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}
