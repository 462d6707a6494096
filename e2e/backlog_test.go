package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/saga"
)

// What a coordinator may use while transactions wait for a participant that is down (M5, P7).
const (
	backlogBytesMax    = 300 << 20
	backlogMessagesMax = 10_000
	backlogClients     = 32
	smallBacklog       = 500
)

// A participant is down for five attempt timeouts and more while transactions for it come in, wait, and are not in anybody's
// memory. It comes back, the backlog drains at its ceiling, and everything commits, once (M5, R4, P7). While it drains the
// coordinator is killed, and all timers are overdue when it starts again: it has looked after all of them within ten
// seconds and sends no faster than before (P8).
//
// `make backlog` runs it with 100,000 transactions.
func TestBacklog(t *testing.T) {
	var (
		total   = fromEnv(t, "E2E_BACKLOG_TRANSACTIONS", smallBacklog)
		ceiling = fromEnv(t, "E2E_BACKLOG_CEILING", 500)
		timeout = time.Duration(fromEnv(t, "E2E_BACKLOG_ATTEMPT_MS", 400)) * time.Millisecond
		every   = time.Duration(fromEnv(t, "E2E_BACKLOG_PROGRESS_SECONDS", 1)) * time.Second
		limit   = time.Minute + 20*time.Millisecond*time.Duration(total)
	)
	w := newWorld(t)
	flags := []string{"--drain-ceiling", strconv.Itoa(ceiling)}
	if total == smallBacklog {
		flags = append(flags, "--retry-floor", "200") // the test has little time
	}
	s := w.serve(t, flags...)
	g := w.watch(t, s, every)
	g.awaits(limit, "it is idle", func(now gauge) bool { return now.goroutines > 0 && now.after > 2*time.Second })

	w.bank[bankA].kill()
	g.enter("down", s)
	submitAll(t, s.url, backlogBody(timeout), total)
	g.enter("waiting", s)
	began := time.Now()
	g.awaits(limit, "five attempt timeouts are over", func(now gauge) bool {
		return now.waiting == total && time.Since(began) > 5*timeout+time.Second
	})

	w.startBank(t, bankA)
	g.enter("draining", s)
	g.awaits(limit, "a tenth is committed", func(now gauge) bool { return now.committed >= total/10 })

	g.enter("killed", s)
	s.kill()
	w.passTime(t, time.Hour)
	s = w.serve(t, flags...)
	restarted := time.Now()
	g.enter("restarted", s)
	moving := g.awaits(limit, "all timers are looked after", func(now gauge) bool { return now.late == 0 && now.goroutines > 0 })
	again := time.Since(restarted)
	g.enter("draining 2", s)
	g.awaits(limit, "all have ended", func(now gauge) bool { return now.waiting == 0 })
	g.stop()
	g.looking.Wait()

	v := &verdicts{t: t, rule: "P7"}
	w.judgeBacklog(v, g, total, ceiling)
	v.add(again <= 10*time.Second || raceEnabled, "after kill -9: all timers are looked after within", "10s", "%s, %d waited", again.Round(100*time.Millisecond), moving.waiting)
	v.print()
}

// judgeBacklog judges what the looks have shown.
func (w *world) judgeBacklog(v *verdicts, g *gauges, total, ceiling int) {
	idle, waiting := g.of("idle"), g.of("waiting")
	whole := slices.Concat(g.of("down"), waiting, g.of("draining"), g.of("restarted"), g.of("draining 2"))

	memory, _ := largest(whole, func(one gauge) int { return one.residentBytes })
	v.add(memory <= backlogBytesMax || raceEnabled, "memory of the coordinator at most", "≤ 300 MiB", "%d MiB", memory>>20)
	before, _ := largest(idle, func(one gauge) int { return one.goroutines })
	most, least := largest(waiting, func(one gauge) int { return one.goroutines })
	const few = 10 // connections and timers come and go
	v.add(most*10 <= before*11+10*few && least*10 >= before*9-10*few, "goroutines while all wait", "± 10 % of idle", "%d to %d, idle %d", least, most, before)
	connected, _ := largest(idle, func(one gauge) int { return one.connections })
	connections, _ := largest(waiting, func(one gauge) int { return one.connections })
	v.add(connections <= connected+24, "connections to PostgreSQL while all wait", "bounded", "%d, idle %d", connections, connected)
	messages, _ := largest(whole, func(one gauge) int { return one.messages })
	v.add(messages <= backlogMessagesMax, "messages in NATS at most", "≤ 10,000", "%d", messages)
	first := fastestSecond(g.of("draining"))
	v.add(first <= 1.1*float64(ceiling), "commands in the fastest second of the drain", fmt.Sprintf("≤ %d", ceiling*11/10), "%.0f", first)
	committed := countOf(v.t, w.pool, `SELECT count(*) FROM transactions WHERE status = 'committed'`)
	v.add(committed*1000 >= total*999, "committed", "≥ 99.9 %", "%d of %d", committed, total)
	effects := countOf(v.t, w.banks[bankA], `SELECT count(*) FROM bank.effects`)
	v.add(effects == committed, "effects in the participant's database", "one each", "%d", effects)
	letters := countOf(v.t, w.pool, `SELECT count(*) FROM dead_letters`)
	v.add(letters == 0, "dead letters", "0", "%d", letters)

	v.rule = "P8"
	second := fastestSecond(slices.Concat(g.of("killed"), g.of("restarted"), g.of("draining 2")))
	v.add(second <= 1.1*float64(ceiling), "commands in the fastest second after kill -9", fmt.Sprintf("≤ %d", ceiling*11/10), "%.0f", second)
}

// fastestSecond returns the most commands per second between looks that are a second apart or more.
func fastestSecond(looks []gauge) (fastest float64) {
	for i, from := range looks {
		for _, to := range looks[i:] {
			if apart := to.after - from.after; apart >= time.Second {
				fastest = max(fastest, float64(to.commands-from.commands)/apart.Seconds())
				break
			}
		}
	}
	return fastest
}

// passTime makes all timers as old as if nobody had looked after them for a while.
func (w *world) passTime(t *testing.T, d time.Duration) {
	t.Helper()
	for _, sql := range []string{
		`UPDATE transactions SET wake_at = wake_at - $1::interval WHERE finished_at IS NULL`,
		`UPDATE operations SET next_at = next_at - $1::interval, sent_at = sent_at - $1::interval WHERE state IN ('sent', 'waiting')`,
	} {
		if _, err := w.pool.Exec(t.Context(), sql, d); err != nil {
			t.Fatal(err)
		}
	}
}

// backlogBody is a submission that needs one participant.
func backlogBody(timeout time.Duration) []byte {
	def := saga.Define("backlog").Saga("give", bankA, bank.ActionDeposit, saga.AttemptTimeout(timeout)).MustBuild()
	return submission(def, map[string]bank.Move{"give": {Account: account(0), Cents: 1}})
}

// submitAll submits the same again and again, under request ids of its own, as fast as it is taken.
func submitAll(t *testing.T, url string, body []byte, total int) {
	t.Helper()
	client, done := newHTTP(backlogClients)
	defer done()
	var next atomic.Int64
	var work sync.WaitGroup
	for range backlogClients {
		work.Go(func() {
			for n := next.Add(1); n <= int64(total); n = next.Add(1) {
				if err := submitPersistently(t.Context(), client, url, body, fmt.Sprint("backlog-", n), 0); err != nil {
					t.Errorf("submission %d: %v", n, err)
					return
				}
			}
		})
	}
	work.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// submitPersistently submits until it is accepted, or until it has ended if there is a time to wait for that.
func submitPersistently(ctx context.Context, client *http.Client, url string, body []byte, requestID string, wait time.Duration) error {
	for attempt := 1; ; attempt++ {
		status, text, err := submitOnce(ctx, client, url, body, requestID, wait)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && (status == http.StatusOK || status == http.StatusAccepted && wait == 0):
			return nil
		case attempt == 100 || err == nil && status != http.StatusAccepted && status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable:
			return fmt.Errorf("%d %s %w", status, text, err)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

func submitOnce(ctx context.Context, client *http.Client, url string, body []byte, requestID string, wait time.Duration) (status int, text []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/transactions", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", requestID)
	if wait > 0 {
		req.Header.Set("Prefer", fmt.Sprintf("wait=%.0f", wait.Seconds()))
	}
	answer, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}
