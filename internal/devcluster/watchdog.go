package devcluster

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// startWatchdog makes a process that sends SIGQUIT to pid when this process ends,
// however it ends: it reads a pipe whose other end only this process holds. It
// serves where the kernel has no death signal. release ends the watchdog quietly.
func startWatchdog(pid int) (release func(), err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	// It must outlive every context of ours.
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", `read -r _; kill -QUIT "$0"`, strconv.Itoa(pid))
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	_ = r.Close() // the child has its own
	if err != nil {
		_ = w.Close()
		return nil, err
	}
	return func() {
		_ = cmd.Process.Kill() // before w closes: it must not signal a reused pid
		_ = cmd.Wait()
		_ = w.Close()
	}, nil
}
