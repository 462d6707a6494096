package sagatest

import (
	"math"
	"time"

	"github.com/sagacity-tx/sagacity/saga/flow"
)

// What goes wrong. Each run draws for itself which faults there are and how often each happens, so that some runs
// have one fault very often and others have all of them.

// fault is a kind of thing that goes wrong.
type fault uint8

// The kinds of faults.
const (
	crashed fault = iota
	paused
	partitioned
	restarted

	commitFailed
	commitAnswerLost
	commitLost
	commitLate
	readFailed
	databaseDown
	clockJumped
	rowEvicted
	rowAged

	publishLost
	pubAckLost
	publishBlocked
	messageLost
	messageDuplicated
	messageDelayed
	ackLost
	bagDown
	bagWiped
	garbageSent
	replyForged

	outage
	handlerRefused
	handlerRetried
	handlerPanicked
	handlerFaulted
	handlerUnknown
	handlerSlow
	handlerKilled

	gatewayNotSent
	gatewayRequestLost
	gatewayAnswerLost
	gatewayRefused
	gatewayUndecided
	gatewayUnreachable
	gatewayLate

	clientLostAnswer
	clientClickedTwice
	clientCancelled
	clientReusedKey
	clientRepeated

	operatorReplayed
	operatorEdited
	operatorUnapproved
	operatorOwnApproval
	operatorRevoked
	operatorBrokeGlass
	operatorDiscarded
	operatorResolved
	operatorClickedTwice
	operatorStale
	operatorInquired
	operatorPaused

	commitsForgotten
	participantRestored

	faultKinds
)

var faultNames = [faultKinds]string{
	crashed: "process crashed", paused: "process paused", partitioned: "process partitioned", restarted: "coordinator restarted",
	commitFailed: "commit failed", commitAnswerLost: "commit done, answer lost", commitLost: "commit lost, answer lost",
	commitLate: "commit done after its error", readFailed: "read failed", databaseDown: "database down",
	clockJumped: "clock jumped", rowEvicted: "row evicted from cache", rowAged: "row aged in cache",
	publishLost: "publish lost", pubAckLost: "PubAck lost", publishBlocked: "queue full", messageLost: "message lost after PubAck",
	messageDuplicated: "message duplicated", messageDelayed: "message delayed", ackLost: "ack lost", bagDown: "NATS down",
	bagWiped: "NATS wiped", garbageSent: "garbage sent", replyForged: "reply forged",
	outage: "participant down", handlerRefused: "handler refused", handlerRetried: "handler failed",
	handlerPanicked: "handler panicked", handlerFaulted: "handler faulted", handlerUnknown: "handler unknown",
	handlerSlow: "handler slow", handlerKilled: "handler killed its process",
	gatewayNotSent: "gateway: not sent", gatewayRequestLost: "gateway: request lost", gatewayAnswerLost: "gateway: answer lost",
	gatewayRefused: "gateway: refused", gatewayUndecided: "gateway: undecided", gatewayUnreachable: "gateway: unreachable",
	gatewayLate:      "gateway: request late",
	clientLostAnswer: "client: answer lost", clientClickedTwice: "client: clicked twice", clientCancelled: "client: cancelled",
	clientReusedKey: "client: key reused", clientRepeated: "client: repeated later",
	operatorReplayed: "operator: replayed", operatorEdited: "operator: edited", operatorUnapproved: "operator: not approved",
	operatorOwnApproval: "operator: approved alone", operatorRevoked: "operator: revoked", operatorBrokeGlass: "operator: broke the glass",
	operatorDiscarded: "operator: discarded", operatorResolved: "operator: resolved",
	operatorClickedTwice: "operator: clicked twice", operatorStale: "operator: stale page", operatorInquired: "operator: inquired", operatorPaused: "operator: paused",
	commitsForgotten: "coordinator's commits forgotten", participantRestored: "participant restored",
}

// faultChances is how often each kind happens where nothing else is drawn: per decision point, not per second.
var faultChances = [faultKinds]float64{
	crashed: 0.002, paused: 0.002, partitioned: 0.5, restarted: 0.4,
	commitFailed: 0.02, commitAnswerLost: 0.02, commitLost: 0.02, commitLate: 0.02, readFailed: 0.02, databaseDown: 0.3,
	clockJumped: 0.4, rowEvicted: 0.05, rowAged: 0.1,
	publishLost: 0.03, pubAckLost: 0.03, publishBlocked: 0.02, messageLost: 0.03, messageDuplicated: 0.1,
	messageDelayed: 0.1, ackLost: 0.05, bagDown: 0.4, bagWiped: 0.4, garbageSent: 0.3, replyForged: 0.3,
	outage: 0.4, handlerRefused: 0.03, handlerRetried: 0.1, handlerPanicked: 0.03, handlerFaulted: 0.03,
	handlerUnknown: 0.02, handlerSlow: 0.05, handlerKilled: 0.02,
	gatewayNotSent: 0.05, gatewayRequestLost: 0.05, gatewayAnswerLost: 0.1, gatewayRefused: 0.05, gatewayUndecided: 0.05,
	gatewayUnreachable: 0.1, gatewayLate: 0.05,
	clientLostAnswer: 0.1, clientClickedTwice: 0.1, clientCancelled: 0.2, clientReusedKey: 0.05, clientRepeated: 0.2,
	operatorReplayed: 0.5, operatorEdited: 0.2, operatorUnapproved: 0.1, operatorOwnApproval: 0.1, operatorRevoked: 0.1,
	operatorBrokeGlass: 0.3, operatorDiscarded: 0.15, operatorResolved: 0.1, operatorClickedTwice: 0.2, operatorStale: 0.1,
	operatorInquired: 0.2, operatorPaused: 0.3,
}

// faults is what one run does to the world.
type faults struct {
	chances [faultKinds]float64
	counts  [faultKinds]int
	stopped bool
}

// drawFaults draws which kinds this run has, and how often. The chances of what is drawn once per outage or person
// stay as they are.
func (w *world) drawFaults() {
	for kind := range w.faults.chances {
		if w.rnd.IntN(10) < 4 {
			continue
		}
		chance := faultChances[kind]
		if chance < 0.15 {
			chance = min(0.4, chance*math.Exp2(w.rnd.Float64()*5-2))
		}
		w.faults.chances[kind] = chance
	}
	w.drawTraits()
	w.weak[0], w.weak[1] = point(w.rnd.IntN(int(points))), point(w.rnd.IntN(int(points)))
}

// The chance of dying at one of the run's weak points.
const (
	weakChance    = 0.03
	fragileChance = 0.3
)

// chance draws whether a fault happens here, and counts it.
func (w *world) chance(kind fault) bool { return w.often(kind, w.faults.chances[kind]) }

// often is chance with a chance of its own.
func (w *world) often(kind fault, c float64) bool {
	if c == 0 || w.faults.stopped || w.rnd.Float64() >= c {
		return false
	}
	w.faults.counts[kind]++
	return true
}

// chanceAt draws whether a process dies or is paused at a crash point. Each run has weak points where it is likely.
func (w *world) chanceAt(kind fault, at point) bool {
	c := w.faults.chances[kind]
	if c == 0 || w.faults.stopped {
		return false
	}
	if at == w.weak[0] || at == w.weak[1] {
		c = weakChance
		if w.traits[fragile] {
			c = fragileChance
		}
	}
	if w.rnd.Float64() >= c {
		return false
	}
	w.faults.counts[kind]++
	if kind == crashed {
		w.points[at].crashes++
	} else {
		w.points[at].pauses++
	}
	return true
}

// point is a crash point of section K: a place between two actions.
type point uint8

// The crash points.
const (
	pointSubmissionReceived point = iota
	pointBatchBuilt
	pointMerged
	pointCommitSent
	pointCommitted
	pointDecisionCommitted
	pointHandedOff
	pointPublished
	pointPubAcked
	pointReplyReceived
	pointBeforeAck
	pointOperatorBefore
	pointOperatorAfter
	pointRetention

	pointFetched
	pointEntered
	pointChanged
	pointStored
	pointLocalCommitSent
	pointLocalCommitted
	pointReplyPublished
	pointReplyPubAcked
	pointClaimed
	pointDownstream

	points
)

var pointNames = [points]string{
	pointSubmissionReceived: "submission received",
	pointBatchBuilt:         "batch built",
	pointMerged:             "merged, before commit",
	pointCommitSent:         "commit sent",
	pointCommitted:          "committed, not handed to the publisher",
	pointDecisionCommitted:  "decision committed, before publish",
	pointHandedOff:          "handed off, before publish",
	pointPublished:          "published, before PubAck",
	pointPubAcked:           "PubAck, row not removed",
	pointReplyReceived:      "reply received",
	pointBeforeAck:          "committed, before ack",
	pointOperatorBefore:     "operator's action, before commit",
	pointOperatorAfter:      "operator's action, after commit",
	pointRetention:          "retention, between steps",
	pointFetched:            "fetched",
	pointEntered:            "barrier entered",
	pointChanged:            "business change done",
	pointStored:             "reply stored, before commit",
	pointLocalCommitSent:    "local commit sent",
	pointLocalCommitted:     "locally committed, before reply",
	pointReplyPublished:     "reply published, before PubAck",
	pointReplyPubAcked:      "reply's PubAck, before command ack",
	pointClaimed:            "lease claimed, before downstream",
	pointDownstream:         "downstream answered, before it is stored",
}

// pointCount counts what happened at a crash point.
type pointCount struct{ reached, crashes, pauses int }

// scheduleFaults plans what goes wrong by the clock rather than at a decision point, until faults stop.
func (w *world) scheduleFaults() {
	every := func(kind fault, low, high time.Duration, run func()) {
		var again func()
		again = func() {
			if w.faults.stopped {
				return
			}
			if w.chance(kind) {
				run()
			}
			d := w.between(low, high)
			if w.quiet() {
				d *= 20 // or most of it would happen then
			}
			w.after(d, again)
		}
		w.after(w.between(low/4, high), again)
	}
	span := w.active / 6
	every(partitioned, span/2, span, func() {
		p := w.anyProcess()
		p.cutUntil = w.now.add(w.tail(time.Second, 2*time.Minute))
		w.note(noID, p.name, "is cut off until %s", stamp(p.cutUntil))
	})
	every(restarted, span/2, span, func() {
		if c := w.coordinators[w.rnd.IntN(len(w.coordinators))]; c.alive && !c.stopping {
			c.stop()
		}
	})
	every(databaseDown, span, 2*span, func() {
		s := w.anyServer()
		s.downUntil = w.now.add(w.tail(time.Second, time.Minute))
		w.note(noID, s.name, "is down until %s", stamp(s.downUntil))
	})
	every(clockJumped, max(span/2, leaseTime), max(span, 2*leaseTime), func() {
		s := w.anyServer()
		s.jump(w.between(-jumpMax, jumpMax))
	})
	every(bagDown, span, 2*span, func() { w.bag.downUntil = w.now.add(w.tail(time.Second, time.Minute)) })
	every(bagWiped, span, 2*span, w.bag.wipe)
	every(garbageSent, span/2, span, w.bag.garbage)
	every(replyForged, span/4, span/2, w.forge)
	every(operatorPaused, span, 2*span, w.pauseSending)
	every(outage, span, 2*span, func() { w.participants[w.rnd.IntN(len(w.participants))].outage() })
}

// quiet reports whether nobody orders anything: in the middle of some runs, and when faults have stopped.
func (w *world) quiet() bool {
	return w.faults.stopped || w.now > instant(w.active/2) && w.now < instant(w.active/2+w.gap)
}

// pauseSending lets an operator pause something for a while (E2).
func (w *world) pauseSending() {
	pauses := []flow.Pause{
		{Scope: flow.ScopeAll},
		{Scope: flow.ScopeDefinition, Definition: w.definitions[0].Name},
		{Scope: flow.ScopeParticipant, Participant: w.participants[0].name},
		{Scope: flow.ScopeAction, Participant: w.participants[0].name, Action: "book"},
	}
	w.pauses = []flow.Pause{pauses[w.rnd.IntN(len(pauses))]}
	w.note(noID, "operator", "pauses %s", w.pauses[0].Scope)
	w.after(w.tail(time.Second, 5*time.Minute), w.resumeSending)
}

func (w *world) resumeSending() {
	w.pauses = nil
	for _, c := range w.coordinators {
		if c.alive {
			c.gate.share()
		}
	}
}

// jumpMax is how far a database's clock is set at once. It is less than the margin of a lease, which is counted by
// that clock (U4).
const jumpMax = 3 * time.Second

// stopFaults ends everything that goes wrong: what was down comes up, and from now on everybody does as asked. What
// is under way, late copies of messages above all, stays under way.
func (w *world) stopFaults() {
	w.faults.stopped = true
	w.note(noID, "world", "faults stop")
	w.database.downUntil, w.bag.downUntil = 0, 0
	for _, p := range w.participants {
		p.db.downUntil = 0
	}
	for _, p := range w.processes {
		p.down, p.cutUntil = false, 0
		p.restart()
	}
}

func (w *world) anyProcess() *process { return w.processes[w.rnd.IntN(len(w.processes))] }

func (w *world) anyServer() *server {
	n := w.rnd.IntN(len(w.participants) + 1)
	if n == 0 {
		return &w.database.server
	}
	return &w.participants[n-1].db.server
}
