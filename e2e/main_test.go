// Package e2e runs the built programs as processes, on a real PostgreSQL and a real NATS, and kills them.
//
// Every test has a cluster of its own, so what one test breaks no other test sees. The choices of a test come
// from a seed that it prints; E2E_SEED replays them. E2E_LONG=1 makes the crash tests longer, E2E_TRANSACTIONS and
// E2E_CLIENTS say how large TestCrashOfEverything is (make crash), and E2E_LOGS names a directory in which the logs
// of the processes are kept. E2E_VERDICTS names a file to which a test that prints verdicts writes them as JSON.
package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// dirPrefix is followed by the process id of the test and a random number.
const dirPrefix = "sagacity-e2e-"

// runDir holds the built programs and the logs, for the time of the test run.
var runDir string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	sweepAbandoned()
	var err error
	if runDir, err = os.MkdirTemp(tempBase(), fmt.Sprintf("%s%d-", dirPrefix, os.Getpid())); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	undo.add(func() { _ = os.RemoveAll(runDir) })
	stop := cleanUpWhenInterrupted()
	defer func() {
		undo.all()
		stop()
		if err := goleak.Find(); err != nil && code == 0 { // leaks of a failed test would hide its failure
			fmt.Fprintln(os.Stderr, "e2e:", err)
			code = 1
		}
	}()
	if err := os.Chmod(runDir, 0o755); err != nil { // one of the tests runs the programs as another user
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	return m.Run()
}

// tempBase is the temporary directory, or /tmp for root, who runs programs as somebody else too.
func tempBase() string {
	if os.Geteuid() == 0 {
		return "/tmp"
	}
	return os.TempDir()
}

// sweepAbandoned removes the directories of test runs that were killed.
func sweepAbandoned() {
	paths, _ := filepath.Glob(filepath.Join(tempBase(), dirPrefix+"*")) // fails on a bad pattern only
	for _, path := range paths {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), dirPrefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && syscall.Kill(n, 0) == syscall.ESRCH {
			_ = os.RemoveAll(path)
		}
	}
}

// undo is what has to be undone when the tests end, also if somebody interrupts them.
var undo undoList

type undoList struct {
	mu    sync.Mutex
	next  int
	steps map[int]func()
}

// add returns a function that undoes the step now. A step is undone once.
func (u *undoList) add(step func()) (now func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.steps == nil {
		u.steps = make(map[int]func())
	}
	u.next++
	id := u.next
	u.steps[id] = sync.OnceFunc(step)
	return func() {
		u.mu.Lock()
		step := u.steps[id]
		delete(u.steps, id)
		u.mu.Unlock()
		if step != nil {
			step()
		}
	}
}

// all undoes every step, the last first.
func (u *undoList) all() {
	u.mu.Lock()
	steps := u.steps
	u.steps = nil
	u.mu.Unlock()
	for id := u.next; id > 0; id-- {
		if step := steps[id]; step != nil {
			step()
		}
	}
}

// cleanUpWhenInterrupted leaves nothing behind on Ctrl-C. After a SIGKILL the kernel ends the processes, and
// the next run removes the directories.
func cleanUpWhenInterrupted() (stop func()) {
	signals, ended := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case s := <-signals:
			fmt.Fprintln(os.Stderr, "e2e:", s)
			undo.all()
			os.Exit(1)
		case <-ended:
		}
	})
	return func() {
		signal.Stop(signals)
		close(ended)
		watching.Wait()
	}
}

// built builds the programs once, when the first test asks.
var built = sync.OnceValues(func() (string, error) {
	if err := lookAtSources(); err != nil {
		return "", err
	}
	dir := filepath.Join(runDir, "bin")
	args := []string{"build", "-o", dir + "/"}
	if raceEnabled {
		args = append(args, "-race")
	}
	args = append(args, "github.com/sagacity-tx/sagacity/cmd/coordinator", "github.com/sagacity-tx/sagacity/cmd/participant")
	out, err := exec.CommandContext(context.Background(), "go", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return dir, nil
})

// lookAtSources looks at everything that the programs are built from. The go command keeps the result of a test
// until a file changes that the test has looked at, and does not see what its own child reads.
func lookAtSources() error {
	return filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "bin") {
			return fs.SkipDir
		}
		if err == nil && !d.IsDir() {
			_, err = os.Stat(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone since the directory was read
		}
		return err
	})
}

// program returns the path of a built program.
func program(t *testing.T, name string) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// long is by how much E2E_LONG multiplies the work of the crash tests.
func long() int {
	if os.Getenv("E2E_LONG") != "" && os.Getenv("E2E_LONG") != "0" {
		return 10
	}
	return 1
}

// random returns the source of a test's choices.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if given := os.Getenv("E2E_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("E2E_SEED is %q: %v", given, err)
		}
	}
	t.Logf("E2E_SEED=%d go test ./e2e -run '^%s$'", seed, t.Name())
	return rand.New(rand.NewPCG(seed, 0))
}

// spread returns n increasing numbers below limit: one at random in each nth of it.
func spread(rnd *rand.Rand, n, limit int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i*limit/n + rnd.IntN(limit/n)
	}
	return numbers
}

// pick returns one of the values.
func pick[T any](rnd *rand.Rand, values ...T) T { return values[rnd.IntN(len(values))] }

func logsDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(cmp.Or(os.Getenv("E2E_LOGS"), filepath.Join(runDir, "logs")), strings.ReplaceAll(t.Name(), "/", "-"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
