package e2e

import (
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// checkContent compares what the banks moved with what the order wanted: a step that was to use the result of an
// earlier one included (M8).
func (i *inspection) checkContent(r *result, effects []effect) {
	for _, e := range effects {
		m, ok := r.move(e.step)
		if !ok || e.account != m.Account || e.cents != r.cents(e.step) {
			i.blame(r.submitted.ID, "%s/%s moved %d cents of %s, want %d of %s (M8, S1.6)", e.step, e.phase, e.cents, e.account, r.cents(e.step), m.Account)
		}
	}
}

// checkSequence compares the times of the effects with the order that the definition wants (S2.2 to S2.4). All banks
// have the same clock.
func (i *inspection) checkSequence(r *result, effects []effect) {
	at := make(map[string]time.Time)
	for _, e := range effects {
		at[e.step+"/"+e.phase] = e.at
	}
	before := func(first, second, rule string) {
		a, ok := at[first]
		b, ran := at[second]
		if ok && ran && !a.Before(b) {
			i.blame(r.submitted.ID, "%s ran at %s, not after %s at %s (%s)", second, b.Format(time.RFC3339Nano), first, a.Format(time.RFC3339Nano), rule)
		}
	}
	for n, s := range r.def.Steps {
		for _, m := range r.def.Predecessors(n) {
			p := r.def.Steps[m]
			before(p.Name+"/try", s.Name+"/try", "M8")
			if _, ran := at[s.Name+"/try"]; ran && at[p.Name+"/try"].IsZero() {
				i.blame(r.submitted.ID, "%s was tried, and %s before it was not (M8)", s.Name, p.Name)
			}
			before(p.Name+"/confirm", s.Name+"/confirm", "S2.3")
			if s.Kind == saga.KindRetriable {
				before(p.Name+"/confirm", s.Name+"/try", "S2.3")
			}
			before(s.Name+"/cancel", p.Name+"/cancel", "S2.4")
		}
		for _, other := range r.def.Steps {
			if undoable(other.Kind) && s.Kind == saga.KindPivot {
				before(other.Name+"/try", s.Name+"/try", "S2.3")
			}
			if other.Kind != saga.KindRetriable {
				before(other.Name+"/try", s.Name+"/confirm", "S2.3")
				if s.Kind == saga.KindRetriable {
					before(other.Name+"/try", s.Name+"/try", "S2.3")
				}
			}
		}
	}
}
