package flow

import (
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// Gate holds the flows of all participants and what is paused. Writes ask it through a Passage. It is not safe for
// concurrent use.
type Gate struct {
	policy func(participant string) Policy
	flows  map[string]*Flow
	pauses []Pause

	coordinators int
	others       map[string]int // what the other coordinators have in flight, by participant
}

// ParticipantsMax bounds the flows that are kept. Participants beyond it, which names in definitions can claim, share
// the flow of an empty name.
const ParticipantsMax = 10_000

// NewGate returns a gate. policy returns the valid policy of a participant, and is called once for each.
func NewGate(policy func(participant string) Policy) *Gate {
	return &Gate{policy: policy, flows: map[string]*Flow{}, coordinators: 1}
}

// Flow returns the flow of a participant.
func (g *Gate) Flow(participant string) *Flow {
	f := g.flows[participant]
	if f == nil && len(g.flows) > ParticipantsMax {
		participant = ""
		f = g.flows[participant]
	}
	if f == nil {
		f = New(g.policy(participant))
		f.share, f.others = g.coordinators, g.others[participant] // known before this one has sent anything there
		g.flows[participant] = f
	}
	return f
}

// Each calls f for every flow.
func (g *Gate) Each(f func(participant string, flow *Flow)) {
	for name, flow := range g.flows {
		f(name, flow)
	}
}

// Share says how many coordinators there are, and how much the others have in flight by participant.
func (g *Gate) Share(coordinators int, othersInFlight map[string]int) {
	coordinators = max(coordinators, 1)
	if coordinators != g.coordinators {
		othersInFlight = nil // counted anew, as in the flows
	}
	g.coordinators, g.others = coordinators, othersInFlight
	for name, f := range g.flows {
		f.Share(coordinators, othersInFlight[name])
	}
}

// ask decides about one attempt, and returns the flow that has counted it or given it a slot.
func (g *Gate) ask(r saga.SendRequest, a Attempt, now time.Time) (*Flow, saga.Wait, time.Time) {
	f := g.Flow(r.Command.Participant)
	for i := range g.pauses {
		if g.pauses[i].Holds(r) {
			until := f.park(saga.WaitPause, now)
			return f, saga.WaitPause, until
		}
	}
	wait, until := f.Ask(a, now)
	return f, wait, until
}

// Holds returns what an attempt that an operator asks for would wait for now: WaitPause, WaitBreaker or WaitNone. It counts
// nothing.
func (g *Gate) Holds(r saga.SendRequest, now time.Time) saga.Wait {
	for i := range g.pauses {
		if g.pauses[i].Holds(r) {
			return saga.WaitPause
		}
	}
	if f := g.flows[r.Command.Participant]; f != nil && f.Breaker(now) == BreakerOpen {
		return saga.WaitBreaker
	}
	return saga.WaitNone
}

// Observe tells the flows what an event has ended: it compares the operations before and after it. A reply shows that its
// participant lives, whatever it is about.
func (g *Gate) Observe(def *saga.Definition, before, after saga.Transaction, ev saga.Event, now time.Time) {
	reply, replied := ev.(saga.Replied)
	_, woken := ev.(saga.Woken)
	noticed := false
	for i := range before.Steps {
		for _, pair := range [2][2]*saga.Operation{
			{&before.Steps[i].Try, &after.Steps[i].Try},
			{&before.Steps[i].Settle, &after.Steps[i].Settle},
		} {
			was, is := pair[0], pair[1]
			if was.State != saga.OperationSent || is.State == saga.OperationSent && is.Attempt == was.Attempt {
				continue
			}
			f := g.Flow(def.Steps[i].Participant) // also where others have sent
			own := replied && reply.Reply.Step == def.Steps[i].Name && reply.Reply.Phase == was.Phase
			switch {
			case own:
				f.Answered(was.NextAt, now)
				noticed = true
			case woken && !now.Before(was.NextAt):
				f.TimedOut(was.SentAt, now)
			default:
				f.Dropped(was.NextAt)
			}
		}
	}
	if replied && !noticed {
		g.Flow(reply.Reply.Participant).Heard(now)
	}
}
