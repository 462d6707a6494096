package sagatest

import (
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// Traits are what a run is like beside its faults: some runs have operators who click at once, or replies that are hours
// late, or user code that is always in trouble. Each run draws which it has. A rare cell of the transition table is where
// two of them meet; a run that has all of what can go wrong in equal measure seldom gets there.
type trait uint8

const (
	fenced    trait = iota // every definition has a pivot, and deadlines and cancels come while its try is under way
	hasty                  // operators look all the time, replay and pause at once, and ask participants
	severe                 // operators discard and resolve, where others replay
	troubled               // user code fails in every way, and what fails is set aside at once
	belated                // replies are late, and old ones come again
	outside                // every effect is an external one
	impatient              // clients cancel, soon and again
	fragile                // processes die often where this run is weak

	traits
)

// traitChance is how many runs in a hundred have each.
var traitChance = [traits]int{
	fenced: 15, hasty: 20, severe: 10, troubled: 15, belated: 20, outside: 25, impatient: 20, fragile: 10,
}

// traitFaults is how often things go wrong at least in runs with a trait.
var traitFaults = [traits]map[fault]float64{
	fenced: {
		publishLost: 0.1, messageDuplicated: 0.3, messageDelayed: 0.3, handlerRetried: 0.2, handlerPanicked: 0.2,
		handlerFaulted: 0.1, handlerUnknown: 0.1, handlerSlow: 0.1, operatorInquired: 0.5,
	},
	hasty: {
		operatorReplayed: 0.7, operatorClickedTwice: 0.2, operatorInquired: 0.5, operatorPaused: 0.5, operatorStale: 0.3,
		operatorEdited: 0.2, operatorBrokeGlass: 0.6,
	},
	severe: {operatorDiscarded: 0.3, operatorResolved: 0.3},
	troubled: {
		handlerRefused: 0.1, handlerRetried: 0.3, handlerPanicked: 0.25, handlerFaulted: 0.2, handlerUnknown: 0.15,
		gatewayUndecided: 0.3, gatewayUnreachable: 0.2,
	},
	belated: {messageDelayed: 0.4, messageDuplicated: 0.4},
	outside: {
		gatewayUndecided: 0.2, gatewayUnreachable: 0.2, gatewayAnswerLost: 0.3, gatewayRequestLost: 0.2, gatewayRefused: 0.3,
	},
	impatient: {clientCancelled: 0.8, clientClickedTwice: 0.3},
	fragile:   {crashed: 0.002, handlerKilled: 0.1},
}

// profile is a set of traits that lead to the same rare cells together, with the messages that have to be late for that.
type profile struct {
	share  int     // of a hundred runs
	traits []trait // that each of its runs has
	some   []trait // that half of its runs have
	routes [][2]route
	phases []saga.Phase // one of which is in trouble
}

var profiles = []profile{
	{ // A pivot against its fence: the try is set aside and replayed beside it, and neither's answer comes in time.
		share: 30, traits: []trait{fenced, hasty, troubled, belated}, some: []trait{severe, outside, impatient},
		routes: [][2]route{
			{{reply: true, phase: saga.PhaseTry}, {reply: true, phase: saga.PhaseCancel}},
			{{reply: false, phase: saga.PhaseTry}, {reply: true, phase: saga.PhaseCancel}},
			{{reply: true, phase: saga.PhaseTry}, {reply: false, phase: saga.PhaseCancel}},
		},
		phases: []saga.Phase{saga.PhaseTry},
	},
	{ // Transactions that get stuck on their way back, and operators who give up what they can.
		share: 25, traits: []trait{hasty, severe, troubled, belated}, some: []trait{outside, impatient},
		routes: [][2]route{
			{{reply: true, phase: saga.PhaseCancel}, {reply: true, phase: saga.PhaseConfirm}},
			{{reply: false, phase: saga.PhaseCancel}, {reply: true, phase: saga.PhaseTry}},
		},
		phases: []saga.Phase{saga.PhaseCancel},
	},
	{ // The same on their way forward, whose answers are late.
		share: 15, traits: []trait{hasty, severe, troubled, belated}, some: []trait{outside},
		routes: [][2]route{
			{{reply: true, phase: saga.PhaseConfirm}, {reply: true, phase: saga.PhaseConfirm}},
			{{reply: true, phase: saga.PhaseConfirm}, {reply: false, phase: saga.PhaseConfirm}},
		},
		phases: []saga.Phase{saga.PhaseConfirm},
	},
}

// drawTraits draws what the run is like, and raises the chances of its faults accordingly: most of a profile, or what
// comes together by chance.
func (w *world) drawTraits() {
	for t := range traits {
		w.traits[t] = w.rnd.IntN(100) < traitChance[t]
	}
	w.routes = [2]route{w.drawRoute(), w.drawRoute()}
	w.trouble = phases[w.rnd.IntN(len(phases))]
	n := w.rnd.IntN(100)
	for _, p := range profiles {
		if 0 <= n && n < p.share {
			for _, t := range p.traits {
				w.traits[t] = true
			}
			for _, t := range p.some {
				w.traits[t] = w.rnd.IntN(2) == 0
			}
			w.routes, w.trouble = p.routes[w.rnd.IntN(len(p.routes))], p.phases[w.rnd.IntN(len(p.phases))]
			w.orderCount += 15
		}
		n -= p.share
	}
	for t, has := range w.traits {
		for kind := range w.faults.chances { // in order: a map's is another each time, and nothing may depend on it
			if has {
				w.faults.chances[kind] = max(w.faults.chances[kind], traitFaults[t][fault(kind)])
			}
		}
	}
	if w.traits[fenced] {
		w.faults.chances[operatorEdited] /= 3 // what is edited is not replayed beside its fence
	}
}

// route is the way of commands of a phase, or of the replies to them. Where one is slower than the others, what was sent
// later arrives earlier.
type route struct {
	reply bool
	phase saga.Phase
}

// slowChance is how often a message on a slow route is late.
const slowChance = 0.8

func (w *world) drawRoute() route {
	return route{reply: w.rnd.IntN(2) == 0, phase: phases[w.rnd.IntN(len(phases))]}
}

var phases = []saga.Phase{saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel}

// slow reports whether a message is on a slow route.
func (w *world) slow(m *message) bool {
	if !w.traits[belated] || m.quick || first(m.Header, wire.HeaderVerb) != string(saga.VerbExecute) {
		return false // an inquiry may overtake what it is about
	}
	r := route{reply: m.to.name == replies, phase: saga.Phase(first(m.Header, wire.HeaderPhase))}
	return r == w.routes[0] || r == w.routes[1]
}

// weakness returns how much more often than usual user code is in trouble in such a way: what is set aside at once, rather
// than tried again, leads to more.
func (w *world) weakness(cmd *saga.Command, m mood) float64 {
	duel := w.traits[fenced] && w.trouble == saga.PhaseTry
	switch {
	case !w.traits[troubled]:
		return 1
	case m == moodRefuse && cmd.Attempt > 1: // after it has been in other trouble
		return 3
	case m == moodRefuse:
		return 1
	case duel && cmd.Phase == saga.PhaseTry && cmd.Kind != saga.KindPivot: // or few pivots would be sent
		return 0.1
	case w.trouble != cmd.Phase && !(duel && cmd.Phase == saga.PhaseCancel):
		return 0.3
	case m == moodFault || m == moodUnknown:
		return 3
	}
	return 1
}

// haunt is called for every write. In runs with replies that are late they come when they are least expected: while
// an operation is set aside, or replayed, or overtaken by the decision; and operators ask what became of it.
func (w *world) haunt(r *record) {
	if w.mode != Normal || !w.traits[belated] || r.tx.Status.Terminal() || w.quiet() {
		return
	}
	if anyUnusual(r) {
		w.bag.haunt(r.tx.ID, w.rnd.IntN(6))
		if w.traits[hasty] && w.rnd.IntN(4) == 0 {
			w.inquireAll(r)
		}
	}
}

// hauntRecorded is called when a participant has recorded what the coordinators do not know yet: copies of what was sent come
// now, and operators ask.
func (w *world) hauntRecorded(id saga.ID) {
	r := w.database.rows[id]
	if r == nil || !w.traits[belated] || r.tx.Status.Terminal() || w.quiet() {
		return
	}
	w.bag.haunt(id, w.rnd.IntN(10))
	if w.traits[hasty] && w.rnd.IntN(2) == 0 {
		w.inquireAll(r)
	}
}

// anyUnusual reports whether any operation of a transaction is in such a state.
func anyUnusual(r *record) bool {
	for i := range r.tx.Steps {
		if unusual(&r.tx.Steps[i].Try) || unusual(&r.tx.Steps[i].Settle) {
			return true
		}
	}
	return false
}

// unusual reports whether an operation is in a state that few transactions come to.
func unusual(op *saga.Operation) bool {
	switch op.State {
	case saga.OperationDead, saga.OperationHeld, saga.OperationHanging, saga.OperationRefused, saga.OperationGivenUp, saga.OperationClosed:
		return true
	default:
		return op.Replaying
	}
}

// operatorsLook returns how long operators do something else before they look again.
func (w *world) operatorsLook() time.Duration {
	switch {
	case w.quiet():
		return w.between(30*time.Second, 3*time.Minute)
	case w.traits[hasty]:
		return w.tail(100*time.Millisecond, 5*time.Second)
	}
	return w.between(2*time.Second, 30*time.Second)
}

// echoesAfter returns how long the network is quiet before it repeats old replies again.
func (w *world) echoesAfter() time.Duration {
	if w.traits[belated] {
		return w.between(200*time.Millisecond, 5*time.Second)
	}
	return w.between(time.Second, 20*time.Second)
}

// cancelsAgain returns how often a client cancels again later.
func (w *world) cancelsAgain() int {
	if w.traits[impatient] {
		return w.rnd.IntN(4)
	}
	return 0
}
