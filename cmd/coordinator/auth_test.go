package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/testdb"
)

const testToken = "0123456789abcdef0123456789abcdef"

func noTokens(t *testing.T) {
	t.Helper()
	t.Setenv(envToken, "")
	t.Setenv(envTokenFile, "")
}

func tokenFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What listens where others reach it needs tokens and TLS. It says what to set.
func TestServeRefusesToListen(t *testing.T) {
	noTokens(t)
	const noAuth, noTLS = "leave --anonymous out", "give --tls-cert and --tls-key, or --without-tls"
	for _, c := range []struct {
		args    string
		says    []string
		saysNot string
	}{
		{"--listen 0.0.0.0:8080", []string{noTLS, "loopback"}, noAuth},
		{"--listen :8080", []string{noTLS}, noAuth},
		{"--listen [::]:8080", []string{noTLS}, noAuth},
		{"--listen 10.1.2.3:8080", []string{noTLS}, noAuth},
		{"--listen coordinator:8080", []string{noTLS}, noAuth},
		{"--listen localhost.example:8080", []string{noTLS}, noAuth},
		{"--listen 0.0.0.0:8080 --anonymous", []string{noAuth, noTLS, "coordinator token create"}, "nothing"},
		{"--listen 0.0.0.0:8080 --anonymous --without-tls", []string{noAuth}, noTLS},
		{"--listen 8080", []string{"give host:port"}, "nothing"},
		{"--tls-cert x.pem", []string{"--tls-cert and --tls-key belong together"}, "nothing"},
		{"--listen 0.0.0.0:8080 --tls-key x.pem", []string{"--tls-cert and --tls-key belong together"}, "nothing"},
		{"--tls-cert /nonexistent/x.pem --tls-key /nonexistent/y.pem", []string{"no such file", "check --tls-cert"}, "nothing"},
		{"--token-file " + tokenFile(t, " \n"), []string{"is empty"}, "nothing"},
		{"--token-file /nonexistent/token", []string{"no such file", envTokenFile}, "nothing"},
	} {
		args := strings.Fields("serve --database-url postgres://127.0.0.1:1/x " + c.args)
		r := command(t, nil, args...).want(t, exitUsage, c.says...)
		if strings.Contains(r.stderr, c.saysNot) {
			t.Errorf("%s says %q: %s", c.args, c.saysNot, r.stderr)
		}
	}
}

// A configured token that could be guessed is refused, without being shown.
func TestConfiguredTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	for token, says := range map[string]string{
		testToken[1:]: "at least 32 characters", testToken + "\x00": "letters, digits", strings.Repeat("secret", 1000): "at most 1024",
	} {
		_, err := authenticator(&serverConfig{Token: token}, nil)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), envTokenFile) || strings.Contains(err.Error(), token) {
			t.Errorf("got %v", err)
		}
	}
}

// The environment has the token or names its file; the file goes first, and a flag before both.
func TestReadToken(t *testing.T) {
	noTokens(t)
	want := func(what, file, token string) {
		t.Helper()
		if got, err := readToken(file); err != nil || got != token {
			t.Errorf("%s: got %q, %v", what, got, err)
		}
	}
	want("nothing", "", "")
	t.Setenv(envToken, "direct\n")
	want("the environment", "", "direct")
	t.Setenv(envTokenFile, tokenFile(t, "filed\r\n"))
	want("a file", "", "filed")
	want("a flag", tokenFile(t, "flagged"), "flagged")
}

// A coordinator that others reach answers those who have its token, and the command line takes it from the
// environment only.
func TestTokenFromEndToEnd(t *testing.T) {
	noTokens(t)
	s, err := newServer(t.Context(), serverConfig{
		DatabaseURL: testdb.NewDSN(t, coordinatorSchema), NATSURL: testdb.Cluster(t).NATSURL(), Prefix: testdb.Prefix(t),
		Listen: "0.0.0.0:0", Token: testToken, WithoutTLS: true, Connections: 6, Lanes: 2, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	_, port, err := net.SplitHostPort(s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	url := "http://127.0.0.1:" + port
	list := func() result { return command(t, nil, "tx", "list", "--server", url) }
	list().want(t, exitAuth, "unauthenticated", envTokenFile, envToken)
	t.Setenv(envToken, testToken[1:]+"x")
	list().want(t, exitAuth, "unauthenticated")
	t.Setenv(envToken, testToken)
	list().want(t, exitOK)
	command(t, nil, "dlq", "list", "--server", url).want(t, exitOK)
	t.Setenv(envTokenFile, tokenFile(t, testToken+"\n"))
	t.Setenv(envToken, "")
	list().want(t, exitOK)
	t.Setenv(envTokenFile, "/nonexistent/token")
	list().want(t, exitUsage, "no such file")
	t.Setenv(envTokenFile, "")
	t.Setenv(envToken, "with a space")
	list().want(t, exitUsage, "token")

	t.Setenv(envToken, "")
	r := command(t, nil, "health", "--server", url).want(t, exitOK) // needs none
	if r.stdout != "ready\n" {
		t.Errorf("health printed %q", r.stdout)
	}
	for _, cmd := range allCommands(newRoot(os.Stdout, os.Stderr)) {
		if cmd.Flags().Lookup("token") != nil {
			t.Errorf("%s takes a token as an argument, which everyone on the machine sees", cmd.CommandPath())
		}
	}
}

func TestHealthOfNobody(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	command(t, nil, "health", "--server", "http://"+l.Addr().String()+"/?x").want(t, exitFailed, "use http(s)://host:port")
	served := make(chan struct{})
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})}
	go func() { defer close(served); _ = server.Serve(l) }()
	command(t, nil, "health", "--server", "http://"+l.Addr().String()).want(t, exitFailed, "not ready: HTTP 503")
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	<-served
	command(t, nil, "health", "--server", "http://"+l.Addr().String()).want(t, exitFailed, "refused", "--server")
}
