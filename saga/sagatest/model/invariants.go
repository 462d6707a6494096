package model

import (
	"fmt"

	"github.com/sagacity-tx/sagacity/saga"
)

// check returns the invariant that a state breaks, or "".
func (m *Model) check(s state) string {
	tx := &m.rows[s.row].tx
	confirmed, cancelled := "", ""
	for i := range m.def.Steps {
		b := &m.barriers[i][m.locals[i][s.locals[i]].barrier]
		if b.runs[1] > 0 {
			confirmed = m.def.Steps[i].Name
		}
		if b.runs[2] > 0 || b.row.State == saga.BarrierCancelled || b.row.State == saga.BarrierNullCancelled {
			cancelled = m.def.Steps[i].Name
		}
		if problem := m.checkStep(tx, i, b); problem != "" {
			return problem
		}
	}
	if confirmed != "" && cancelled != "" {
		return fmt.Sprintf("I-1: %s is confirmed and %s cancelled", confirmed, cancelled)
	}
	if early := s.published() &^ m.sentMask(s.row); early != 0 {
		return "I-8: a command is published, and the state that it follows from is not committed"
	}
	return m.checkEnds(s)
}

// checkStep holds a participant against the transaction: I-2, I-3, and the proofs of S2.3 and S2.6.
func (m *Model) checkStep(tx *saga.Transaction, step int, b *barrier) string {
	kind, name := m.def.Steps[step].Kind, m.def.Steps[step].Name
	is := direction(tx)
	pivotSent := kind == saga.KindPivot && tx.Steps[step].Try.Sent()
	switch {
	case b.runs[0] > 1 || b.runs[1] > 1 || b.runs[2] > 1 || b.ext.effects > 1:
		return "I-3: an operation of " + name + " takes effect twice"
	case is == 1 && kind != saga.KindRetriable && !b.executed():
		return fmt.Sprintf("S2.3, S2.6: commit is decided, and %s has not executed", name)
	case is == 2 && kind == saga.KindPivot && b.executed():
		return fmt.Sprintf("S2.6, I-2: cancel is decided, and the pivot %s has executed", name)
	case is == 2 && pivotSent && !b.sealed():
		return fmt.Sprintf("S2.6: cancel is decided without proof that the pivot %s never executes", name)
	case tx.Status == saga.StatusCancelled && b.effect():
		return fmt.Sprintf("I-2: cancelled, and %s holds an effect", name)
	case tx.Status != saga.StatusCommitted:
	case !b.executed() || b.runs[2] > 0 || b.row.State == saga.BarrierCancelled || b.row.State == saga.BarrierNullCancelled:
		return fmt.Sprintf("I-2: committed, and %s is %s", name, b.row.State)
	case kind == saga.KindTCC && b.runs[1] != 1:
		return fmt.Sprintf("I-2: committed, and %s is not confirmed", name)
	}
	return ""
}
