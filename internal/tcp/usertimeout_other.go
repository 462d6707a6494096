//go:build !linux

package tcp

import (
	"syscall"
	"time"
)

// userTimeoutControl has nothing to set here: keepalives alone notice a dead peer.
func userTimeoutControl(time.Duration) func(network, address string, c syscall.RawConn) error {
	return nil
}
