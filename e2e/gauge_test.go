package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// served is a coordinator whose inside can be looked at.
type served struct {
	*process
	args []string
	url  string // of its API
}

// serve replaces the world's first coordinator by one with more flags, or by its next run.
func (w *world) serve(t *testing.T, args ...string) *served {
	t.Helper()
	w.coordinators[0].kill()
	s := &served{args: args}
	s.process = startProcess(t, spec{
		name: "coordinator serve measured", ready: "API on ", env: w.env("coordinator"),
		args: append([]string{"serve", "--anonymous", "--listen", "127.0.0.1:0", "--pprof-listen", "127.0.0.1:0"}, args...),
	})
	address, err := addressIn(s.announced)
	if err != nil {
		t.Fatal(err)
	}
	w.coordinators[0], s.url = s.process, "http://"+address
	w.addresses.set(0, address)
	return s
}

var (
	profilesLine    = regexp.MustCompile(`profiles on (http://\S+)`)
	goroutinesTotal = regexp.MustCompile(`goroutine profile: total (\d+)`)
)

// goroutines asks the process how many goroutines it has. It is 0 while the process does not answer.
func (s *served) goroutines(ctx context.Context) int {
	log, err := os.ReadFile(s.log.path)
	if err != nil {
		return 0
	}
	lines := profilesLine.FindAllSubmatch(log, -1)
	if len(lines) == 0 {
		return 0
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, string(lines[len(lines)-1][1])+"goroutine?debug=1", http.NoBody)
	if err != nil {
		return 0
	}
	req.Close = true // a connection kept would be counted
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body) // what is cut off has no number
	found := goroutinesTotal.FindSubmatch(body)
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(found[1])) // digits
	return n
}

// gauge is what one look at a world shows.
type gauge struct {
	after             time.Duration // since the first look
	phase             string
	waiting           int // transactions that have not ended
	committed         int
	late              int // transactions whose timer nobody has looked after for a second
	residentBytes     int // of the coordinator
	goroutines        int // of the coordinator
	connections       int // of the coordinator to PostgreSQL
	messages          int // in all streams of NATS
	commands          uint64
	commandsPerSecond float64 // since the look before
}

// gauges looks at a world again and again.
type gauges struct {
	t       *testing.T
	w       *world
	js      jetstream.JetStream
	every   time.Duration // between lines of the progress table
	stop    context.CancelFunc
	looking sync.WaitGroup

	mu          sync.Mutex
	coordinator *served
	phase       string
	all         []gauge
	said        time.Duration
}

// watch begins to look, every half second until the end of the test.
func (w *world) watch(t *testing.T, coordinator *served, every time.Duration) *gauges {
	t.Helper()
	nc, err := nats.Connect(w.cluster.NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	g := &gauges{t: t, w: w, js: js, every: every, stop: stop, coordinator: coordinator, phase: "idle", said: -every}
	t.Log("   time  phase        waiting committed    late   MiB goroutines connections  in NATS commands/s")
	began := time.Now()
	g.looking.Go(func() {
		ticker := time.NewTicker(500 * time.Millisecond)
		defer ticker.Stop()
		for {
			if err := g.look(ctx, began); err != nil && ctx.Err() == nil {
				t.Log("a look failed:", err)
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() { stop(); g.looking.Wait(); nc.Close() })
	return g
}

const sqlGauge = `
SELECT count(*) FILTER (WHERE finished_at IS NULL), count(*) FILTER (WHERE status = 'committed'),
       count(*) FILTER (WHERE wake_at < clock_timestamp() - interval '1 second'),
       (SELECT count(*) FROM pg_stat_activity WHERE application_name = 'coordinator')
  FROM transactions`

func (g *gauges) look(ctx context.Context, began time.Time) error {
	g.mu.Lock()
	s, now := g.coordinator, gauge{phase: g.phase}
	g.mu.Unlock()
	if err := g.w.pool.QueryRow(ctx, sqlGauge).Scan(&now.waiting, &now.committed, &now.late, &now.connections); err != nil {
		return err
	}
	if s.runs() {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid)) // where there is none, nothing is known
		now.residentBytes, _ = residentIn(string(status))
		now.goroutines = s.goroutines(ctx)
	}
	streams := g.js.ListStreams(ctx)
	for info := range streams.Info() {
		now.messages += int(info.State.Msgs)
		if strings.HasSuffix(info.Config.Name, "_CMD") {
			now.commands = info.State.LastSeq
		}
	}
	if err := streams.Err(); err != nil {
		return err
	}
	now.after = time.Since(began)
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.all); n > 0 {
		last := g.all[n-1]
		now.commandsPerSecond = float64(now.commands-last.commands) / (now.after - last.after).Seconds()
	}
	g.all = append(g.all, now)
	if now.after-g.said >= g.every {
		g.said = now.after
		g.t.Log(now.String())
	}
	return nil
}

func (g *gauge) String() string {
	return fmt.Sprintf("%6.1fs  %-10s %9d %9d %7d %5d %10d %11d %8d %10.0f", g.after.Seconds(), g.phase, g.waiting, g.committed,
		g.late, g.residentBytes>>20, g.goroutines, g.connections, g.messages, g.commandsPerSecond)
}

// enter begins a phase, with a coordinator that may have been replaced.
func (g *gauges) enter(phase string, s *served) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.phase, g.coordinator, g.said = phase, s, -g.every
}

// of returns the looks of a phase, without the first, which may have begun before it.
func (g *gauges) of(phase string) []gauge {
	g.mu.Lock()
	defer g.mu.Unlock()
	var found []gauge
	for _, one := range g.all {
		if one.phase == phase {
			found = append(found, one)
		}
	}
	if len(found) > 1 {
		found = found[1:]
	}
	return found
}

// awaits waits until a look shows what is wanted.
func (g *gauges) awaits(limit time.Duration, what string, wanted func(gauge) bool) gauge {
	g.t.Helper()
	var last gauge
	eventually(g.t, limit, what, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		n := len(g.all)
		if n == 0 || g.all[n-1].phase != g.phase {
			return false
		}
		last = g.all[n-1]
		return wanted(last)
	})
	return last
}

// largest returns the largest number among looks, and the smallest above zero.
func largest[N cmp.Ordered](looks []gauge, of func(gauge) N) (most, least N) {
	var zero N
	for _, one := range looks {
		n := of(one)
		most = max(most, n)
		if n != zero && (least == zero || n < least) {
			least = n
		}
	}
	return most, least
}

// verdicts are what a command prints at its end, a line for each figure.
type verdicts struct {
	t    *testing.T
	rule string // that the next figures show
	all  []verdict
}

// verdict is what one figure is, and what it should be.
type verdict struct {
	Rule, What, Want, Got string
	OK                    bool
}

// add judges one figure.
func (v *verdicts) add(ok bool, what, want, format string, args ...any) {
	v.t.Helper()
	got := fmt.Sprintf(format, args...)
	if !ok {
		v.t.Errorf("%s: %s, want %s", what, got, want)
	}
	v.all = append(v.all, verdict{Rule: v.rule, What: what, Want: want, Got: got, OK: ok})
}

// print shows the verdicts, and writes them to the file that E2E_VERDICTS names, for a command that runs the test.
func (v *verdicts) print() {
	v.t.Helper()
	var text strings.Builder
	for _, one := range v.all {
		word := "ok  "
		if !one.OK {
			word = "FAIL"
		}
		fmt.Fprintf(&text, "\n%s  %-58s %-22s %s", word, one.What, one.Want, one.Got)
	}
	v.t.Log("verdicts:" + text.String())
	path := os.Getenv("E2E_VERDICTS")
	if path == "" {
		return
	}
	data, err := json.Marshal(v.all)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		v.t.Errorf("E2E_VERDICTS: %v", err)
	}
}

// What a test prints, a command that runs it can read.
func TestVerdictsAreWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "verdicts.json")
	t.Setenv("E2E_VERDICTS", path)
	v := &verdicts{t: t, rule: "P7"}
	v.add(true, "memory", "≤ 300 MiB", "%d MiB", 50)
	v.print()
	text, err := os.ReadFile(path)
	if want := `[{"Rule":"P7","What":"memory","Want":"≤ 300 MiB","Got":"50 MiB","OK":true}]`; err != nil || string(text) != want {
		t.Errorf("%s %v, want %s", text, err, want)
	}
}
