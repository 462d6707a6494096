package devcluster

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

func itoa(n int) string { return strconv.Itoa(n) }

// A killed parent takes its server along; the next start removes what it left.
func TestParentIsKilled(t *testing.T) {
	t.Parallel()
	helper, rep := runRole(t, roleHold, "", 0)
	if rep.Error != "" {
		t.Fatal(rep.Error)
	}
	kill(t, helper, rep)
	startCluster(t, Config{})
	eventually(t, "the abandoned directory is swept", func() bool {
		if exists(rep.Runtime) { // the first sweep gives up when the server takes its time
			sweepStale(t.Context(), discard)
		}
		return !exists(rep.Runtime)
	})
}

func TestParentOfAnotherUserIsKilled(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // every test runs as an ordinary user already
	}
	helper, rep := runRole(t, roleHold, "", nobodyUID)
	if rep.Error != "" {
		t.Fatal(rep.Error)
	}
	kill(t, helper, rep)
	if removed, err := sweepOne(t.Context(), rep.Runtime); removed || err != nil || !exists(rep.Runtime) {
		t.Errorf("a directory of another user is swept: %v, %v", removed, err)
	}
	if err := os.RemoveAll(rep.Runtime); err != nil {
		t.Fatal(err)
	}
}

// The state of a killed parent opens at once, while its server may still be ending.
func TestStateOfKilledParentOpens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	helper, rep := runRole(t, roleHold, dir, 0)
	if rep.Error != "" {
		t.Fatal(rep.Error)
	}
	execSQL(t, rep.DSN, "CREATE TABLE kept AS SELECT 42::int4 AS n")
	makeStream(t, rep.NATSURL)
	_, err := Start(testContext(t), Config{Dir: dir})
	var inUse *InUseError
	if !errors.As(err, &inUse) || inUse.Holder != itoa(helper.Process.Pid) {
		t.Errorf("start beside the live parent: %v", err)
	}
	if err := helper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = helper.Wait() // killed
	c := startCluster(t, Config{Dir: dir})
	if got := query[int32](t, c.DSN("postgres"), "SELECT n FROM kept"); got != 42 {
		t.Errorf("read %d, want 42", got)
	}
	if !hasStream(t, c.NATSURL()) {
		t.Error("the stream is gone")
	}
}

// kill kills a parent and waits until its server and all its processes are gone.
func kill(t *testing.T, helper *exec.Cmd, rep report) {
	t.Helper()
	pids := family(t, rep.Pid)
	if len(pids) < 2 {
		t.Fatalf("the server has no children: %v", pids)
	}
	if err := helper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = helper.Wait() // killed
	for _, pid := range pids {
		eventually(t, "process "+itoa(pid)+" of the server is gone", func() bool { return gone(pid) })
	}
}

func TestWatchdog(t *testing.T) {
	t.Parallel()
	start := func() (*exec.Cmd, chan error) {
		cmd := exec.CommandContext(testContext(t), "sleep", "50")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		return cmd, ended
	}
	watched, ended := start()
	helper, rep := runRole(t, roleWatch, itoa(watched.Process.Pid), 0)
	if rep.Error != "" {
		t.Fatal(rep.Error)
	}
	if err := helper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if status, ok := watched.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGQUIT {
		t.Errorf("the watched process ended with %v, want SIGQUIT", watched.ProcessState)
	}

	spared, ended := start()
	release, err := startWatchdog(spared.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	release()
	if gone(spared.Process.Pid) {
		t.Error("a released watchdog ends the process")
	}
	_ = spared.Process.Kill()
	if <-ended; spared.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the spared process ended with %v, want SIGKILL", spared.ProcessState)
	}
}

func TestBusyStateDirIsSpared(t *testing.T) {
	t.Parallel()
	d, err := newRuntimeDir(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.remove() }()
	if removed, err := sweepOne(t.Context(), d.path); removed || err != nil {
		t.Errorf("a directory in use is swept: %v, %v", removed, err)
	}
	if filepath.Dir(d.path) != filepath.Clean(runtimeBase(nil)) || !isRuntimeName(filepath.Base(d.path)) {
		t.Errorf("%s would never be swept", d.path)
	}
}
