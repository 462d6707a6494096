package coordinator

import (
	"sync"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// gate is the one door to participants, for all lanes of a coordinator: what may be sent now, and what waits (R1 to R4).
type gate struct {
	mu        sync.Mutex
	flow      *flow.Gate
	alarm     *flow.Alarm
	alarms    []alarm        // that went off and have not led to a pause yet
	elsewhere map[string]int // attempts that other coordinators have in flight, by participant

	loading sync.Mutex // held while pauses are read and replaced
}

func newGate(p flow.Policy, autoPause int) *gate {
	return &gate{flow: flow.NewGate(func(string) flow.Policy { return p }), alarm: flow.NewAlarm(autoPause)}
}

// passage is a round's, of a gate that all lanes share.
type passage struct {
	flow.Passage
	gate *gate
}

func (g *gate) passage() passage { return passage{Passage: g.flow.Passage(), gate: g} }

// Ask asks for one attempt (saga.Gate).
func (p *passage) Ask(r saga.SendRequest, now time.Time) (saga.Wait, time.Time) {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	return p.Passage.Ask(r, now)
}

// Abandon gives back what was asked for.
func (p *passage) Abandon() {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.Passage.Abandon()
}

// Stored tells the gate what has happened.
func (p *passage) Stored(now time.Time) {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.Passage.Stored(now)
}

// inFlight returns how many attempts this coordinator waits for, by participant; those of zero are left out.
func (g *gate) inFlight(now time.Time) map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	counts := map[string]int{}
	g.flow.Each(func(participant string, f *flow.Flow) {
		if n := f.InFlight(now); n != 0 {
			counts[participant] = n
		}
	})
	return counts
}

// share tells the gate of the other coordinators.
func (g *gate) share(others []map[string]int) {
	total := map[string]int{}
	for _, counts := range others {
		for participant, n := range counts {
			total[participant] += n
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.flow.Share(len(others)+1, total)
	g.alarm.Share(len(others) + 1)
	g.elsewhere = total
}

// pause replaces what is paused.
func (g *gate) pause(list []Paused) {
	pauses := make([]flow.Pause, 0, len(list))
	for i := range list {
		pauses = append(pauses, list[i].Pause)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.flow.Pause(pauses)
}

// holds returns what a replay would wait for now.
func (g *gate) holds(r saga.SendRequest, now time.Time) saga.Wait {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.flow.Holds(r, now)
}

// ParticipantFlow is what a coordinator knows of the traffic to a participant.
type ParticipantFlow struct {
	Participant string
	Breaker     flow.BreakerState
	InFlight    int // attempts of all coordinators whose reply is awaited, those of the others as of a second ago
	Draining    bool
	Ceiling     int // commands per second, of all coordinators, while a backlog drains
}

// Flows returns what this coordinator knows of the traffic to the participants that it has sent to, by name.
func (c *Coordinator) Flows() map[string]ParticipantFlow {
	now := c.store.clock.now()
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	flows := map[string]ParticipantFlow{}
	c.gate.flow.Each(func(name string, f *flow.Flow) {
		flows[name] = ParticipantFlow{
			Participant: name, Breaker: f.Breaker(now), InFlight: max(f.InFlight(now)+c.gate.elsewhere[name], 0), Draining: f.Draining(now), Ceiling: f.Ceiling(now),
		}
	})
	return flows
}
