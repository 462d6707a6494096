package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/testdb"
)

// writePair writes a certificate for 127.0.0.1 and its key.
func writePair(t *testing.T, certFile, keyFile, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The first token is made on the database, lets its owner in over TLS as what it says, and ends when it is revoked.
func TestTokensAndTLSFromEndToEnd(t *testing.T) {
	noTokens(t)
	dsn, dir := testdb.NewDSN(t, coordinatorSchema), t.TempDir()
	t.Setenv("DATABASE_URL", dsn)
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePair(t, certFile, keyFile, "first")
	logs := &safeBuffer{}
	s, err := newServer(t.Context(), serverConfig{
		DatabaseURL: dsn, NATSURL: testdb.Cluster(t).NATSURL(), Prefix: testdb.Prefix(t), Listen: "0.0.0.0:0", TLSCert: certFile, TLSKey: keyFile,
		Connections: 6, Lanes: 2, Log: slog.New(slog.NewJSONHandler(logs, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(logs.String(), "coordinator token create") {
		t.Errorf("nobody can be let in, and the log does not say so: %s", logs)
	}
	s.certificate.interval = 0
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
	url := "https://127.0.0.1:" + port

	r := command(t, nil, "token", "create", "--tenant", "acme", "--client", "shop", "--roles", "client,viewer", "--reason", "first").want(t, exitOK, "roles client,viewer")
	secret := strings.TrimSpace(r.stdout)
	get := func(path, name string) int {
		t.Helper()
		pem, err := os.ReadFile(certFile)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), "GET", url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+secret)
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got := resp.TLS.PeerCertificates[0].Subject.CommonName; got != name || resp.TLS.Version < tls.VersionTLS12 || resp.ProtoMajor != 2 {
			t.Errorf("certificate of %s, TLS %x, HTTP/%d", got, resp.TLS.Version, resp.ProtoMajor)
		}
		return resp.StatusCode
	}
	if a, b := get("/v1/transactions", "first"), get("/v1/tokens", "first"); a != 200 || b != 403 {
		t.Errorf("HTTP %d and %d", a, b)
	}
	command(t, nil, "tx", "list", "--server", url, "--token-file", tokenFile(t, secret)).want(t, exitFailed, "certificate") // of an authority that nobody knows

	writePair(t, certFile, keyFile, "second")
	get("/healthz", "second")
	if err := os.WriteFile(keyFile, []byte("half of a ke"), 0o600); err != nil { // a renewal that goes wrong
		t.Fatal(err)
	}
	get("/healthz", "second")
	if !strings.Contains(logs.String(), "the one before stays") {
		t.Errorf("the log does not say that the certificate cannot be read: %s", logs)
	}

	var list []tokenForm
	r = command(t, nil, "token", "list", "-o", "json").want(t, exitOK)
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil || len(list) != 1 || list[0].Client != "shop" || strings.Contains(r.stdout, secret) {
		t.Fatalf("%v: %s", err, r.stdout)
	}
	command(t, strings.NewReader(""), "token", "revoke", list[0].ID.String(), "--reason", "x").want(t, exitUsage, "--yes")
	command(t, nil, "token", "revoke", list[0].ID.String(), "--yes").want(t, exitUsage, "--reason")
	command(t, nil, "token", "revoke", secret, "--yes", "--reason", "x").want(t, exitUsage, "not the ID")
	command(t, nil, "token", "revoke", someID, "--yes", "--reason", "x").want(t, exitFailed, "no such token")
	command(t, nil, "token", "revoke", list[0].ID.String(), "--yes", "--reason", "lost").want(t, exitOK, "is revoked")
	deadline := time.After(20 * time.Second)
	for get("/v1/transactions", "second") != 401 { // within the life of the cache
		select {
		case <-deadline:
			t.Fatal("it was not refused")
		case <-time.After(100 * time.Millisecond):
		}
	}
	r = command(t, nil, "token", "list", "--ended").want(t, exitOK)
	if !strings.Contains(r.stdout, "revoked") {
		t.Errorf("got %s", r.stdout)
	}
}

func TestTokenCommandsThatAreWrong(t *testing.T) {
	noTokens(t)
	t.Setenv("DATABASE_URL", "")
	command(t, nil, "token", "list").want(t, exitUsage, "DATABASE_URL")
	command(t, nil, "token", "create", "--roles", "boss").want(t, exitUsage, "client, viewer")
	command(t, nil, "token", "create", "--roles", "viewer", "--expires", "soon").want(t, exitUsage, "720h")
	t.Setenv("DATABASE_URL", testdb.NewDSN(t, testdb.Template{}))
	command(t, nil, "token", "list").want(t, exitFailed, `run "coordinator migrate"`)
	t.Setenv("DATABASE_URL", testdb.NewDSN(t, coordinatorSchema))
	command(t, nil, "token", "create", "--tenant", "*", "--client", "x", "--roles", "client").want(t, exitUsage, "one tenant")
	command(t, nil, "token", "create", "--roles", "viewer").want(t, exitUsage, "tenant")
}

// A flag goes before the environment, and that before the file; what is not known is named, and no secret shown.
func TestConfigPrint(t *testing.T) {
	noTokens(t)
	t.Setenv("DATABASE_URL", "postgres://ann:hunter2@db.example/x?sslmode=require&password=hunter2")
	t.Setenv("NATS_URL", "")
	t.Setenv("SAGACITY_LISTEN", "127.0.0.1:2")
	t.Setenv(envConfig, tokenFile(t, "listen: 127.0.0.1:3\nconnections: 33\nnats-url: nats://hunter2@a:4222,nats://u:hunter2@b:4222\nprefix: file\nwithout-tls: true\n"))
	printed := func(args ...string) map[string]setting {
		r := command(t, nil, append([]string{"config", "print", "-o", "json"}, args...)...).want(t, exitOK)
		var list []setting
		if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
			t.Fatalf("%v: %s", err, r.stdout)
		}
		if len(args) == 0 && strings.Contains(r.stdout, "hunter2") {
			t.Errorf("a password is shown: %s", r.stdout)
		}
		byName := map[string]setting{}
		for _, s := range list {
			byName[s.Name] = s
		}
		return byName
	}
	got := printed()
	for name, want := range map[string]setting{
		"database-url": {Value: "postgres://xxxxx@db.example/x?password=xxxxx&sslmode=require", Source: "environment"},
		"nats-url":     {Value: "nats://xxxxx@a:4222,nats://xxxxx@b:4222", Source: "file"},
		"listen":       {Value: "127.0.0.1:2", Source: "environment"}, "connections": {Value: "33", Source: "file"},
		"prefix": {Value: "file", Source: "file"}, "without-tls": {Value: "true", Source: "file"}, "auto-pause": {Value: "100", Source: "default"},
	} {
		want.Name = name
		if got[name] != want {
			t.Errorf("got %+v, want %+v", got[name], want)
		}
	}
	if got := printed("--listen", "127.0.0.1:1", "--redacted=false"); got["listen"] != (setting{"listen", "127.0.0.1:1", "flag"}) || !strings.Contains(got["nats-url"].Value, "hunter2") {
		t.Errorf("got %+v", got)
	}
	if hidden := redactURLs("host=x password=hunter2"); strings.Contains(hidden, "hunter2") {
		t.Errorf("got %q", hidden)
	}
	for text, says := range map[string]string{
		"no-such-flag: 1": "no-such-flag", "connections: hunter2": "value of connections", "[": `lines of "flag: value"`, "- a": `lines of "flag: value"`,
		strings.Repeat("#", 65<<10): "65536",
	} {
		for _, cmd := range [][]string{{"config", "print"}, {"serve"}} {
			r := command(t, nil, append(cmd, "--config", tokenFile(t, text))...).want(t, exitUsage, says)
			if strings.Contains(r.stderr, "hunter2") {
				t.Errorf("a value is shown: %s", r.stderr)
			}
		}
	}
	command(t, nil, "serve", "--config", "/nonexistent/file").want(t, exitUsage, "no such file", envConfig)
	for name, env := range map[string]string{
		"listen": "SAGACITY_LISTEN", "database-url": "DATABASE_URL", "token-file": envTokenFile, "config": envConfig, "events": "SAGACITY_EVENTS",
		"retention": "SAGACITY_RETENTION", "tls-key": "SAGACITY_TLS_KEY", "connections": "", "retry-floor": "SAGACITY_RETRY_FLOOR",
	} {
		if got := settingEnv(newServe().Flags().Lookup(name)); got != env {
			t.Errorf("the variable of %s is %q, want %q", name, got, env)
		}
	}
}
