package e2e

import "syscall"

// setDeathSignal makes the kernel kill the child when the thread that started it ends.
func setDeathSignal(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
