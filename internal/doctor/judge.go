package doctor

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/sagacity-tx/sagacity/saga"
)

// step is what the coordinator knows about a step of a transaction.
type step struct {
	transaction          saga.ID
	tenant               string
	status               saga.Status // of the transaction
	name                 string
	kind                 saga.Kind
	participant          string
	try, confirm, cancel saga.OperationState
}

// judge compares what the barriers and the coordinator say about the transactions of a page. It reads nothing.
type judge struct {
	barriers []*database
	rows     map[saga.ID][]barrierRow
	steps    map[saga.ID][]step
	floor    saga.ID // transactions below it may be forgotten by the coordinator
	found    func(check string, id saga.ID, detail string)
}

func (j *judge) judge() {
	for _, id := range sortIDs(slices.Collect(maps.Keys(j.rows))) {
		j.judgeBoth(id)
		j.judgeUnknown(id)
	}
	for _, id := range sortIDs(slices.Collect(maps.Keys(j.steps))) {
		for i := range j.steps[id] {
			s := &j.steps[id][i]
			row, where, known := j.rowOf(id, s)
			if check, detail := s.verdict(row, known); check != "" {
				j.found(check, id, fmt.Sprintf("%s step %s of %s: %s", s.kind, s.name, where, detail))
			}
		}
	}
}

// rowOf returns the row of a step, the zero row if there is none. It is not known whether there was one if the step's
// participant was not given, or has forgotten the transaction.
func (j *judge) rowOf(id saga.ID, s *step) (row barrierRow, where string, known bool) {
	where = "participant " + s.participant
	for _, r := range j.rows[id] {
		if r.step == s.name && r.tenant == s.tenant {
			return r, where, true
		}
	}
	for _, db := range j.barriers {
		if slices.Contains(db.names, s.participant) {
			return row, where, bytes.Compare(id[:], db.floor[:]) >= 0
		}
	}
	return row, where, false
}

// judgeBoth looks for a confirm and a cancel in one transaction (I-1). A pivot's cancel is its fence.
func (j *judge) judgeBoth(id saga.ID) {
	var confirmed, cancelled *barrierRow
	for i := range j.rows[id] {
		r := &j.rows[id][i]
		switch {
		case r.state == saga.BarrierConfirmed:
			confirmed = r
		case r.kind != saga.KindPivot && (r.state == saga.BarrierCancelled || r.state == saga.BarrierNullCancelled):
			cancelled = r
		}
	}
	if confirmed != nil && cancelled != nil {
		j.found(checkBoth, id, fmt.Sprintf("step %s of %s is confirmed and step %s of %s is cancelled",
			confirmed.step, confirmed.in.names[0], cancelled.step, cancelled.in.names[0]))
	}
}

// judgeUnknown looks for effects of what the coordinator does not have, and has not forgotten (I-9).
func (j *judge) judgeUnknown(id saga.ID) {
	if len(j.steps[id]) == 0 && id.Before(j.floor) {
		return
	}
	for _, r := range j.rows[id] {
		if !effect(r.state) {
			continue
		}
		if !slices.ContainsFunc(j.steps[id], func(s step) bool { return s.name == r.step && s.tenant == r.tenant }) {
			j.found(checkUnknown, id, fmt.Sprintf("step %s of tenant %s is %s in the barrier of %s, and the coordinator has no such step",
				r.step, r.tenant, r.state, r.in.names[0]))
		}
	}
}

// effect reports whether an effect is there, or may be.
func effect(s saga.BarrierState) bool {
	return s == saga.BarrierTried || s == saga.BarrierTrying || s == saga.BarrierConfirmed
}

func cancelled(s saga.BarrierState) bool {
	return s == saga.BarrierCancelled || s == saga.BarrierNullCancelled
}

// says names what a barrier has of a step.
func (r *barrierRow) says() string {
	if r.state == "" {
		return "the barrier has no row"
	}
	return "the barrier's row is " + string(r.state)
}

// verdict returns the check that a step fails, or "". Without known, a row that is not there says nothing.
func (s *step) verdict(row barrierRow, known bool) (check, detail string) {
	if row.state == "" && !known {
		return "", ""
	}
	switch s.status {
	case saga.StatusCommitted:
		return s.verdictCommitted(row)
	case saga.StatusCancelled:
		return s.verdictCancelled(row)
	case saga.StatusResolved:
		return "", "" // what was given up may be anything
	default:
		return s.verdictUnderWay(row)
	}
}

func (s *step) verdictCommitted(row barrierRow) (check, detail string) {
	want := saga.BarrierTried
	if s.kind == saga.KindTCC {
		want = saga.BarrierConfirmed
	}
	if row.state != want {
		return checkCommitted, fmt.Sprintf("the transaction is committed, and %s", row.says())
	}
	return "", ""
}

func (s *step) verdictCancelled(row barrierRow) (check, detail string) {
	switch {
	case effect(row.state):
		return checkCancelled, fmt.Sprintf("the transaction is cancelled, and %s", row.says())
	case s.try != saga.OperationIdle && row.state != saga.BarrierRefused && !cancelled(row.state):
		return checkCancelled, fmt.Sprintf("the transaction is cancelled, and %s, so that a late try would be executed", row.says())
	}
	return "", ""
}

func (s *step) verdictUnderWay(row barrierRow) (check, detail string) {
	commit, cancel := s.status == saga.StatusConfirming, s.status == saga.StatusCancelling
	switch {
	case row.state == saga.BarrierConfirmed && !commit,
		row.state == saga.BarrierTried && s.kind == saga.KindRetriable && !commit,
		row.state == saga.BarrierTried && s.kind == saga.KindPivot && cancel,
		cancelled(row.state) && s.kind != saga.KindPivot && !cancel,
		cancelled(row.state) && s.kind == saga.KindPivot && s.cancel == saga.OperationIdle && !cancel:
		return checkDirection, fmt.Sprintf("the transaction is %s, and %s", s.status, row.says())
	case s.cancel == saga.OperationDone && !cancelled(row.state) && row.state != saga.BarrierRefused:
		return checkLost, fmt.Sprintf("its cancel is done, and %s", row.says())
	case s.confirm == saga.OperationDone && row.state != saga.BarrierConfirmed:
		return checkLost, fmt.Sprintf("its confirm is done, and %s", row.says())
	case s.try == saga.OperationDone && row.state != saga.BarrierTried && row.state != saga.BarrierConfirmed && !cancelled(row.state):
		return checkLost, fmt.Sprintf("its try is done, and %s", row.says())
	case s.try == saga.OperationRefused && row.state != saga.BarrierRefused:
		return checkLost, fmt.Sprintf("its try was refused, and %s", row.says())
	}
	return "", ""
}
