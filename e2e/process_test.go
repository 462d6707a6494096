package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// spec says what process to start.
type spec struct {
	name   string // of the log
	args   []string
	env    []string // beside the test's own
	ready  string   // what a line on stderr holds when the process is ready; "": do not wait
	uid    uint32   // run as this user; 0: as ourselves
	stdout io.Writer
}

// process is one run of a program. It ends with the test, however the test ends.
type process struct {
	name      string
	cmd       *exec.Cmd
	log       *processLog
	announced string // the line that said that it is ready
	done      chan struct{}
	forget    func()
}

// startProcess starts a program and waits until it is ready.
func startProcess(t *testing.T, s spec) *process {
	t.Helper()
	p, err := launch(s, program(t, strings.Fields(s.name)[0]), logsDir(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if s.ready != "" {
		p.announced = p.awaitLine(t)
	}
	return p
}

func launch(s spec, path, logs string) (*process, error) {
	log, err := openProcessLog(filepath.Join(logs, strings.ReplaceAll(s.name, " ", "-")+".log"), s.ready)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, s.args...)
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if s.stdout != nil {
		cmd.Stdout = s.stdout
	}
	cmd.Dir = "/"
	cmd.WaitDelay = 5 * time.Second // a child of its that survived would hold the pipe
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: s.uid, Gid: s.uid}
	}
	setDeathSignal(cmd.SysProcAttr)
	p := &process{name: s.name, cmd: cmd, log: log, done: make(chan struct{})}
	started := make(chan error)
	go func() { // the death signal comes when the thread ends that started the child: keep it
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		err = cmd.Wait()
		log.note("ended: %v %v", cmd.ProcessState, err)
		log.close()
		close(p.done)
	}()
	if err := <-started; err != nil {
		log.close()
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	log.note("started: process %d, %.100s", cmd.Process.Pid, strings.Join(s.args, " "))
	p.forget = undo.add(func() { p.signal(syscall.SIGKILL) })
	return p, nil
}

// awaitLine returns the line that says that the process is ready.
func (p *process) awaitLine(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	select {
	case line := <-p.log.ready:
		return line
	case <-p.done:
		t.Fatalf("%s ended before it was ready: %v\n%s", p.name, p.cmd.ProcessState, p.log.tail())
	case <-ctx.Done():
		t.Fatalf("%s is not ready: %v\n%s", p.name, context.Cause(ctx), p.log.tail())
	}
	return ""
}

// signal sends a signal to the process and its children that share its group.
func (p *process) signal(s syscall.Signal) {
	if p.runs() {
		p.log.note("%v", s)
		_ = syscall.Kill(-p.cmd.Process.Pid, s) // fails when it has just ended
	}
}

// kill kills the process and waits for its end.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
	p.forget()
}

// runs reports whether the process has not ended.
func (p *process) runs() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// wait waits for the process to end by itself and returns its exit code, -1 after a signal.
func (p *process) wait(t *testing.T, limit time.Duration) int {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-timer.C:
		t.Errorf("%s has not ended after %s\n%s", p.name, limit, p.log.tail())
		p.kill()
		return -1
	}
}

// processLog is a process's output in a file, for all runs of the process in a test.
type processLog struct {
	mu      sync.Mutex
	file    *os.File
	path    string
	partial []byte
	wanted  string
	ready   chan string // the first line that holds what is wanted
}

func openProcessLog(path, wanted string) (*processLog, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &processLog{file: f, path: path, wanted: wanted, ready: make(chan string, 1)}, nil
}

// Write appends to the file and looks at each whole line.
func (l *processLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted != "" {
		l.partial = append(l.partial, b...)
		for l.wanted != "" {
			line, rest, whole := bytes.Cut(l.partial, []byte("\n"))
			if !whole {
				break
			}
			if l.partial = rest; bytes.Contains(line, []byte(l.wanted)) {
				l.ready <- string(line)
				l.wanted, l.partial = "", nil
			}
		}
	}
	return l.file.Write(b)
}

func (l *processLog) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now().UTC().Format(time.RFC3339Nano)
	_, _ = fmt.Fprintf(l.file, "--- %s %s\n", now, fmt.Sprintf(format, args...)) // the log is for people only
}

func (l *processLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.file.Close()
}

// tail returns the end of the log.
func (l *processLog) tail() string { return tail(l.path) }

func tail(path string) string {
	const linesMax, lineBytesMax = 30, 400
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	lines = lines[max(0, len(lines)-linesMax):]
	for i, line := range lines {
		if len(line) > lineBytesMax {
			lines[i] = line[:lineBytesMax] + "…"
		}
	}
	return fmt.Sprintf("the last lines of %s:\n%s", filepath.Base(path), strings.Join(lines, "\n"))
}

// showLogsOfFailure prints the ends of all logs of a test if it failed.
func showLogsOfFailure(t *testing.T, logs string, more ...string) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		paths, _ := filepath.Glob(filepath.Join(logs, "*.log")) // fails on a bad pattern only
		for _, path := range append(paths, more...) {
			t.Log(tail(path))
		}
	})
}

// eventually polls until ok holds; nothing else announces what other processes do.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := poll(ctx, ok); err != nil {
		t.Fatalf("not so after %s: %s", limit, what)
	}
}

var errNotYet = errors.New("waited in vain")

func poll(ctx context.Context, ok func() bool) error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errNotYet
		}
	}
	return nil
}

// pause lets a random part of the work go by before something breaks. It is no synchronisation.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
