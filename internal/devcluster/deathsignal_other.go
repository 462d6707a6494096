//go:build !linux

package devcluster

import "syscall"

// setDeathSignal does nothing: only Linux has a death signal.
func setDeathSignal(*syscall.SysProcAttr) {}

// guardChild ends the child with this process.
func guardChild(pid int) (release func(), err error) { return startWatchdog(pid) }
