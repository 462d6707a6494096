//go:build !linux

package e2e

import "syscall"

// setDeathSignal does nothing: there is no such signal here. An interrupt cleans up, a SIGKILL does not.
func setDeathSignal(*syscall.SysProcAttr) {}
