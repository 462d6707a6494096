package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant"
)

// member is one process of the cluster under test.
type member struct {
	start func(ctx context.Context) error // until ctx ends
	stop  func()
}

// cluster is two coordinators behind one address, and two banks, which the answers to demo's questions start and stop.
type cluster struct {
	t       *testing.T
	members map[string]*member
	env     map[string]string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, members: map[string]*member{}}
	prefix, quiet := testdb.Prefix(t), slog.New(slog.DiscardHandler)
	cfg := serverConfig{
		DatabaseURL: testdb.NewDSN(t, coordinatorSchema), NATSURL: testdb.Cluster(t).NATSURL(), Prefix: prefix,
		Token: testToken, Connections: 6, Lanes: 2, Log: quiet,
	}
	var addresses []string
	for i := range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		mine := cfg
		mine.Listen = l.Addr().String()
		addresses = append(addresses, mine.Listen)
		l.Close()
		c.add(fmt.Sprintf("coordinator-%d", i+1), func(ctx context.Context) error {
			s, err := newServer(ctx, mine)
			if err != nil {
				return err
			}
			return s.run(ctx)
		})
	}
	dsn := map[string]string{}
	for _, name := range []string{"bank-a", "bank-b"} {
		dsn[name] = testdb.NewDSN(t, bankSchema)
		pool, err := pgxpool.New(t.Context(), dsn[name])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		p, err := bank.NewParticipant(name, pool, testdb.NATS(t), func(c *participant.Config) {
			c.Prefix, c.Logger, c.Concurrency = prefix, quiet, 4
		})
		if err != nil {
			t.Fatal(err)
		}
		c.add(name, p.Run)
	}
	c.env = map[string]string{
		"SAGACITY_SERVER": "http://" + frontOf(t, addresses), envToken: testToken, "NATS_URL": cfg.NATSURL,
		"SAGACITY_PREFIX": prefix, "SAGACITY_BANK_A_URL": dsn["bank-a"], "SAGACITY_BANK_B_URL": dsn["bank-b"],
	}
	for name := range c.members {
		if said := c.do("start", name); said != "done" {
			t.Fatal(said)
		}
	}
	t.Cleanup(func() {
		for _, m := range c.members {
			m.stop()
		}
	})
	return c
}

func (c *cluster) add(name string, run func(ctx context.Context) error) {
	m := &member{stop: func() {}}
	m.start = func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := run(ctx); err != nil && ctx.Err() == nil { // who is killed may say that he could not begin
				c.t.Errorf("%s: %v", name, err)
			}
		}()
		m.stop = func() { cancel(); <-ended }
		return nil
	}
	c.members[name] = m
}

// do does what demo asks for, and returns the answer.
func (c *cluster) do(verb string, names ...string) string {
	for _, name := range names {
		m := c.members[name]
		if m == nil {
			return "there is no " + name
		}
		switch verb {
		case "start":
			if err := m.start(c.t.Context()); err != nil {
				return err.Error()
			}
		case "stop", "kill":
			m.stop()
		default:
			return "cannot " + verb
		}
	}
	return "done"
}

// frontOf connects each caller to the first address that answers, as a name with several addresses does.
func frontOf(t *testing.T, addresses []string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			caller, err := l.Accept()
			if err != nil {
				return
			}
			go forward(caller, addresses)
		}
	}()
	return l.Addr().String()
}

func forward(caller net.Conn, addresses []string) {
	defer caller.Close()
	for _, address := range addresses {
		server, err := net.DialTimeout("tcp", address, 5*time.Second)
		if err != nil {
			continue
		}
		go func() {
			defer server.Close()
			_, _ = io.Copy(server, caller)
		}()
		_, _ = io.Copy(caller, server)
		return
	}
}

// demo runs the program and answers its questions; it returns them too.
func (c *cluster) demo(args ...string) (r result, asked []string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Minute)
	defer cancel()
	questions, stderr := io.Pipe()
	stdin, answers := io.Pipe()
	var stdout, messages bytes.Buffer
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(questions); lines.Scan(); {
			messages.WriteString(lines.Text() + "\n")
			what, isQuestion := strings.CutPrefix(lines.Text(), "ask: ")
			if !isQuestion {
				continue
			}
			what, _, _ = strings.Cut(what, " (")
			asked = append(asked, what)
			words := strings.Fields(what)
			fmt.Fprintln(answers, c.do(words[0], words[1:]...))
		}
	})
	r.code = runWith(ctx, append([]string{"demo"}, args...), stdin, &stdout, stderr)
	stderr.Close()
	reading.Wait()
	answers.Close()
	r.stdout, r.stderr = stdout.String(), messages.String()
	return r, asked
}

// All scenarios come out as expected on a cluster of which a part is stopped and killed.
func TestDemoOnCluster(t *testing.T) {
	noTokens(t)
	c := newCluster(t)
	for name, value := range c.env {
		t.Setenv(name, value)
	}
	r, asked := c.demo("--kill")
	r.want(t, exitOK)
	if n := strings.Count(r.stdout, "  ok\n"); n != 13 || strings.Contains(r.stdout, "WRONG") || !strings.Contains(r.stdout, "killed in full flight") {
		t.Errorf("%d scenarios came out as expected:\n%s", n, r.stdout)
	}
	want := "stop bank-b, start bank-b, kill coordinator-1 bank-b, start bank-b, start coordinator-1"
	if got := strings.Join(asked, ", "); got != want {
		t.Errorf("it asked to %s; want %s", got, want)
	}
}

func TestDemoUsage(t *testing.T) {
	noTokens(t)
	t.Setenv("SAGACITY_BANK_A_URL", "")
	t.Setenv("SAGACITY_BANK_B_URL", "")
	command(t, nil, "demo").want(t, exitUsage, "SAGACITY_BANK_A_URL", "--bank-b-url")
	t.Setenv("SAGACITY_BANK_B_URL", "postgres://u:hunter2@127.0.0.1:1/x")
	r := command(t, strings.NewReader(""), "demo", "--bank-a-url", "postgres://u:hunter2@127.0.0.1:1/x").want(t, exitFailed, "--bank-a-url")
	if strings.Contains(r.stderr, "hunter2") {
		t.Errorf("it shows a password: %s", r.stderr)
	}
	empty := testdb.NewDSN(t, testdb.Template{})
	command(t, strings.NewReader(""), "demo", "--bank-a-url", empty).want(t, exitFailed, "bank-a makes its tables when it starts")
}

// Whoever answers may say that it did not work; nobody may be there to answer.
func TestAsk(t *testing.T) {
	t.Parallel()
	for answer, says := range map[string]string{
		"\n": "", "done\n": "", " done \n": "", "docker: no such container\n": "asked to stop bank-b: docker: no such container",
		"": "nobody was there to stop bank-b",
	} {
		var out bytes.Buffer
		err := newAsker(strings.NewReader(answer), &out).ask(t.Context(), "stop bank-b")
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: got %v", answer, err)
		}
		if out.String() != "ask: stop bank-b (then press Enter)\n" {
			t.Errorf("it asked %q", out.String())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	silent, end := io.Pipe()
	defer end.Close()
	if err := newAsker(silent, io.Discard).ask(ctx, "stop bank-b"); err == nil {
		t.Error("it does not end")
	}
}

// The image has both programs and nobody has to be root for them; passwords have no defaults.
func TestClusterFiles(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	dockerfile, compose := read("Dockerfile"), read("docker-compose.yml")
	if !strings.Contains(dockerfile, "\nUSER 65532:65532\n") || strings.Contains(dockerfile, "--mount") || strings.Contains(dockerfile, "# syntax") {
		t.Error("Dockerfile: it runs as root, or needs BuildKit")
	}
	published := 0
	for line := range strings.SplitSeq(compose, "\n") {
		if _, ports, ok := strings.Cut(line, "ports: "); ok {
			if published++; !strings.HasPrefix(ports, `["127.0.0.1:`) {
				t.Errorf("docker-compose.yml publishes to everyone: %s", line)
			}
		}
		for _, secret := range []string{"_PASSWORD:-", "_TOKEN:-"} {
			if strings.Contains(line, secret) {
				t.Errorf("docker-compose.yml has a default for a secret: %s", line)
			}
		}
	}
	if published != 2 {
		t.Errorf("docker-compose.yml publishes %d ports", published)
	}
}
