package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/devcluster"
)

// A test run that somebody ends leaves no process behind, and its directories only until the next run.
func TestInterruptedRunLeavesNothing(t *testing.T) {
	t.Parallel()
	program(t, "coordinator") // what cannot be built, the runs cannot build either
	for name, sig := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGKILL": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logs := t.TempDir()
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			run := exec.CommandContext(t.Context(), exe, "-test.run=^TestCrashOfCoordinator$", "-test.v")
			run.Env = append(os.Environ(), "E2E_LOGS="+logs, "E2E_LONG=1")
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() { _ = run.Wait(); close(ended) }() // it is ended by a signal
			eventually(t, devLimit, "the run has its processes", func() bool {
				select {
				case <-ended:
					t.Fatalf("the run ended by itself: %v", run.ProcessState)
				default:
				}
				return len(startedIn(t, logs)) >= 4 // migrate, a coordinator, two banks
			})
			if err := run.Process.Signal(sig); err != nil {
				t.Error(err)
			}
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Fatal("the run goes on")
			}
			for _, pid := range startedIn(t, logs) {
				eventually(t, time.Minute, fmt.Sprintf("process %d is gone", pid), func() bool { return !alive(pid) })
			}
			if sig != syscall.SIGKILL {
				checkNoDirs(t, run.Process.Pid)
				return
			}
			eventually(t, time.Minute, "the next run has removed the directories", func() bool {
				sweepAbandoned()
				c, err := devcluster.Start(t.Context(), devcluster.Config{})
				if err == nil {
					err = c.Stop(context.WithoutCancel(t.Context()))
				}
				return err == nil && len(dirsOf(run.Process.Pid)) == 0
			})
		})
	}
}

var startedLine = regexp.MustCompile(`started: process (\d+)`)

// startedIn reads the ids of the processes that a run has started from their logs.
func startedIn(t *testing.T, logs string) (pids []int) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(logs, "*", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range startedLine.FindAllSubmatch(raw, -1) {
			pid, err := strconv.Atoi(string(match[1]))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// dirsOf are the directories of a run and of its cluster.
func dirsOf(pid int) (paths []string) {
	for _, prefix := range []string{"sagacity-", dirPrefix} {
		for _, base := range []string{"/tmp", os.TempDir()} {
			found, _ := filepath.Glob(filepath.Join(base, fmt.Sprintf("%s%d-*", prefix, pid))) // fails on a bad pattern only
			paths = append(paths, found...)
		}
	}
	return paths
}

func checkNoDirs(t *testing.T, pid int) {
	t.Helper()
	if left := dirsOf(pid); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
