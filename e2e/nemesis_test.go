package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/devcluster"
)

// faultKind is a way in which something breaks.
type faultKind string

const (
	killCoordinator  faultKind = "kill -9 a coordinator"
	pauseCoordinator faultKind = "pause a coordinator"
	killBank         faultKind = "kill -9 a participant"
	pauseBank        faultKind = "pause a participant"
	stopNATS         faultKind = "stop NATS"
	wipeNATS         faultKind = "wipe the NATS store"
	restartPostgres  faultKind = "restart PostgreSQL"
	crashPostgres    faultKind = "crash PostgreSQL"
)

// faultKinds says how many victims there are of each, and how long it lasts.
var faultKinds = []struct {
	kind     faultKind
	victims  int
	min, max time.Duration
}{
	{killCoordinator, 2, 0, time.Second},
	{pauseCoordinator, 2, 2 * attemptTimeout, 5 * time.Second},
	{killBank, 2, 0, time.Second},
	{pauseBank, 2, attemptTimeout + 200*time.Millisecond, 2*attemptTimeout + 500*time.Millisecond},
	{stopNATS, 1, 200 * time.Millisecond, 2 * time.Second},
	{wipeNATS, 1, 0, 500 * time.Millisecond},
	{restartPostgres, 1, 0, 0}, // it starts again at once
	{crashPostgres, 1, 0, 0},
}

// longPause is long enough for a coordinator to go on with all that another one had in hand when it was paused: the
// replies that it was handed, its timers and its messages. A run of several rounds has one.
const longPause = 15 * time.Second

// goOnMin is how many orders have to end in a long pause: a part of what ends in as much time without faults.
const goOnMin = 32

// fault is one thing that breaks, for a while.
type fault struct {
	kind   faultKind
	victim int
}

func (f fault) String() string {
	what := string(f.kind)
	switch f.kind {
	case killCoordinator, pauseCoordinator:
		what += fmt.Sprintf(" (%d)", f.victim+1)
	case killBank, pauseBank:
		what += fmt.Sprintf(" (%s)", bankNames[f.victim])
	default:
	}
	return what
}

// process reports whether the fault is one of a process, and not of what all share.
func (f fault) process() bool {
	return slices.Contains([]faultKind{killCoordinator, pauseCoordinator, killBank, pauseBank}, f.kind)
}

// coordinator reports whether the victim is a coordinator.
func (f fault) coordinator() bool { return f.kind == killCoordinator || f.kind == pauseCoordinator }

// sameVictim reports whether two faults of processes have the same victim.
func (f fault) sameVictim(other fault) bool {
	return f.coordinator() == other.coordinator() && f.victim == other.victim
}

// blow is one or two faults at the same time.
type blow struct {
	progress int           // it comes when so many orders have ended,
	offset   time.Duration // and so much later
	lasts    time.Duration
	faults   []fault
}

func (b blow) String() string {
	names := make([]string, len(b.faults))
	for i, f := range b.faults {
		names[i] = f.String()
	}
	return strings.Join(names, " + ")
}

// drawBlows draws the schedule of a run of so many orders: in each round there is every kind of fault with every
// victim once, some of them together with another one of a process.
func drawBlows(rnd *rand.Rand, rounds, orders int) (blows []blow) {
	var deck []fault
	for _, k := range faultKinds {
		for victim := range k.victims {
			deck = append(deck, fault{kind: k.kind, victim: victim})
		}
	}
	for range rounds {
		rnd.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		for _, f := range deck {
			b := blow{offset: instant(rnd), faults: []fault{f}}
			extra := deck[rnd.IntN(len(deck))]
			if rnd.IntN(3) == 0 && extra.process() && (!f.process() || !f.sameVictim(extra)) {
				b.faults = append(b.faults, extra)
			}
			for _, f := range b.faults {
				b.lasts = max(b.lasts, drawLength(rnd, f.kind))
			}
			blows = append(blows, b)
		}
	}
	if rounds > 1 {
		f := fault{kind: pauseCoordinator, victim: rnd.IntN(2)}
		blows = slices.Insert(blows, rnd.IntN(len(blows)), blow{offset: instant(rnd), lasts: longPause, faults: []fault{f}})
	}
	for i, progress := range spread(rnd, len(blows), orders) {
		blows[i].progress = progress
	}
	return blows
}

func drawLength(rnd *rand.Rand, kind faultKind) time.Duration {
	for _, k := range faultKinds {
		if k.kind == kind && k.max > k.min {
			return k.min + time.Duration(rnd.Int64N(int64(k.max-k.min)))
		}
	}
	return 0
}

// strike lets the blow happen and heals what it broke. What all processes share breaks last and is healed first:
// without it no process starts.
func (w *world) strike(t *testing.T, b blow) {
	t.Helper()
	faults := slices.Clone(b.faults)
	if !faults[0].process() { // the other one is
		slices.Reverse(faults)
	}
	for _, f := range faults {
		w.breakIt(t, f)
	}
	pause(t.Context(), b.lasts)
	slices.Reverse(faults)
	for _, f := range faults {
		w.heal(t, f)
	}
}

func (w *world) breakIt(t *testing.T, f fault) {
	t.Helper()
	switch f.kind {
	case killCoordinator, killBank:
		w.victim(f).kill()
	case pauseCoordinator:
		w.victim(f).signal(syscall.SIGSTOP)
		w.addresses.hide(f.victim, true) // callers would wait for it
	case pauseBank:
		w.victim(f).signal(syscall.SIGSTOP)
	case stopNATS, wipeNATS:
		w.cluster.NATS.Stop()
	case restartPostgres:
		w.restartPostgres(t, devcluster.Fast)
	case crashPostgres:
		w.restartPostgres(t, devcluster.Immediate)
	}
}

func (w *world) heal(t *testing.T, f fault) {
	t.Helper()
	switch f.kind {
	case killCoordinator:
		w.startCoordinator(t, f.victim)
	case killBank:
		w.startBank(t, bankNames[f.victim])
	case pauseCoordinator:
		w.victim(f).signal(syscall.SIGCONT)
		w.addresses.hide(f.victim, false)
	case pauseBank:
		w.victim(f).signal(syscall.SIGCONT)
	case stopNATS:
		if err := w.cluster.NATS.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	case wipeNATS:
		w.wipeNATS(t)
	case restartPostgres, crashPostgres:
	}
}

// allRun fails if a process has ended by itself.
func (w *world) allRun(t *testing.T) {
	t.Helper()
	for _, p := range append(slices.Clone(w.coordinators), w.bank[bankA], w.bank[bankB]) {
		if !p.runs() {
			t.Fatalf("%s has ended by itself\n%s", p.name, p.log.tail())
		}
	}
}

func (w *world) victim(f fault) *process {
	if f.coordinator() {
		return w.coordinators[f.victim]
	}
	return w.bank[bankNames[f.victim]]
}

// nemesis carries a schedule out and keeps count.
type nemesis struct {
	counts map[faultKind]int
}

// run lets all blows happen, with a line for each.
func (n *nemesis) run(t *testing.T, w *world, l *load, blows []blow) {
	t.Helper()
	n.counts = make(map[faultKind]int)
	defer func() {
		if t.Failed() {
			w.showUnfinished(t)
		}
	}()
	for i, b := range blows {
		l.reach(t, b.progress, endLimit)
		pause(t.Context(), b.offset)
		began, before := time.Since(l.started), l.ended.Load()
		if before == int64(len(l.results)) {
			t.Fatalf("blow %d comes too late: all orders have ended", i+1)
		}
		w.strike(t, b)
		w.allRun(t)
		after := l.ended.Load()
		t.Logf("%3d. %7.3fs %-60s for %5.3fs; %d orders ended before, %d meanwhile",
			i+1, began.Seconds(), b, time.Since(l.started).Seconds()-began.Seconds(), before, after-before)
		for _, f := range b.faults {
			n.counts[f.kind]++
		}
		if b.lasts == longPause && after-before < goOnMin {
			t.Errorf("blow %d paused a coordinator for %s, and only %d orders ended, want %d at least: the other one did not go on", i+1, longPause, after-before, goOnMin)
		}
	}
}

// progress prints a line every few seconds until the function that it returns is called.
func (l *load) progress(t *testing.T) (stop func()) {
	const every = 3 * time.Second
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		last := int64(0)
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			ended := l.ended.Load()
			t.Logf("     %7.3fs %d orders ended, %.0f/s, %d under way, %d dead letters replayed", time.Since(l.started).Seconds(),
				ended, float64(ended-last)/every.Seconds(), l.answered.Load()-ended, l.replays.Load())
			last = ended
		}
	}()
	return func() { cancel(); <-done }
}

// A schedule has every fault with every victim, and the same seed draws the same one.
func TestSchedule(t *testing.T) {
	draw := func(seed uint64) []blow { return drawBlows(rand.New(rand.NewPCG(seed, 0)), 2, 1000) }
	whole := func(blows []blow) (text string) {
		for _, b := range blows {
			text += fmt.Sprintln(b.progress, b.offset, b.lasts, b)
		}
		return text
	}
	blows := draw(1)
	seen, last, pairs := make(map[string]int), -1, 0
	for _, b := range blows {
		seen[b.faults[0].String()]++
		if b.progress <= last {
			t.Errorf("a blow at %d comes after one at %d", b.progress, last)
		}
		last, pairs = b.progress, pairs+len(b.faults)-1
	}
	if len(seen) != 12 || len(blows) != 25 || pairs == 0 {
		t.Errorf("%d blows, %d together with another fault: %v", len(blows), pairs, seen)
	}
	if whole(blows) != whole(draw(1)) || whole(blows) == whole(draw(2)) {
		t.Error("the schedule does not follow from the seed")
	}
}
