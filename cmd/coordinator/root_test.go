package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/internal/testdb"
)

const someID = "0198c7a2-5b7e-7c31-9f6e-0a4b1c2d3e4f"

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, says string }{
		{"", "coordinator needs a command"},
		{"nosuch", `coordinator has no command "nosuch"`},
		{"tx", "coordinator tx needs a command"},
		{"tx lst", "or list? see: coordinator tx --help"},
		{"completion nosuch", `has no command "nosuch"`},
		{"--nosuch", "unknown flag: --nosuch"},
		{"tx list --nosuch", "unknown flag: --nosuch (see: coordinator tx list --help)"},
		{"tx list extra", "coordinator tx list --help"},
		{"tx list -o xml", "use one of table, json, yaml"},
		{"tx list --status finished", "use one of accepted, running"},
		{"tx list --limit 0", "--limit is 0"},
		{"tx list --definition a.b", "--definition"},
		{"tx list --server ftp://127.0.0.1", "--server"},
		{"tx get", "needs the ID of one transaction"},
		{"tx get not-an-id", "36 characters"},
		{"tx get " + someID + " --request-id x", "one of the two"},
		{"tx wait " + someID + " --for -1s", "--for is -1s"},
		{"tx cancel " + someID, "--reason"},
		{"tx start", "give its file with -f"},
		{"tx start -f x --request-id \u00fc", "--request-id"},
		{"tx start -f x --wait 30s", "--wait=30s"},
		{"dlq show", "needs the ID of one dead letter"},
		{"dlq show 1", "is not the ID of a dead letter"},
		{"dlq list --transaction 1", "--transaction"},
		{"dlq replay " + someID, "--reason"},
		{"dlq replay " + someID + " --reason x --break-glass", "at least 30"},
		{"dlq replay " + someID + " --reason x --break-glass --approval " + someID, "not both"},
		{"dlq replay " + someID + " --reason x --approval 1", "is not the ID of an approval"},
		{"dlq approve " + someID, "--reason"},
		{"dlq approve " + someID + " --reason x --expires-in 25h", "use 1s to 24h"},
		{"dlq edit " + someID + " --reason x", "--input FILE"},
		{"dlq edit " + someID + " --reason x --input -", "input"},
		{"approval", "coordinator approval needs a command"},
		{"approval list --dead-letter 1", "is not the ID of a dead letter"},
		{"approval list --status gone", "use one of open, used"},
		{"approval revoke", "needs the ID of one approval"},
		{"approval revoke " + someID, "--reason"},
		{"serve --database-url postgres://127.0.0.1:1/x --approval-expiry 25h", "use 1s to 24h"},
		{"pause", "needs one of --all, --definition, --participant and --action"},
		{"pause --all --participant p --reason x", "needs one of --all"},
		{"pause --all=false --reason x", "--all=false says nothing"},
		{"pause --all", "--reason"},
		{"pause --all --reason x", "there is no terminal to ask on"},
		{"pause --participant a.b --reason x --yes", "participant is"},
		{"pause --action debit --reason x --yes", "action is"},
		{"pause --definition= --reason x --yes", "definition is"},
		{"pause lst", "coordinator pause --help"},
		{"resume", "needs one of --all, --definition, --participant and --action"},
		{"resume 1 --reason x", "is not the ID of a pause"},
		{"resume " + someID + " --all --reason x", "an ID or a scope, not both"},
		{"resume --all", "--reason"},
		{"participant", "coordinator participant needs a command"},
		{"participant pause", "needs the name of one participant"},
		{"participant pause a.b --reason x", "participant is"},
		{"participant resume bank-a", "--reason"},
		{"serve --database-url postgres://127.0.0.1:1/x --retry-percent 0", "--retry-percent is 0; give 1 or more"},
		{"serve --database-url postgres://127.0.0.1:1/x --drain-ceiling -1", "--drain-ceiling is -1; give 0 or more"},
		{"serve --database-url postgres://127.0.0.1:1/x --auto-pause many", "--auto-pause"},
		{"serve --database-url postgres://127.0.0.1:1/x --pprof-listen 0.0.0.0:6060", "give a loopback address"},
		{"serve --database-url postgres://127.0.0.1:1/x --pprof-listen 6060", "give a loopback address"},
		{"bench --work nosuch", "use noop, bank, tcc"},
		{"bench --clients 0", "--clients has 0"},
		{"bench --runs 0", "--runs is 0"},
		{"bench --lanes 30", "two connections more than lanes"},
		{"bench --duration 0s", "--duration is 0s"},
		{"bench -o yaml", "use one of table, json, markdown"},
		{"serve --log-level loud", "--log-level"},
		{"serve --listen 0.0.0.0:8080 --database-url postgres://127.0.0.1:1/x", "loopback only"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			r := command(t, strings.NewReader(""), strings.Fields(c.args)...).want(t, exitUsage, c.says)
			if r.stdout != "" {
				t.Errorf("a usage error writes to stdout: %s", r.stdout)
			}
		})
	}
}

func TestServerThatCannotBeReached(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close() // nobody listens there now
	says := []string{"cannot reach the coordinator at " + url, "coordinator dev", "coordinator serve", "--server"}
	command(t, nil, "tx", "list", "--server", url).want(t, exitFailed, append(says, "list transactions")...)
	command(t, strings.NewReader("{}"), "tx", "start", "-f", "-", "--request-id", "r1", "--server", url).
		want(t, exitFailed, says...).want(t, exitFailed, "not known", "--request-id r1", "coordinator tx get --request-id r1")
	command(t, nil, "tx", "wait", someID, "--for", "2s", "--server", url).want(t, exitFailed, append(says, someID)...)

	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hangs.Close)
	command(t, nil, "tx", "wait", someID, "--for", "100ms", "--server", hangs.URL).want(t, exitWaitTimeout, someID, "before "+hangs.URL+" answered")
}

func TestAnswersOfOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		body   string
		code   int
		says   string
	}{
		{http.StatusUnauthorized, `{"code":"unauthenticated","title":"There is no valid credential.","detail":"Send one."}`, exitAuth, "There is no valid credential. Send one."},
		{http.StatusForbidden, `{"code":"forbidden","title":"Not allowed.","detail":""}`, exitAuth, "forbidden, HTTP 403"},
		{http.StatusNotFound, "<html>", exitFailed, "not as a coordinator does; check --server"},
		{http.StatusOK, "<html>", exitFailed, "cannot be read"},
		{http.StatusBadRequest, `{"code":"x","title":"\u001b]0;evil\u0007","detail":"\u202e"}`, exitFailed, `\x1b]0;evil\a \u202e`},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		command(t, nil, "tx", "get", someID, "--server", server.URL).want(t, c.code, c.says, "read transaction "+someID)
		server.Close()
	}
}

func TestFilesThatCannotBeSent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty, large := filepath.Join(dir, "empty"), filepath.Join(dir, "large")
	for path, size := range map[string]int{empty: 0, large: 1<<20 + 1} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command(t, nil, "tx", "start", "-f", filepath.Join(dir, "none")).want(t, exitFailed, "none", "no such file")
	command(t, nil, "tx", "start", "-f", empty).want(t, exitFailed, "is empty")
	command(t, nil, "tx", "start", "-f", large).want(t, exitFailed, "has more than 1048576 bytes")
}

// TestNoSecrets: addresses with passwords come from the environment, and show neither in help nor in errors.
func TestNoSecrets(t *testing.T) {
	const secret = "hunter2"
	t.Setenv("DATABASE_URL", "postgres://user:"+secret+"@127.0.0.1:1/db?connect_timeout=1")
	t.Setenv("NATS_URL", "nats://user:"+secret+"@127.0.0.1:1")
	t.Setenv("SAGACITY_SERVER", "http://user:"+secret+"@127.0.0.1:1")
	root := newRoot(os.Stdout, os.Stderr)
	var all [][]string
	for _, cmd := range allCommands(root) {
		path := strings.Fields(cmd.CommandPath())[1:]
		all = append(all, append(path, "--help"))
	}
	all = append(all, []string{"serve"}, []string{"migrate"}, []string{"tx", "list"}, []string{"dlq", "list"}, []string{"version"})
	for _, args := range all {
		r := command(t, strings.NewReader(""), args...)
		if strings.Contains(r.stdout+r.stderr, secret) {
			t.Errorf("coordinator %s shows a password:\n%s%s", strings.Join(args, " "), r.stdout, r.stderr)
		}
		if args[len(args)-1] == "--help" && (r.code != exitOK || r.stdout == "" || r.stderr != "") {
			t.Errorf("coordinator %s: exit code %d, %d bytes on stdout, stderr %q", strings.Join(args, " "), r.code, len(r.stdout), r.stderr)
		}
	}
	for _, broken := range []string{"postgres://user:" + secret + "@127.0.0.1:port/db", "host=127.0.0.1 password=" + secret + " port=x", "postgres://user:" + secret + "@[::1/db"} {
		t.Setenv("DATABASE_URL", broken)
		for _, args := range [][]string{{"serve"}, {"migrate"}} {
			if r := command(t, nil, args...).want(t, exitFailed); strings.Contains(r.stderr, secret) {
				t.Errorf("%s shows a password: %s", args[0], r.stderr)
			}
		}
	}
}

func TestMigrateServeAndVersion(t *testing.T) {
	t.Setenv("DATABASE_URL", "")
	for _, args := range [][]string{{"serve"}, {"migrate"}} {
		command(t, nil, args...).want(t, exitUsage, "DATABASE_URL")
	}
	dsn := testdb.NewDSN(t, testdb.Template{})
	t.Setenv("DATABASE_URL", dsn)
	command(t, nil, "serve").want(t, exitFailed, `run "coordinator migrate"`)
	for _, says := range []string{"migrations applied\n", "0 migrations applied\n"} {
		if r := command(t, nil, "migrate").want(t, exitOK); !strings.HasSuffix(r.stdout, says) {
			t.Errorf("migrate printed %q, want %q", r.stdout, says)
		}
	}
	command(t, nil, "serve", "--nats-url", "nats://127.0.0.1:1", "--listen", "127.0.0.1:0").want(t, exitFailed, "NATS", "--nats-url")
	if r := command(t, nil, "version").want(t, exitOK); r.stdout != version+"\n" {
		t.Errorf("version printed %q", r.stdout)
	}
}

func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if r := command(t, nil, "completion", shell).want(t, exitOK); !strings.Contains(r.stdout, "coordinator") {
			t.Errorf("no script for %s", shell)
		}
	}
	if r := command(t, nil, "__complete", "tx", "list", "--status", ""); !strings.Contains(r.stdout, "cancelling") {
		t.Errorf("completion of a status:\n%s", r.stdout)
	}
}
