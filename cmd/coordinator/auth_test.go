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

// What listens where others reach it needs a token, and someone who has thought of TLS. It says what to set.
func TestServeRefusesToListen(t *testing.T) {
	noTokens(t)
	const noToken, noTLS = "SAGACITY_TOKEN_FILE or --token-file", "--without-tls"
	good := tokenFile(t, testToken+"\n")
	for _, c := range []struct {
		args    string
		says    []string
		saysNot string
	}{
		{"--listen 0.0.0.0:8080", []string{noToken, noTLS, "loopback"}, "nothing"},
		{"--listen :8080", []string{noToken, noTLS}, "nothing"},
		{"--listen [::]:8080", []string{noToken, noTLS}, "nothing"},
		{"--listen 10.1.2.3:8080", []string{noToken, noTLS}, "nothing"},
		{"--listen coordinator:8080", []string{noToken, noTLS}, "nothing"},
		{"--listen localhost.example:8080", []string{noToken, noTLS}, "nothing"},
		{"--listen 0.0.0.0:8080 --without-tls", []string{noToken}, noTLS + ":"},
		{"--listen 0.0.0.0:8080 --token-file " + good, []string{noTLS}, noToken},
		{"--listen 8080", []string{"give host:port"}, "nothing"},
		{"--token-file " + tokenFile(t, testToken[1:]), []string{"at least 32 characters", envTokenFile}, testToken[1:]},
		{"--token-file " + tokenFile(t, testToken+"\x00"), []string{"letters, digits"}, testToken},
		{"--token-file " + tokenFile(t, strings.Repeat("secret", 1000)), []string{"at most 1024"}, "secret"},
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
