package devcluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
)

// process is a running child that ends with this process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has ended
	err  error         // how it ended; read after done

	expected atomic.Bool // somebody asked it to end
}

// childAttr makes a child run as ident, apart from the terminal's signals (the
// parent stops it in order on Ctrl-C), and end with its parent.
func childAttr(ident *identity) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Credential: ident.credential()}
	setDeathSignal(attr)
	return attr
}

// startProcess starts a child with the attributes of childAttr. The kernel sends a
// child its death signal when the thread that started it ends, not the process: so
// one goroutine keeps a thread from start to end. onExit runs there at the end.
func startProcess(cmd *exec.Cmd, onExit func(p *process)) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("start %s: %w", cmd.Path, err)
			return
		}
		release, err := guardChild(cmd.Process.Pid)
		if err != nil {
			err = errors.Join(fmt.Errorf("guard %s: %w", cmd.Path, err), cmd.Process.Kill())
			_ = cmd.Wait() // killed on purpose
			started <- err
			return
		}
		started <- nil
		p.err = cmd.Wait()
		release()
		onExit(p)
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// ended tells whether the child has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal asks the child to end; a child that has ended is no error.
func (p *process) signal(sig os.Signal) error {
	p.expected.Store(true)
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to %s (process %d): %w", sig, p.cmd.Path, p.cmd.Process.Pid, err)
	}
	return nil
}

// killGroup ends the child and its children at once and waits for the child.
func (p *process) killGroup() {
	p.expected.Store(true)
	if !p.ended() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // fails when it has just ended
	}
	<-p.done
}
