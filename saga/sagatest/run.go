package sagatest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// Mode says which faults a run has beside the usual ones, and what is expected of it.
type Mode string

// The modes.
const (
	Normal   Mode = "normal"   // every fault that the protocol has to survive: no rule is ever broken
	Disaster Mode = "disaster" // a database loses what it had acknowledged: what is wrong afterwards is detected
)

// Options of a run. The zero value of all but Seed is a usual run.
type Options struct {
	Seed     uint64
	Mode     Mode
	Sabotage Sabotage
	Trace    bool    // keep a trace
	TraceOf  saga.ID // of one transaction only; zero: of all
}

// Result is what came of a run.
type Result struct {
	Seed      uint64
	Violation *Violation // nil: every rule held
	Trace     []string
	Simulated time.Duration
	Events    int
	Statuses  map[saga.Status]int
	Faults    [faultKinds]int
	Points    [points]pointCount
	Coverage  Coverage
	Waits     map[saga.Wait]int // why something was not sent at once
	Detected  map[string]int    // in disaster mode: transactions that are wrong, by what tells of it
}

// world is one run: every process, server and person of it.
type world struct {
	mode     Mode
	sabotage Sabotage
	now      instant
	agenda   agenda
	rnd      *rand.Rand
	faults   faults
	weak     [2]point
	traits   [traits]bool
	routes   [2]route   // of a belated run: those that are the slowest
	trouble  saga.Phase // of a troubled run: the phase in which user code is in trouble most
	points   [points]pointCount
	coverage Coverage

	database     *database
	bag          *bag
	coordinators []*coordinator
	participants []*participant
	processes    []*process
	definitions  []*saga.Definition

	flow       flow.Policy
	pauses     []flow.Pause // by operators (E2)
	waits      map[saga.Wait]int
	active     time.Duration // how long orders are placed
	gap        time.Duration // in the middle of that, in which nobody orders anything, and retention passes
	retention  time.Duration
	orderCount int
	numbers    map[string]int
	orders     map[saga.ID]*order // accepted ones
	moods      map[suspectKey]mood
	replays    map[suspectKey]int
	edits      int              // numbers what operators send instead
	gone       map[saga.ID]bool // forgotten by retention
	forged     map[saga.ID]bool // somebody sent a command with another body: answers to it are incidents
	run        int              // numbers everything that user code or a gateway makes
	ids        uint64

	statuses  map[saga.Status]int // of transactions when everything has ended
	histories map[saga.ID]*history
	heard     map[heardKey]time.Time // when any coordinator got the last reply to an operation, by the database's clock
	disaster  disaster
	detected  map[string]int
	touched   []saga.ID
	violation *Violation
	events    int
	tracing   bool
	traceOf   saga.ID
	trace     []line
}

// Run runs one seed.
func Run(o Options) Result {
	w := newWorld(o)
	w.play()
	r := Result{
		Seed: o.Seed, Violation: w.violation, Trace: w.lines(), Simulated: time.Duration(w.now), Events: w.events,
		Statuses: w.statuses, Detected: w.detected, Waits: w.waits, Faults: w.faults.counts, Points: w.points, Coverage: w.coverage,
	}
	return r
}

func newWorld(o Options) *world {
	w := &world{
		mode: o.Mode, sabotage: o.Sabotage, rnd: rand.New(rand.NewPCG(o.Seed, 0x5a6ac17)), coverage: Coverage{},
		numbers: map[string]int{}, orders: map[saga.ID]*order{}, moods: map[suspectKey]mood{}, replays: map[suspectKey]int{},
		gone: map[saga.ID]bool{}, forged: map[saga.ID]bool{}, histories: map[saga.ID]*history{}, statuses: map[saga.Status]int{},
		detected: map[string]int{}, heard: map[heardKey]time.Time{}, waits: map[saga.Wait]int{},
		tracing: o.Trace, traceOf: o.TraceOf,
	}
	if w.mode == "" {
		w.mode = Normal
	}
	w.active = w.tail(20*time.Second, 10*time.Minute)
	w.orderCount = 1 + w.rnd.IntN(30)
	w.retention = w.between(30*time.Minute, 2*time.Hour)
	if w.rnd.IntN(6) == 0 && w.mode == Normal { // what retention has dropped nobody can compare any more
		w.gap = w.retention + w.between(time.Hour, 2*time.Hour)
	}
	w.drawFaults()
	w.flow = w.drawFlow()
	w.database = newDatabase(w)
	w.bag = newBag(w)
	for i := range 2 + w.rnd.IntN(2) {
		c := newCoordinator(w, "c"+string(rune('1'+i)))
		w.coordinators = append(w.coordinators, c)
		w.processes = append(w.processes, c.process)
		w.bag.join(replies, c.process, c.takeReply)
	}
	for i := range 1 + w.rnd.IntN(4) {
		p := newParticipant(w, "p"+string(rune('1'+i)), 1+w.rnd.IntN(2))
		p.db.offset = w.between(-2*time.Second, 2*time.Second)
		w.participants = append(w.participants, p)
	}
	w.disaster.restores = w.mode == Disaster && w.rnd.IntN(2) == 0
	for i := range 1 + w.rnd.IntN(4) {
		w.definitions = append(w.definitions, w.drawDefinition("d"+string(rune('1'+i))))
	}
	return w
}

// How long things may take once faults have stopped (I-11). Late copies of messages may come for hours; no transaction may
// need them.
const (
	endsAlone  = 30 * time.Minute // until everything has ended, or waits for a person
	endsHelped = 2 * time.Hour    // until everything has ended, with operators who replay
)

// play runs the world from beginning to end.
func (w *world) play() {
	for _, p := range w.processes {
		p.restart()
	}
	w.scheduleOrders()
	w.scheduleOperators()
	w.scheduleFaults()
	w.scheduleEchoes()
	w.scheduleRetention()
	w.scheduleDisasters()
	w.until(instant(w.active + w.gap))
	if w.stopped() {
		return
	}
	w.stopFaults()
	w.until(w.now.add(endsAlone))
	w.checkWaiting()
	w.help()
	w.bag.echoAll(10 * time.Minute)
	w.until(w.now.add(20 * time.Minute))
	w.help()
	w.checkRest()
	for _, rec := range w.database.rows {
		w.statuses[rec.tx.Status]++
	}
	if w.mode == Disaster {
		w.checkTold()
		return
	}
	w.forget()
	w.checkRest()
}

// help lets operators replay what is a dead letter until everything has ended (I-11).
func (w *world) help() {
	deadline := w.now.add(endsHelped)
	for w.now < deadline && !w.stopped() && w.underWay() {
		w.settleLetters()
		w.until(w.now.add(time.Minute))
	}
	for _, id := range w.database.ids {
		if r := w.database.rows[id]; !r.tx.Status.Terminal() && (w.mode == Normal || r.openLetters() == 0) {
			w.violated("I-11", id, "%s after faults stopped it is still %s", endsAlone+endsHelped, r.tx.Status)
		}
	}
}

// until runs events up to an instant.
func (w *world) until(end instant) {
	for !w.stopped() && len(w.agenda.events) > 0 && w.agenda.events[0].at <= end {
		e := w.agenda.pop()
		w.now = e.at
		if e.proc != nil {
			if !e.proc.alive || e.proc.life != e.life {
				continue
			}
			if e.proc.pausedUntil > w.now {
				e.at = e.proc.pausedUntil
				w.agenda.push(e)
				continue
			}
		}
		w.events++
		e.run()
		w.checkTouched()
	}
	if !w.stopped() {
		w.now = max(w.now, end)
	}
}

// underWay reports whether any transaction has not ended.
func (w *world) underWay() bool {
	for _, id := range w.database.ids {
		if !w.database.rows[id].tx.Status.Terminal() {
			return true
		}
	}
	return false
}

// checkWaiting: by itself everything has ended, or waits for a person (I-11).
func (w *world) checkWaiting() {
	for _, id := range w.database.ids {
		r := w.database.rows[id]
		if !r.tx.Status.Terminal() && r.openLetters() == 0 {
			w.violated("I-11", id, "%s after faults stopped it is %s, and no dead letter is open", endsAlone, r.tx.Status)
		}
	}
}

// forget lets retention pass over everything: first at the participants, then at the coordinators, while late copies of
// messages, people and clients still ask for what is past. New orders carry the floor to the participants (B7).
func (w *world) forget() {
	w.until(w.now.add(w.retention + time.Hour))
	for range lateOrders {
		w.after(w.between(0, time.Minute), w.placeOrder)
	}
	w.until(w.now.add(2 * time.Minute))
	w.retainParticipants()
	w.askAgain()
	w.bag.echoCommands(lateCommands, 5*time.Minute)
	w.until(w.now.add(10 * time.Minute))
	w.retainCoordinators()
	w.until(w.now.add(time.Minute))
	w.askAgain()
	w.until(w.now.add(delayMax))
	w.help()
}

// scheduleEchoes delivers old replies again while the world is under way.
func (w *world) scheduleEchoes() {
	var again func()
	again = func() {
		if w.now < instant(w.active) {
			w.bag.echo(w.rnd.IntN(20), 10*time.Second)
			w.after(w.echoesAfter(), again)
		}
	}
	if w.traits[belated] || w.rnd.IntN(4) == 0 {
		w.after(w.echoesAfter(), again)
	}
}

// scheduleRetention lets retention pass now and then while faults last.
func (w *world) scheduleRetention() {
	var again func()
	again = func() {
		if w.faults.stopped {
			return
		}
		w.retainParticipants()
		w.retainCoordinators()
		w.after(w.between(time.Minute, 20*time.Minute), again)
	}
	w.after(w.between(time.Minute, 20*time.Minute), again)
}

func (w *world) retainParticipants() {
	for _, p := range w.participants {
		p.retain()
	}
}

func (w *world) retainCoordinators() {
	for _, c := range w.coordinators {
		if c.alive {
			c.retain()
		}
	}
}

// lateCommands come when their participants have forgotten their transactions (B7).
const lateCommands = 20

// lateOrders are placed when all others are past retention.
const lateOrders = 3

// askAgain asks for old transactions: operators their participants, clients the coordinators.
func (w *world) askAgain() {
	for _, id := range slices.SortedFunc(maps.Keys(w.orders), compareIDs) {
		if r := w.database.rows[id]; r != nil && (anyUnusual(r) || w.rnd.IntN(4) == 0) {
			w.inquireAll(r)
		}
		if o := w.orders[id]; o.requestID != "" && w.rnd.IntN(4) == 0 {
			o.tries = 0
			o.try()
		}
	}
}

// checkRest: nothing is left over (C2), and the books are even (I-12).
func (w *world) checkRest() {
	if len(w.database.outbox) > 0 {
		row := w.database.outbox[0]
		w.violated("C2", row.about, "a message is left in the outbox since %s: %s", row.created.Sub(begin), messageText{row.msg})
	}
	for _, id := range w.database.ids {
		w.checkTransaction(id)
		w.checkBooks(w.database.rows[id])
	}
}

// checkBooks: what a transaction moved adds up to zero, and it holds nothing (I-12). Of one that a person resolved nobody
// knows.
func (w *world) checkBooks(r *record) {
	if r.tx.Status == saga.StatusResolved || w.mode != Normal {
		return
	}
	sum := account{}
	for _, p := range w.participants {
		a := p.db.books[r.tx.ID]
		sum.balance += a.balance
		sum.held += a.held
	}
	external := false
	for _, s := range r.def.Steps {
		external = external || actions[s.Action].external
	}
	if sum.held != 0 || sum.balance != 0 && !external {
		w.violated("I-12", r.tx.ID, "it is %s, and its books show %d moved and %d held", r.tx.Status, sum.balance, sum.held)
	}
}

// newID makes a UUIDv7 of an instant.
func (w *world) newID(t time.Time) saga.ID {
	id := saga.FirstIDAt(t)
	w.ids++
	a, b := w.rnd.Uint64(), w.ids
	id[7], id[9] = byte(a), byte(a>>8)
	for i := 10; i < 16; i++ {
		id[i] = byte(b >> (8 * (15 - i)))
	}
	id[10] ^= byte(a >> 16)
	return id
}

// forge sends a reply in the name of somebody whom the operation does not concern (I-14).
func (w *world) forge() {
	if w.mode == Disaster {
		return // it would be told by the incidents
	}
	for _, id := range w.database.ids {
		r := w.database.rows[id]
		if r.tx.Status.Terminal() || w.rnd.IntN(2) == 0 {
			continue
		}
		w.forgeFor(r)
		w.sendOther(r)
		w.sendConfirm(r)
		return
	}
}
