package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// timeout bounds one question, on either side.
const timeout = 3 * time.Second

// Check asks the process at base, such as http://127.0.0.1:8080, whether it is ready.
func Check(ctx context.Context, base string) error {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("the URL is not valid; use http(s)://host:port") // the cause could repeat a password
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(u.String(), "/")+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	direct := &http.Transport{DisableKeepAlives: true} // no proxy: it is this machine, or a neighbour
	resp, err := (&http.Client{Transport: direct}).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s is not ready: HTTP %d", u.Host, resp.StatusCode)
	}
	return nil
}

// Serve answers on the listener until ctx ends. It returns nil then.
func Serve(ctx context.Context, l net.Listener, ready func(context.Context) error) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), timeout-time.Second) // so that the answer comes in time
		defer cancel()
		if ready(ctx) != nil {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ready\n")
	})
	s := &http.Server{
		Handler: mux, ReadHeaderTimeout: timeout, ReadTimeout: timeout, WriteTimeout: 2 * timeout, IdleTimeout: timeout,
		MaxHeaderBytes: 8 << 10,
	}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve health on %s: %w", l.Addr(), err)
	}
	return nil
}
