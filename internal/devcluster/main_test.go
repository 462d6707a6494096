package devcluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary runs again as another process, or user, in one of these roles.
const (
	envRole = "DEVCLUSTER_TEST_ROLE"
	envArg  = "DEVCLUSTER_TEST_ARG"

	roleHold  = "hold"  // start a cluster in directory arg, report it, wait to be killed
	roleCycle = "cycle" // start and stop an ephemeral cluster
	roleDial  = "dial"  // connect to the unix socket arg
	roleWatch = "watch" // set a watchdog on process arg, wait to be killed
)

// report is the one line that a role writes to its standard output.
type report struct {
	Error   string
	Pid     int
	DSN     string
	NATSURL string
	Runtime string
}

func TestMain(m *testing.M) {
	if role := os.Getenv(envRole); role != "" {
		play(role, os.Getenv(envArg))
		return
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), fmt.Sprintf("%s%d-*", runtimePrefix, os.Getpid())))
	if len(left) > 0 {
		fmt.Fprintln(os.Stderr, "directories left behind:", left)
		code = 1
	}
	os.Exit(code)
}

// play is the main function of a role.
func play(role, arg string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var rep report
	fail := func(err error) {
		if err != nil && rep.Error == "" {
			rep.Error = err.Error()
		}
	}
	hold := false
	switch role {
	case roleHold, roleCycle:
		c, err := Start(ctx, Config{Dir: arg})
		fail(err)
		if err != nil {
			break
		}
		rep.Pid, rep.DSN, rep.NATSURL, rep.Runtime = postmasterPid(c), c.DSN("postgres"), c.NATSURL(), c.runtime.path
		if hold = role == roleHold; !hold {
			fail(c.Stop(ctx))
		}
	case roleDial:
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", arg)
		fail(err)
		if err == nil {
			_ = conn.Close()
		}
	case roleWatch:
		pid, err := strconv.Atoi(arg)
		fail(err)
		_, err = startWatchdog(pid)
		fail(err)
		hold = true
	}
	_ = json.NewEncoder(os.Stdout).Encode(rep)
	if hold {
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
}

// runRole starts the test binary in a role, as user uid if that is not 0, and
// returns it with its report. It is killed and waited for at the end of the test.
func runRole(t *testing.T, role, arg string, uid uint32) (*exec.Cmd, report) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), envRole+"="+role, envArg+"="+arg)
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	if uid != 0 {
		cmd.Path = publicCopy(t, exe)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = stdin.Close()
		_ = cmd.Wait() // killed in many tests
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatalf("role %s reports nothing: %v", role, err)
	}
	var rep report
	if err := json.Unmarshal(line, &rep); err != nil {
		t.Fatalf("role %s reports %q: %v", role, line, err)
	}
	return cmd, rep
}

// publicCopy copies a program to where every user may run it.
func publicCopy(t *testing.T, exe string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "devcluster-test-") //nolint:usetesting // t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "test")
	if err := os.WriteFile(path, raw, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func postmasterPid(c *Cluster) int { return c.Postgres.proc.cmd.Process.Pid }

// startCluster starts a cluster and stops it at the end of the test.
func startCluster(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	c, err := Start(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopCluster(t, c) })
	return c
}

func stopCluster(t *testing.T, c *Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// eventually polls until ok holds, and fails the test after 20 s.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !ok() {
		if !pause(ctx, pollInterval) {
			t.Fatalf("not so after 20 s: %s", what)
		}
	}
}

// family returns a process and its children, from /proc.
func family(t *testing.T, pid int) []int {
	t.Helper()
	pids := []int{pid}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		if fields := statFields(path); len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, child)
		}
	}
	return pids
}

// statFields returns the fields of a /proc stat file from the state on.
func statFields(path string) []string {
	raw, _ := os.ReadFile(path) // none when the process has ended
	_, rest, _ := strings.Cut(string(raw), ") ")
	return strings.Fields(rest)
}

// gone tells whether a process has ended, waited for or not.
func gone(pid int) bool {
	fields := statFields(fmt.Sprintf("/proc/%d/stat", pid))
	return len(fields) == 0 || fields[0] == "Z"
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
