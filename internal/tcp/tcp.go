// Package tcp makes TCP connections on which a dead peer does not go unnoticed for long (T2).
//
// Two settings are needed: keepalives notice a peer that is gone while nothing is sent, and TCP_USER_TIMEOUT one that
// is gone while sent data waits for its acknowledgement, when no keepalives are sent. Only Linux has the second one.
// Unix sockets ignore both.
package tcp

import (
	"net"
	"time"
)

// Defaults of Config.
const (
	DefaultKeepAlive   = 10 * time.Second
	DefaultUserTimeout = 20 * time.Second
)

const keepAliveProbes = 3

// Config bounds how long a dead peer goes unnoticed. Zero fields mean the defaults.
type Config struct {
	ConnectTimeout time.Duration // of a Dialer; zero: none
	KeepAlive      time.Duration // idle time before the first probe, and between the three; zero: DefaultKeepAlive
	UserTimeout    time.Duration // how long sent data may stay unacknowledged (Linux); zero: DefaultUserTimeout
}

func (c Config) keepAlive() net.KeepAliveConfig {
	d := c.KeepAlive
	if d == 0 {
		d = DefaultKeepAlive
	}
	return net.KeepAliveConfig{Enable: true, Idle: d, Interval: d, Count: keepAliveProbes}
}

func (c Config) userTimeout() time.Duration {
	if c.UserTimeout == 0 {
		return DefaultUserTimeout
	}
	return c.UserTimeout
}

// Dialer returns a dialer of such connections.
func (c Config) Dialer() *net.Dialer {
	return &net.Dialer{Timeout: c.ConnectTimeout, KeepAliveConfig: c.keepAlive(), Control: userTimeoutControl(c.userTimeout())}
}

// ListenConfig returns what listens for such connections: those that it accepts have the settings of its own socket.
func (c Config) ListenConfig() *net.ListenConfig {
	return &net.ListenConfig{KeepAliveConfig: c.keepAlive(), Control: userTimeoutControl(c.userTimeout())}
}
