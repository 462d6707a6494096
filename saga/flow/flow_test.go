package flow_test

import (
	"container/heap"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return begin.Add(time.Duration(seconds * float64(time.Second))) }

func ask(t *testing.T, f *flow.Flow, a flow.Attempt, now time.Time, want saga.Wait) {
	t.Helper()
	wait, until := f.Ask(a, now)
	if wait != want {
		t.Fatalf("at %s: waits for %q until %s, want %q", now.Sub(begin), wait, until.Sub(begin), want)
	}
	if wait != saga.WaitNone && !until.After(now) {
		t.Fatalf("at %s: it may ask again at %s", now.Sub(begin), until.Sub(begin))
	}
}

// Retries stay within ten per cent of the first attempts, or the floor if that is more; a fifth of that is kept for what must
// end (R1).
func TestBudget(t *testing.T) {
	f := flow.New(flow.Policy{RetryPercent: 10, RetryFloor: 1})
	for range 400 {
		ask(t, f, flow.Attempt{}, at(0.5), saga.WaitNone)
	}
	try, confirm := flow.Attempt{Retry: true}, flow.Attempt{Retry: true, MustEnd: true}
	for range 32 { // 80 % of 400/10
		ask(t, f, try, at(1), saga.WaitNone)
	}
	ask(t, f, try, at(1), saga.WaitBudget)
	for range 8 {
		ask(t, f, confirm, at(2), saga.WaitNone)
	}
	ask(t, f, confirm, at(2), saga.WaitBudget)
	ask(t, f, flow.Attempt{Retry: true, Operator: true}, at(2), saga.WaitNone)
	ask(t, f, flow.Attempt{}, at(2), saga.WaitNone) // a first attempt needs no budget
	for range 8 {                                   // the window is over: 80 % of the floor
		ask(t, f, try, at(30), saga.WaitNone)
	}
	ask(t, f, try, at(30), saga.WaitBudget)
}

// Silence opens the breaker; after a pause some probes go through; any reply closes it (R2).
func TestBreaker(t *testing.T) {
	f := flow.New(flow.Policy{BreakerTimeouts: 3, BreakerPauseMin: time.Second, BreakerPauseMax: 4 * time.Second, Probes: 2})
	f.TimedOut(at(0), at(10))
	f.TimedOut(at(0), at(10))
	f.Answered(at(10), at(10)) // no silence: what was sent before does not count
	for range 20 {
		f.TimedOut(at(9), at(19))
	}
	ask(t, f, flow.Attempt{}, at(19), saga.WaitNone)
	for range 3 {
		f.TimedOut(at(10.1), at(20.1))
	}
	ask(t, f, flow.Attempt{}, at(21), saga.WaitBreaker)
	ask(t, f, flow.Attempt{}, at(21.2), saga.WaitNone)
	ask(t, f, flow.Attempt{}, at(21.2), saga.WaitNone)
	ask(t, f, flow.Attempt{}, at(21.2), saga.WaitBreaker)
	f.TimedOut(at(20), at(22)) // from before: says nothing about the probes
	if got := f.Breaker(at(22)); got != flow.BreakerHalfOpen {
		t.Errorf("an attempt from before the probes made it %s", got)
	}
	f.TimedOut(at(21.2), at(31.2))
	ask(t, f, flow.Attempt{}, at(33), saga.WaitBreaker) // the pause has doubled
	if got := f.Breaker(at(33.3)); got != flow.BreakerHalfOpen {
		t.Errorf("after the pause it is %s", got)
	}
	ask(t, f, flow.Attempt{}, at(33.3), saga.WaitNone)
	f.Answered(at(43.3), at(34))
	if got := f.Breaker(at(34)); got != flow.BreakerClosed {
		t.Errorf("after a reply it is %s", got)
	}
}

// Probes whose end nobody hears of do not keep the breaker half-open for ever.
func TestForgottenProbes(t *testing.T) {
	f := flow.New(flow.Policy{BreakerTimeouts: 1, Probes: 1, BreakerPauseMax: 5 * time.Second})
	f.TimedOut(at(0), at(1))
	ask(t, f, flow.Attempt{}, at(3), saga.WaitNone)
	ask(t, f, flow.Attempt{}, at(4), saga.WaitBreaker)
	ask(t, f, flow.Attempt{}, at(9), saga.WaitNone)
}

// What is in flight is bounded, those of other coordinators included (R3).
func TestLimit(t *testing.T) {
	f := flow.New(flow.Policy{InFlightMax: 10})
	f.Share(2, 0)
	f.Share(2, 4)
	a := flow.Attempt{Timeout: 10 * time.Second}
	for range 6 {
		ask(t, f, a, at(0), saga.WaitNone)
	}
	ask(t, f, a, at(1), saga.WaitLimit)
	f.Answered(at(10), at(1))
	ask(t, f, a, at(1), saga.WaitNone)
	ask(t, f, a, at(1), saga.WaitLimit)
	f.Dropped(at(10))
	ask(t, f, a, at(1), saga.WaitNone)
	ask(t, f, a, at(11), saga.WaitNone) // what was sent at the start is over, whoever noticed
	f.Answered(at(10), at(11))          // so a late reply counts no more
	if n := f.InFlight(at(11)); n != 1 {
		t.Errorf("%d in flight", n)
	}
}

// Replies come to any coordinator. When one goes, what it knew goes with it, and neither the limit nor the traffic is lost.
func TestCoordinatorLeaves(t *testing.T) {
	a, b := flow.New(flow.Policy{}), flow.New(flow.Policy{})
	attempt := flow.Attempt{Timeout: 10 * time.Second}
	for s := range 60 { // 200 a second from a; half of the replies go to b
		now := at(float64(s))
		for n := range 200 {
			ask(t, a, attempt, now, saga.WaitNone)
			[]*flow.Flow{a, b}[n%2].Answered(now.Add(attempt.Timeout), now)
		}
		a.Share(2, b.InFlight(now))
		b.Share(2, a.InFlight(now))
		if sum := a.InFlight(now) + b.InFlight(now); s > 0 && sum != 0 {
			t.Fatalf("at %d s %d are in flight, %d of a", s, sum, a.InFlight(now))
		}
	}
	a.Share(1, 0)
	ask(t, a, attempt, at(61), saga.WaitNone)
	b.Share(1, 0)
	for n := 0; ; n++ {
		if wait, _ := b.Ask(attempt, at(61)); wait != saga.WaitNone {
			if n != flow.DefaultInFlightMax {
				t.Errorf("b lets %d into flight", n)
			}
			break
		}
	}
}

// A batch that is tried again gives its slots back (a full disk, version conflicts).
func TestSlotsAreGivenBack(t *testing.T) {
	f := flow.New(flow.Policy{Ceiling: 100, BreakerTimeouts: 1, BreakerPauseMax: time.Second})
	f.TimedOut(at(0), at(0))
	var until time.Time
	for range 300 {
		for range 256 {
			_, until = f.Ask(flow.Attempt{}, at(0.5))
		}
		for range 256 {
			f.Unpark(saga.WaitBreaker, at(0.5))
		}
	}
	if wait := until.Sub(at(0.5)); wait > 4*time.Second {
		t.Errorf("the last of 256 waits %s at 100 a second", wait)
	}
}

// decided runs an event on a transaction of one step, whose second attempt is in flight after the first timed out.
func decided(t *testing.T, g *flow.Gate, ev saga.Event, now time.Time) saga.Transaction {
	t.Helper()
	def := saga.Define("one").Saga("a", "x", "act").MustBuild()
	before := saga.Transaction{
		Tenant: "shop", Status: saga.StatusRunning, Deadline: at(1), Inputs: []saga.Payload{{Data: []byte("{}")}},
		Steps: []saga.StepState{{Try: saga.Operation{
			Phase: saga.PhaseTry, State: saga.OperationSent, Attempt: 2, Revision: 1, SentAt: begin, NextAt: at(10),
			LastOutcome: saga.OutcomeUnknown, LastCode: "timeout",
		}}},
	}
	after, _, err := saga.Step(def, before, ev, now, nil)
	if err != nil {
		t.Fatal(err)
	}
	g.Observe(def, before, after, ev, now)
	return after
}

// A decision that closes an attempt in flight is no silence, whatever became of the attempt before.
func TestDecisionIsNoSilence(t *testing.T) {
	g := flow.NewGate(func(string) flow.Policy { return flow.Policy{BreakerTimeouts: 1} })
	if tx := decided(t, g, saga.Woken{}, at(1)); tx.Status != saga.StatusCancelling {
		t.Fatalf("the deadline made it %s", tx.Status)
	}
	if s := g.Flow("x").Breaker(at(1)); s != flow.BreakerClosed {
		t.Errorf("the breaker is %s, 9 s before the time of the attempt is over", s)
	}
}

// A coordinator counts the replies that come to it, also if others have sent (I-11).
func TestRepliesOfOthersCount(t *testing.T) {
	g := flow.NewGate(func(string) flow.Policy { return flow.Policy{} })
	decided(t, g, saga.Replied{Reply: saga.Reply{
		Tenant: "shop", Step: "a", Phase: saga.PhaseTry, Participant: "x", Attempt: 2, Revision: 1, Outcome: saga.OutcomeDone,
	}}, at(0.5))
	if n := g.Flow("x").InFlight(at(0.5)); n != -1 {
		t.Errorf("it counts %d", n)
	}
}

// The measured ceiling is the best second before the silence, however long that lasted (R4).
func TestMeasuredCeiling(t *testing.T) {
	f := flow.New(flow.Policy{CeilingMin: 1, BreakerTimeouts: 1})
	for s := range 10 {
		for range 70 + s {
			f.Answered(at(float64(s)), at(float64(s)+0.5))
		}
	}
	if got := f.Ceiling(at(10)); got != 79 {
		t.Errorf("the ceiling is %d, want 79", got)
	}
	f.TimedOut(at(9), at(11))
	for s := 12; s < 4000; s += 50 {
		f.Ask(flow.Attempt{}, at(float64(s)))
		f.TimedOut(at(float64(s)), at(float64(s)+1))
		if got := f.Ceiling(at(float64(s) + 1)); got != 79 {
			t.Fatalf("after %d s of silence the ceiling is %d", s, got)
		}
	}
}

// client is an attempt that asks at an instant.
type client struct {
	at time.Time
	flow.Attempt
}

type queue []client

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(client)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// run lets clients ask, each as long as it has to, of a participant that is silent for a time. It returns how many
// attempts were sent in each second, and how many times anybody asked.
func run(f *flow.Flow, q queue, silentUntil time.Time) (sent map[int64]int, asked int) {
	sent = map[int64]int{}
	heap.Init(&q)
	for len(q) > 0 {
		c := heap.Pop(&q).(client)
		asked++
		wait, until := f.Ask(c.Attempt, c.at)
		if wait != saga.WaitNone {
			c.at = until
			heap.Push(&q, c)
			continue
		}
		sent[c.at.Unix()]++
		if c.at.After(silentUntil) {
			f.Answered(c.at, c.at)
			continue
		}
		f.TimedOut(c.at, c.at.Add(time.Millisecond))
		c.Retry = true
		c.at = c.at.Add(time.Second)
		heap.Push(&q, c)
	}
	return sent, asked
}

// A backlog that gathered while the participant was silent drains at no more than its ceiling, beside new load; everybody
// gets through, and few ask while it is silent (R4).
func TestDrain(t *testing.T) {
	const ceiling = 200
	f := flow.New(flow.Policy{Ceiling: ceiling, RetryFloor: 1})
	var q queue
	for n := range 20_000 { // 100 a second for 200 s, of which the participant is silent for 100
		q = append(q, client{at: at(float64(n) / 100)})
	}
	silent := at(100)
	sent, asked := run(f, q, silent)
	last := int64(0)
	for second, n := range sent {
		if n > ceiling*11/10 {
			t.Errorf("%d sent in second %d, the ceiling is %d", n, second-begin.Unix(), ceiling)
		}
		last = max(last, second)
	}
	if drained := last - silent.Unix(); drained > 150 {
		t.Errorf("the backlog was gone %d s after the silence", drained)
	}
	if asked > 4*20_000 {
		t.Errorf("asked %d times for 20,000 attempts", asked)
	}
	t.Logf("drained %d s after the silence, %d asked", last-silent.Unix(), asked)
}

// A coordinator that has seen nothing yet finds a backlog that is overdue: it drains at the ceiling all the same, and what
// comes beside it is part of that (R4, P8).
func TestDrainAfterARestart(t *testing.T) {
	const ceiling = 100
	f := flow.New(flow.Policy{Ceiling: ceiling})
	var q queue
	for range 5000 { // all at once
		q = append(q, client{at: at(0), Attempt: flow.Attempt{Held: true}})
	}
	for n := range 2500 {
		q = append(q, client{at: at(1 + float64(n)/50)})
	}
	sent, _ := run(f, q, at(-1))
	last := int64(0)
	for second, n := range sent {
		if n > ceiling*11/10 {
			t.Errorf("%d sent in second %d, the ceiling is %d", n, second-begin.Unix(), ceiling)
		}
		last = max(last, second-begin.Unix())
	}
	if last > 85 {
		t.Errorf("7,500 were sent after %d s", last)
	}
}

// The measured ceiling of a drain that nobody saw begin is what is measured then.
func TestDrainWithoutASilence(t *testing.T) {
	f := flow.New(flow.Policy{CeilingMin: 50})
	for range 10 {
		f.Ask(flow.Attempt{Held: true}, at(0))
	}
	ask(t, f, flow.Attempt{Held: true}, at(0), saga.WaitCeiling)
	if got := f.Ceiling(at(0.1)); got != 50 || !f.Draining(at(0.1)) {
		t.Errorf("the ceiling is %d, draining %v", got, f.Draining(at(0.1)))
	}
}

// What waits for a silence to end asks less and less often: each time is a write. It asks again within a tenth of the
// time that the silence lasted, and half a minute.
func TestPatience(t *testing.T) {
	for silence, want := range map[float64]float64{2: 0.5, 60: 6, 3600: 30} {
		f := flow.New(flow.Policy{BreakerTimeouts: 1, Probes: 1})
		f.TimedOut(at(0), at(0))
		ask(t, f, flow.Attempt{}, at(silence), saga.WaitNone) // the probe
		_, until := f.Ask(flow.Attempt{}, at(silence))
		if got := until.Sub(at(silence)).Seconds(); got != want {
			t.Errorf("after a silence of %.0f s it asks again after %.1f s, want %.1f", silence, got, want)
		}
	}
}

// However much a silence or a pause holds, the sum of what asks is bounded, and a pause does not hold what is not paused.
func TestAsksAreBounded(t *testing.T) {
	const waiting = 30_000
	f := flow.New(flow.Policy{BreakerTimeouts: 1, Ceiling: 10_000, Probes: 1})
	f.TimedOut(at(0), at(0))
	last := at(0)
	for range waiting {
		_, last = f.Ask(flow.Attempt{}, at(0))
	}
	if got := last.Sub(at(0)).Seconds(); got < waiting/1000 || got > waiting/1000+2 {
		t.Errorf("%d that a silence holds ask within %.1f s", waiting, got)
	}

	g := flow.NewGate(func(string) flow.Policy { return flow.Policy{InFlightMax: 1} })
	g.Pause([]flow.Pause{{Scope: flow.ScopeAction, Participant: "bank", Action: "debit"}})
	p := g.Passage()
	request := func(action string) saga.SendRequest {
		return saga.SendRequest{Command: &saga.Command{Participant: "bank", Action: action, Timeout: time.Minute}}
	}
	for range waiting {
		_, last = p.Ask(request("debit"), at(0))
	}
	if got := last.Sub(at(0)).Seconds(); got < waiting/1000 {
		t.Errorf("%d that are paused ask within %.1f s", waiting, got)
	}
	p.Ask(request("credit"), at(0))
	if wait, until := p.Ask(request("credit"), at(0)); wait != saga.WaitLimit || until.After(at(1)) {
		t.Errorf("beside what is paused it waits for %s until %s", wait, until)
	}
}

// What a silence, a drain or a pause held drains at the ceiling, and nothing else does.
func TestHeldIsStored(t *testing.T) {
	for waited, held := range map[saga.Wait]bool{
		saga.WaitBreaker: true, saga.WaitCeiling: true, saga.WaitPause: true,
		saga.WaitNone: false, saga.WaitLimit: false, saga.WaitBudget: false, saga.WaitBackoff: false, saga.WaitLease: false,
	} {
		p := flow.NewGate(func(string) flow.Policy { return flow.Policy{Ceiling: 100} }).Passage()
		sent := 0
		for range 100 {
			if wait, _ := p.Ask(saga.SendRequest{Command: &saga.Command{Participant: "bank", Waited: waited}}, at(0)); wait == saga.WaitNone {
				sent++
			}
		}
		if (sent < 100) != held {
			t.Errorf("%d of 100 that waited for %q were sent at once", sent, waited)
		}
	}
}

// served is what a participant that carries so many commands per second is sent while a backlog drains that gathered in a
// silence, in each second, until all of it is answered. Commands that it has no time for wait there and time out.
func served(t *testing.T, f *flow.Flow, backlog, capacity int) (sent []int) {
	t.Helper()
	f.TimedOut(begin.Add(-time.Second), at(0)) // it is silent
	var q queue
	for range backlog {
		_, until := f.Ask(flow.Attempt{Timeout: 2 * time.Second}, at(0.1))
		q = append(q, client{at: until})
	}
	heap.Init(&q)
	queued, answered := 0, 0
	for tick := 10; answered < backlog; tick++ { // ten a second, as coordinators look at what is due
		now := at(float64(tick) / 10)
		if tick > 36_000 {
			t.Fatalf("after an hour %d of %d are answered", answered, backlog)
		}
		if tick%10 == 0 {
			sent = append(sent, 0)
		}
		for len(q) > 0 && !q[0].at.After(now) {
			c := heap.Pop(&q).(client)
			if wait, until := f.Ask(flow.Attempt{Timeout: 2 * time.Second}, now); wait != saga.WaitNone {
				c.at = until
				heap.Push(&q, c)
				continue
			}
			sent[len(sent)-1]++
			queued++
		}
		for range min(queued, capacity/10) {
			queued--
			answered++
			f.Answered(now.Add(time.Second), now)
		}
	}
	return sent
}

// A backlog of a participant of which nothing is known drains at what it turns out to carry, and that is found out soon;
// one that carries little is never sent much more than that (R4).
func TestDrainFindsOut(t *testing.T) {
	quick := served(t, flow.New(flow.Policy{BreakerTimeouts: 1}), 10_000, 5000)
	if most := slices.Max(quick); most > flow.DefaultCeilingQuick*11/10 || len(quick) > 60 {
		t.Errorf("a quick one is sent at most %d in a second, and all in %d s", most, len(quick))
	}
	const capacity = 100
	slow := served(t, flow.New(flow.Policy{BreakerTimeouts: 1}), 2_000, capacity)
	if most := slices.Max(slow); most > capacity*14/10 || len(slow) > 50 {
		t.Errorf("a slow one is sent at most %d in a second, and all in %d s", most, len(slow))
	}
	t.Logf("quick: %v\nslow: %v", quick, slow)
}

// However attempts, silences and coordinators come, whoever asks at the instant it was told gets through in the end.
func TestNobodyWaitsForEver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := flow.Policy{
			InFlightMax: rapid.IntRange(1, 50).Draw(t, "in flight"), RetryPercent: rapid.IntRange(1, 50).Draw(t, "percent"),
			RetryFloor: rapid.IntRange(1, 5).Draw(t, "floor"), BreakerTimeouts: rapid.IntRange(1, 10).Draw(t, "timeouts"),
			Ceiling: rapid.IntRange(0, 100).Draw(t, "ceiling"), CeilingMin: rapid.IntRange(1, 100).Draw(t, "ceiling min"),
		}
		f := flow.New(p)
		f.Share(rapid.IntRange(1, 3).Draw(t, "coordinators"), 0)
		var q queue
		for range rapid.IntRange(1, 300).Draw(t, "attempts") {
			q = append(q, client{
				at:      at(float64(rapid.IntRange(0, 60_000).Draw(t, "at")) / 1000),
				Attempt: flow.Attempt{MustEnd: rapid.Bool().Draw(t, "must end"), Retry: rapid.Bool().Draw(t, "retry")},
			})
		}
		silent := at(float64(rapid.IntRange(0, 90).Draw(t, "silent")))
		sent, _ := run(f, q, silent)
		total := 0
		for _, n := range sent {
			total += n
		}
		if total < len(q) {
			t.Fatalf("%d of %d were sent", total, len(q))
		}
	})
}

// Without protection only the number of attempts in flight is bounded (X5).
func TestUnprotected(t *testing.T) {
	f := flow.New(flow.Policy{Unprotected: true, RetryFloor: 1, BreakerTimeouts: 1, Ceiling: 1, InFlightMax: 1000})
	f.TimedOut(at(0), at(1))
	for range 1000 {
		ask(t, f, flow.Attempt{Retry: true, Timeout: time.Second}, at(1), saga.WaitNone)
	}
	ask(t, f, flow.Attempt{Timeout: time.Second}, at(1), saga.WaitLimit)
	f.Answered(at(2), at(1))
	ask(t, f, flow.Attempt{Retry: true, Timeout: time.Second}, at(1), saga.WaitNone)
}

// Half of the allowances is one coordinator's of two.
func TestShare(t *testing.T) {
	alone, one := flow.New(flow.Policy{Ceiling: 100}), flow.New(flow.Policy{Ceiling: 100})
	one.Share(2, 0)
	count := func(f *flow.Flow) (retries int) {
		for {
			if wait, _ := f.Ask(flow.Attempt{Retry: true, MustEnd: true}, at(0)); wait != saga.WaitNone {
				return retries
			}
			retries++
		}
	}
	if a, b := count(alone), count(one); b != a/2 {
		t.Errorf("alone %d retries, one of two %d", a, b)
	}
}

func TestPolicyValidate(t *testing.T) {
	for want, p := range map[string]flow.Policy{
		"flow: Probes is -1; give a positive number, or 0 for the default":           {Probes: -1},
		"flow: BreakerPauseMax is 1ms, below BreakerPauseMin 1s; raise it":           {BreakerPauseMin: time.Second, BreakerPauseMax: time.Millisecond},
		"flow: CeilingMin is -5; give a positive number, or 0 for the default":       {CeilingMin: -5},
		"flow: BreakerPauseMax is 30s, below BreakerPauseMin 1m0s; raise it":         {BreakerPauseMin: time.Minute, BreakerPauseMax: 30 * time.Second},
		"flow: BreakerPauseMin is -1; give a positive number, or 0 for the default":  {BreakerPauseMin: -1},
		"flow: RetryPercent is -10; give a positive number, or 0 for the default":    {RetryPercent: -10},
		"flow: BreakerTimeouts is -10; give a positive number, or 0 for the default": {BreakerTimeouts: -10},
		"flow: InFlightMax is -5000; give a positive number, or 0 for the default":   {InFlightMax: -5000},
		"flow: RetryFloor is -1; give a positive number, or 0 for the default":       {RetryFloor: -1},
		"flow: CeilingQuick is -2; give a positive number, or 0 for the default":     {CeilingQuick: -2},
		"flow: Ceiling is -1; give a positive number, or 0 for the default":          {Ceiling: -1},
	} {
		if err := p.Validate(); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", p, err, want)
		}
	}
	if err := (flow.Policy{}).Validate(); err != nil {
		t.Error(err)
	}
}

// What a drain let through and was not sent after all can be asked for again at once, however often that happens: two
// coordinators that make each other's memory stale judge every wake twice (R4).
func TestReturnedAttemptsDoNotUseUpTheDrain(t *testing.T) {
	t.Parallel()
	f := flow.New(flow.Policy{Ceiling: 20})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := flow.Attempt{Timeout: time.Second, Held: true}
	for i := range 100 {
		at := now.Add(time.Duration(i) * time.Millisecond)
		taken := 0
		for ; taken < 50; taken++ {
			if wait, _ := f.Ask(a, at); wait != saga.WaitNone {
				break
			}
		}
		if taken == 0 || taken == 50 {
			t.Fatalf("round %d: %d attempts were let through, want some and not all", i, taken)
		}
		for range taken {
			f.Return(a, at)
		}
	}
}

// A probe that was not sent after all leaves its place to another one: nobody will ever hear of it.
func TestReturnedProbesLeaveTheirPlace(t *testing.T) {
	t.Parallel()
	f := flow.New(flow.Policy{BreakerTimeouts: 1, Probes: 1, BreakerPauseMin: time.Second, BreakerPauseMax: time.Minute})
	before := flow.Attempt{Timeout: time.Second}
	ask(t, f, before, at(0), saga.WaitNone)
	f.TimedOut(at(0), at(1))
	for i := range 3 {
		now := at(3 + float64(i))
		ask(t, f, flow.Attempt{Timeout: time.Second}, now, saga.WaitNone)
		f.Return(flow.Attempt{Timeout: time.Second}, now)
	}
	ask(t, f, flow.Attempt{Timeout: time.Second}, at(7), saga.WaitNone)
	f.Return(before, at(0)) // of the time before the silence: no probe
	ask(t, f, flow.Attempt{}, at(7), saga.WaitBreaker)
	f.Return(flow.Attempt{Timeout: time.Second}, at(7))
	ask(t, f, flow.Attempt{}, at(70), saga.WaitNone) // long after the first probe: its time begins with this one
	ask(t, f, flow.Attempt{}, at(71), saga.WaitBreaker)
}

// What the others have in flight counts from the first attempt on, not only once there has been one (R3).
func TestOthersAreKnownToANewFlow(t *testing.T) {
	t.Parallel()
	g := flow.NewGate(func(string) flow.Policy { return flow.Policy{InFlightMax: 10} })
	g.Share(2, nil)
	g.Share(2, map[string]int{"stock": 10, "bank": 9})
	ask(t, g.Flow("stock"), flow.Attempt{}, at(0), saga.WaitLimit)
	ask(t, g.Flow("bank"), flow.Attempt{}, at(0), saga.WaitNone)
	g.Share(3, map[string]int{"hotel": 10}) // one has come: all of them count anew
	ask(t, g.Flow("hotel"), flow.Attempt{}, at(0), saga.WaitNone)
}
