package devcluster

import (
	"fmt"
	"log/slog"
)

// natsLog passes the server's warnings and errors on and keeps its first fatal error.
type natsLog struct {
	log   *slog.Logger
	fatal chan error
}

// Fatalf keeps the message for the start that waits; it does not end the process.
func (l *natsLog) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	l.log.Error("NATS failed", "error", err)
	select {
	case l.fatal <- err:
	default:
	}
}

// Errorf logs an error.
func (l *natsLog) Errorf(format string, args ...any) {
	l.log.Error("NATS: " + fmt.Sprintf(format, args...))
}

// Warnf logs a warning.
func (l *natsLog) Warnf(format string, args ...any) {
	l.log.Warn("NATS: " + fmt.Sprintf(format, args...))
}

// Noticef logs the server's progress, which is detail here.
func (l *natsLog) Noticef(format string, args ...any) {
	l.log.Debug("NATS: " + fmt.Sprintf(format, args...))
}

// Debugf discards.
func (*natsLog) Debugf(string, ...any) {}

// Tracef discards.
func (*natsLog) Tracef(string, ...any) {}
