package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/saga"
)

const (
	// overloadFactor is by how much what is offered is above the limit.
	overloadFactor = 10
	// overloadInFlightMax keeps the test itself in bounds, where the machine has not the time for all of them.
	overloadInFlightMax = 1000
)

// Offered ten times its limit, a coordinator takes as many submissions as the limit says and tells the others when to
// come back; what it accepted it finishes, once each, what it accepted before it still answers, and its memory
// stays bounded (R3, I7). E2E_OVERLOAD_RATE is the limit per second, E2E_OVERLOAD_SECONDS how long it lasts.
func TestTenTimesTheLimit(t *testing.T) {
	limit, seconds := fromEnv(t, "E2E_OVERLOAD_RATE", 50), fromEnv(t, "E2E_OVERLOAD_SECONDS", 4)
	w := newWorld(t)
	w.coordinators[0].kill()
	p := startProcess(t, spec{
		name: "coordinator serve limited", ready: "API on ", env: w.env("coordinator"),
		args: []string{"serve", "--anonymous", "--listen", "127.0.0.1:0", "--submissions-per-second", strconv.Itoa(limit)},
	})
	address, err := addressIn(p.announced)
	if err != nil {
		t.Fatal(err)
	}
	o := newOverload("http://" + address)
	before := residentBytes(t, p)
	most := before
	began := time.Now()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for offered := 0; offered < overloadFactor*limit*seconds; { // an open loop: nobody waits for an answer
		<-ticker.C
		due := min(overloadFactor*limit*seconds, int(time.Since(began).Seconds()*float64(overloadFactor*limit)))
		for ; offered < due; offered++ {
			o.offer(t, fmt.Sprint("order-", offered))
		}
		o.repeat(t)
		most = max(most, residentBytes(t, p))
	}
	o.requests.Wait()
	took, offered := time.Since(began), overloadFactor*limit*seconds-int(o.skipped.Load())
	after := residentBytes(t, p)
	eventually(t, 2*time.Minute, "all that was accepted has ended", func() bool {
		n, err := w.unfinished(t.Context())
		return err == nil && n == 0
	})
	t.Logf("%d offered in %s at a limit of %d/s: %d accepted, %d refused with 429, %d with 503, %d connections cut; %d of %d repetitions answered at once",
		offered, took.Round(time.Millisecond), limit, o.accepted.Load(), o.limited.Load(), o.unavailable.Load(), o.lost.Load(), o.atOnce.Load(), o.repetitions.Load())
	t.Logf("memory of the coordinator: %d MiB before, %d MiB at most, %d MiB after", before>>20, most>>20, after>>20)

	accepted, unknown := int(o.accepted.Load()), int(o.unavailable.Load()+o.lost.Load())
	busy := unknown + int(o.skipped.Load()) // what the machine had no time for could have been either
	if most := int((took.Seconds()+2)*float64(limit)) + 2; accepted > most || accepted+busy < limit*seconds/2 || accepted == 0 {
		t.Errorf("%d accepted, want %d to %d", accepted, limit*seconds/2, most)
	}
	if n := int(o.limited.Load()); n+busy < offered/2 || n == 0 {
		t.Errorf("only %d were refused", n)
	}
	if o.atOnce.Load() <= o.repetitions.Load()/2 { // a tenth would be let in by the rate
		t.Error("repetitions are refused like anything else (I7)")
	}
	if most-before > 192<<20 {
		t.Errorf("the coordinator took %d MiB more", (most-before)>>20)
	}
	var committed, all, effects int
	if err := w.pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE status = 'committed'), count(*) FROM transactions`).Scan(&committed, &all); err != nil {
		t.Fatal(err)
	}
	if err := w.banks[bankA].QueryRow(t.Context(), `SELECT count(*) FROM bank.effects`).Scan(&effects); err != nil {
		t.Fatal(err)
	}
	if committed != all || all < accepted || all > accepted+unknown {
		t.Errorf("%d committed of %d transactions; %d were accepted, and of %d it was not known", committed, all, accepted, unknown)
	}
	if effects != committed {
		t.Errorf("%d effects of %d transactions (I-3)", effects, committed)
	}
}

// overload offers submissions and counts what becomes of them.
type overload struct {
	url      string
	client   *http.Client
	body     []byte
	requests sync.WaitGroup
	places   chan struct{} // one for each request in flight

	accepted, limited, unavailable, lost, skipped, repetitions, atOnce atomic.Int64

	mu    sync.Mutex
	first string // the request id of the first accepted submission
	saw   []byte // and its answer
}

func newOverload(url string) *overload {
	def := saga.Define("overload").Saga("give", bankA, bank.ActionDeposit).MustBuild()
	body, err := json.Marshal(map[string]any{
		"definition": json.RawMessage(def.JSON()), "inputs": map[string]any{"give": bank.Move{Account: account(0), Cents: 1}},
	})
	if err != nil {
		panic(err)
	}
	return &overload{
		url: url, places: make(chan struct{}, overloadInFlightMax), body: append(body, bytes.Repeat([]byte{' '}, 8<<10)...), // white space counts as any other byte
		client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 256}},
	}
}

// offer submits in the background.
func (o *overload) offer(t *testing.T, requestID string) {
	select {
	case o.places <- struct{}{}:
	default:
		o.skipped.Add(1)
		return
	}
	o.requests.Go(func() {
		defer func() { <-o.places }()
		answer, err := o.submit(t, requestID)
		if err != nil { // a machine that is too busy to read a request's headers in time cuts the connection
			o.lost.Add(1)
			return
		}
		switch answer.status {
		case http.StatusAccepted:
			o.accepted.Add(1)
			o.mu.Lock()
			if o.first == "" {
				o.first, o.saw = requestID, answer.body
			}
			o.mu.Unlock()
		case http.StatusTooManyRequests:
			o.limited.Add(1)
		case http.StatusServiceUnavailable:
			o.unavailable.Add(1)
		default:
			t.Errorf("%s: %d %s", requestID, answer.status, answer.body)
			return
		}
		if answer.status == http.StatusAccepted {
			return
		}
		if after, err := strconv.Atoi(answer.header.Get("Retry-After")); err != nil || after < 1 {
			t.Errorf("%s: %d with Retry-After %q", requestID, answer.status, answer.header.Get("Retry-After"))
		}
	})
}

// repeat submits the first one again, which is answered whatever the limit says: at once, unless the machine is so busy
// that it could not be looked up in time.
func (o *overload) repeat(t *testing.T) {
	o.mu.Lock()
	first, saw := o.first, o.saw
	o.mu.Unlock()
	if first == "" {
		return
	}
	select {
	case o.places <- struct{}{}:
	default:
		return
	}
	o.requests.Go(func() {
		defer func() { <-o.places }()
		o.repetitions.Add(1)
		for attempt := 1; ; attempt++ {
			answer, err := o.submit(t, first)
			if err == nil && answer.status == http.StatusAccepted && bytes.Equal(answer.body, saw) && answer.header.Get("Idempotent-Replayed") == "true" {
				if attempt == 1 {
					o.atOnce.Add(1)
				}
				return
			}
			busy := err != nil || (answer.status == http.StatusTooManyRequests || answer.status == http.StatusServiceUnavailable)
			if !busy || attempt == 20 {
				t.Errorf("a repetition of %s, attempt %d: %d %s, %v", first, attempt, answer.status, answer.body, err)
				return
			}
			pause(t.Context(), time.Second)
		}
	})
}

// overloadAnswer is an answer, read.
type overloadAnswer struct {
	status int
	header http.Header
	body   []byte
}

func (o *overload) submit(t *testing.T, requestID string) (a overloadAnswer, err error) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, o.url+"/v1/transactions", bytes.NewReader(o.body))
	if err != nil {
		return a, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", requestID)
	answer, err := o.client.Do(req)
	if err != nil {
		return a, err
	}
	defer answer.Body.Close()
	a.status, a.header = answer.StatusCode, answer.Header
	a.body, err = io.ReadAll(answer.Body)
	return a, err
}

// residentBytes returns the memory that a process has now, or 0 where the system does not say it like Linux.
func residentBytes(t *testing.T, p *process) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	bytes, ok := residentIn(string(status))
	if !ok {
		t.Fatalf("%s has ended", p.name)
	}
	return bytes
}

// residentIn finds the memory in the text of /proc/…/status. A process that has ended has none.
func residentIn(status string) (bytes int, ok bool) {
	_, rest, _ := strings.Cut(status, "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, false
	}
	kib, err := strconv.Atoi(fields[0])
	return kib << 10, err == nil
}
