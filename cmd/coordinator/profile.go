package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// Profiles may take half a minute to gather, and longer if their caller wants it so.
const profileTimeout = 5 * time.Minute

// profiles serves what the process does to its operator, at an address of its own (O2).
type profiles struct {
	listener net.Listener
	http     *http.Server
	ended    chan struct{}
}

// serveProfiles listens on a loopback address, whose port may be 0, until close. Profiles show parts of payloads, so
// nobody else gets them.
func serveProfiles(ctx context.Context, address string, log *slog.Logger) (*profiles, error) {
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, usageError("--pprof-listen is %q; give a loopback address with a port, for example 127.0.0.1:6060", address)
	}
	listener, err := listen(ctx, address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	p := &profiles{
		listener: listener, ended: make(chan struct{}),
		http: &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: profileTimeout, IdleTimeout: profileTimeout},
	}
	go func() {
		defer close(p.ended)
		if err := p.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("profiles are not served any more", "error", err)
		}
	}()
	return p, nil
}

func (p *profiles) close() {
	_ = p.http.Close() // what is being gathered is of no use any more
	<-p.ended
}
