package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// child is a process that was started and is stopped at the end.
type child struct {
	cmd    *exec.Cmd
	output *tail
	ended  chan struct{}
	err    error
}

func startChild(program string, env []string, args ...string) (*child, error) {
	c := &child{cmd: exec.Command(program, args...), output: &tail{}, ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	go func() { c.err = c.cmd.Wait(); close(c.ended) }()
	return c, nil
}

// stop asks the process to end, and kills it after half a minute.
func (c *child) stop() error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.ended:
	case <-time.After(30 * time.Second):
		return errors.Join(fmt.Errorf("%s did not end within 30 s and was killed", c.cmd.Path), c.cmd.Process.Kill())
	}
	return nil
}

func runToEnd(ctx context.Context, program string, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", program, args, err, out)
	}
	return nil
}

// awaitHTTP waits until the address answers with 200, or the process behind it has ended.
func awaitHTTP(ctx context.Context, url string, c *child) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(r); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-c.ended:
			return fmt.Errorf("%s ended: %w\n%s", c.cmd.Path, c.err, c.output)
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer at %s\n%s", c.cmd.Path, url, c.output)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// freeAddress returns a loopback address that nobody listens on just now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
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
