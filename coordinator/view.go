package coordinator

import (
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// View is a transaction as people and programs see it.
type View struct {
	ID                saga.ID
	Version           int64
	Status            saga.Status
	Result            saga.Result
	Suspended         bool
	Tenant            string
	Client            string
	RequestID         string
	DefinitionName    string
	DefinitionVersion int // zero in lists
	Cause             saga.Cause
	CreatedAt         time.Time
	StartAt           time.Time
	Deadline          time.Time
	DecidedAt         time.Time
	FinishedAt        time.Time
	WakeAt            time.Time // when something may be due; zero if nothing is
	Traceparent       string
	Steps             []StepView // absent in lists
}

// StepView is one step of a transaction.
type StepView struct {
	Name        string
	Kind        saga.Kind
	Participant string
	Action      string
	After       []string
	Operations  []saga.Operation // those whose turn has come: the try, then what settles it
}

// view makes a View of a record with its operations.
func (r *record) view() View {
	v := r.summary()
	v.Suspended = r.tx.Suspended()
	v.Result = r.tx.Result()
	v.DefinitionVersion = r.def.Version
	for i, s := range r.def.Steps {
		step := StepView{Name: s.Name, Kind: s.Kind, Participant: s.Participant, Action: s.Action, After: s.After}
		for _, op := range []saga.Operation{r.tx.Steps[i].Try, r.tx.Steps[i].Settle} {
			if op.Begun() {
				step.Operations = append(step.Operations, op)
			}
		}
		v.Steps = append(v.Steps, step)
	}
	return v
}

// summary makes a View without steps.
func (r *record) summary() View {
	tx := &r.tx
	v := View{
		ID: tx.ID, Version: tx.Version, Status: tx.Status, Result: tx.Result(), Suspended: r.suspended,
		Tenant: tx.Tenant, Client: r.client, RequestID: r.requestID, DefinitionName: r.definitionName,
		Cause: tx.Cause, CreatedAt: tx.CreatedAt, StartAt: tx.StartAt, Deadline: tx.Deadline, DecidedAt: tx.DecidedAt,
		FinishedAt: tx.FinishedAt, WakeAt: r.wakeAt, Traceparent: tx.Traceparent,
	}
	if r.suspended {
		v.Result = saga.ResultUnknown
	}
	return v
}
