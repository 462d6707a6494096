// Package process runs the programs that a benchmark measures: each as a process of its own, beside this one.
package process

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// How long a process may take to answer for the first time, and to end when it is asked to.
const (
	answerTimeout = time.Minute
	endTimeout    = 30 * time.Second
	askInterval   = 50 * time.Millisecond
)

// Child is a process that was started. It is to be ended with Stop or Kill; doing so again is safe.
type Child struct {
	cmd    *exec.Cmd
	output *tail
	ended  chan struct{}
}

// Start starts a program with env beside this process's environment.
func Start(program string, env []string, args ...string) (*Child, error) {
	c := &Child{cmd: exec.Command(program, args...), output: &tail{}, ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	go func() { _ = c.cmd.Wait(); close(c.ended) }() // how it ended is in ProcessState
	return c, nil
}

// Stop asks the process to end, waits for that, and kills it after half a minute.
func (c *Child) Stop() error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended
	timer := time.NewTimer(endTimeout)
	defer timer.Stop()
	select {
	case <-c.ended:
		return nil
	case <-timer.C:
		c.Kill()
		return fmt.Errorf("%s did not end within %s and was killed", c.cmd.Path, endTimeout)
	}
}

// Kill kills the process and waits for its end.
func (c *Child) Kill() {
	_ = c.cmd.Process.Kill() // fails if it has ended
	<-c.ended
}

// AwaitHTTP waits until the address answers with 200. It fails when the process ends, and after a minute.
func (c *Child) AwaitHTTP(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	ticker := time.NewTicker(askInterval)
	defer ticker.Stop()
	for !answers(ctx, url) {
		select {
		case <-c.ended:
			return fmt.Errorf("%s ended (%s) before it answered at %s\n%s", c.cmd.Path, c.cmd.ProcessState, url, c.output)
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer at %s: %w\n%s", c.cmd.Path, url, ctx.Err(), c.output)
		case <-ticker.C:
		}
	}
	return nil
}

func answers(ctx context.Context, url string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Run runs a program to its end. What it printed is in the error.
func Run(ctx context.Context, program string, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", program, args, err, out)
	}
	return nil
}

// FreeAddress returns a loopback address that nobody listens on just now.
func FreeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// tail keeps the end of what a process prints.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const tailBytesMax = 16 << 10

// Write takes what the process prints.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.buf.Len() > tailBytesMax {
		t.buf.Next(t.buf.Len() - tailBytesMax/2)
	}
	return t.buf.Write(p)
}

// String returns what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
