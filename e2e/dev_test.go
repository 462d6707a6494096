package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/devcluster"
)

const (
	nobodyUID = 65534
	// devLimit is how long one run of all scenarios may take, beside other tests.
	devLimit = 4 * time.Minute
	devReady = "Running until you press Ctrl-C."
)

// scenarios are what dev must show at least.
var scenarios = []string{
	"saga commits", "TCC commits", "three steps in parallel", "refused at step 3", "same operation, other content",
	"null compensation", "hanging try", "duplicate submission", "lost reply", "participant down", "handler panics",
	"the bank's total",
}

// row is one scenario in what dev writes with -o json.
type row struct {
	Scenario, Expected, Got string
}

// dev is one run of "coordinator dev".
type dev struct {
	*process
	stdout *bytes.Buffer
}

// startDev starts dev as the user uid, or as ourselves for 0, on a machine where nothing of it is known.
func startDev(t *testing.T, uid uint32, ready string, args ...string) dev {
	t.Helper()
	program(t, "coordinator")
	home, err := os.MkdirTemp(runDir, "home-") //nolint:usetesting // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	if uid != 0 {
		if err := os.Chown(home, int(uid), int(uid)); err != nil {
			t.Fatal(err)
		}
	}
	showLogsOfFailure(t, logsDir(t))
	d := dev{stdout: &bytes.Buffer{}}
	d.process = startProcess(t, spec{
		name: "coordinator dev", args: append([]string{"dev", "--ephemeral"}, args...), ready: ready,
		env: []string{"HOME=" + home, "XDG_CACHE_HOME="}, uid: uid, stdout: d.stdout,
	})
	return d
}

// results waits for the end and reads the results.
func (d dev) results(t *testing.T) (code int, results []row) {
	t.Helper()
	code = d.wait(t, devLimit)
	if err := json.Unmarshal(d.stdout.Bytes(), &results); err != nil {
		t.Fatalf("exit code %d, stdout is not the results: %v\n%s\n%s", code, err, d.stdout, d.log.tail())
	}
	for _, name := range scenarios {
		if !slices.ContainsFunc(results, func(r row) bool { return r.Scenario == name && r.Expected != "" }) {
			t.Errorf("%q is not in the results\n%s", name, d.stdout)
		}
	}
	return code, results
}

func wrong(results []row) (names []string) {
	for _, r := range results {
		if r.Got != r.Expected {
			names = append(names, r.Scenario)
		}
	}
	return names
}

var postgresLogPath = regexp.MustCompile(`log (/\S+)/state/postgres\.log`)

// runtimeDir is the directory that dev works in, as it said itself.
func (d dev) runtimeDir(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(d.log.path)
	if err != nil {
		t.Fatal(err)
	}
	match := postgresLogPath.FindSubmatch(raw)
	if match == nil {
		t.Fatalf("dev does not say where its PostgreSQL log is\n%s", raw)
	}
	return string(match[1])
}

// Everything comes out as expected, for two at the same time and for a user without privileges (M1, M3, M4, I-12).
func TestDev(t *testing.T) {
	t.Parallel()
	ordinary := uint32(0) // what we are
	if os.Geteuid() == 0 {
		ordinary = nobodyUID
	}
	for name, uid := range map[string]uint32{"as ourselves": 0, "as an ordinary user": ordinary} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // so both run at the same time
			d := startDev(t, uid, "", "--exit", "-o", "json")
			code, results := d.results(t)
			if bad := wrong(results); code != 0 || len(bad) > 0 {
				t.Errorf("exit code %d, wrong: %q\n%s", code, bad, d.stdout)
			}
			if dir := d.runtimeDir(t); exists(dir) {
				t.Errorf("%s is left behind", dir)
			}
		})
	}
}

// The scenarios notice a safeguard that is switched off, and nothing else is wrong then: without that, their
// success would mean nothing (M3, B1, B3, I-3, I-12).
func TestDevSabotage(t *testing.T) {
	t.Parallel()
	for safeguard, c := range map[string]struct{ want, may []string }{
		"tombstone":     {[]string{"hanging try", "the bank's total"}, nil},
		"stored-reply":  {[]string{"lost reply", "the bank's total"}, []string{"participant down"}}, // whose command may be there twice when it is back
		"content-check": {[]string{"same operation, other content"}, nil},
	} {
		t.Run(safeguard, func(t *testing.T) {
			t.Parallel()
			d := startDev(t, 0, "", "--exit", "-o", "json", "--sabotage", safeguard)
			code, results := d.results(t)
			if code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			got := slices.DeleteFunc(wrong(results), func(name string) bool { return slices.Contains(c.may, name) })
			if !slices.Equal(got, c.want) {
				t.Errorf("wrong: %q, want %q\n%s", got, c.want, d.stdout)
			}
		})
	}
}

// SIGTERM stops dev in order, and nothing is left.
func TestDevStops(t *testing.T) {
	t.Parallel()
	d := startDev(t, 0, devReady)
	dir, postgres := d.runtimeDir(t), d.postgres(t)
	d.signal(syscall.SIGTERM)
	if code := d.wait(t, stopLimit); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if alive(postgres) || exists(dir) {
		t.Errorf("left behind: PostgreSQL %v, %s %v", alive(postgres), dir, exists(dir))
	}
}

// SIGKILL takes PostgreSQL along; the next start removes the directory.
func TestDevIsKilled(t *testing.T) {
	t.Parallel()
	d := startDev(t, 0, devReady)
	dir, postgres := d.runtimeDir(t), d.postgres(t)
	d.kill()
	eventually(t, time.Minute, "PostgreSQL is gone", func() bool { return !alive(postgres) })
	eventually(t, time.Minute, "the directory is gone", func() bool { // a start gives up when the server takes its time
		c, err := devcluster.Start(t.Context(), devcluster.Config{})
		if err == nil {
			err = c.Stop(context.WithoutCancel(t.Context()))
		}
		if err != nil {
			t.Error(err)
		}
		return !exists(dir)
	})
}

// postgres returns the process id of dev's PostgreSQL.
func (d dev) postgres(t *testing.T) int {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(d.runtimeDir(t), "state", "postgres", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil || !alive(pid) {
		t.Fatalf("PostgreSQL is process %q, which is alive: %v (%v)", first, alive(pid), err)
	}
	return pid
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}
