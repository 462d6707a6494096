package coordinator

import (
	"time"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

// What this engine shares with one that has no database, so that both accept, show and record the same. Package
// coordinatortest runs transactions in memory by it; services have no use for it.

// Kept is a transaction and what is kept beside it.
type Kept struct {
	Tx            saga.Transaction
	Def           *saga.Definition
	Client        string
	RequestID     string // "" if it was submitted without a key
	ContentSHA256 [32]byte
	OwnID         bool      // the client made the id: it may be taken
	WakeAt        time.Time // when something may be due
}

func (k *Kept) record() *record {
	return &record{
		tx: k.Tx, def: k.Def, client: k.Client, requestID: k.RequestID, contentSHA256: k.ContentSHA256,
		definitionName: k.Def.Name, suspended: k.Tx.Suspended(), wakeAt: k.WakeAt,
	}
}

// View returns the transaction as Get does.
func (k *Kept) View() View { return k.record().view() }

// Summary returns the transaction as List does.
func (k *Kept) Summary() View { return k.record().summary() }

// Request returns what identifies its submission.
func (k *Kept) Request() *saga.Request { return k.record().request() }

// Answer returns the answer that is stored with its request key, the same bytes for every repetition (I2).
func (k *Kept) Answer() []byte { return answerFor(k.Tx.ID) }

// ReadSubmission validates a submission and makes the transaction that saga.Submitted begins. find looks up a
// registered definition; its error for one that is not there is ErrNotFound. dated says of an error that it is about
// what may have changed since the same bytes were accepted, the times or the meaning of a name: look for the
// stored answer first (I2). Errors: *saga.InvalidError, or find's.
func ReadSubmission(p SubmitParams, now time.Time, find func(saga.DefinitionRef) (RegisteredDefinition, error)) (k *Kept, dated bool, err error) {
	return readSubmission(p, func() time.Time { return now }, func(text []byte) (*saga.Definition, error) {
		if !named(text) {
			return saga.ParseDefinition(text)
		}
		ref, err := definitionRef(text)
		if err != nil {
			return nil, err
		}
		d, err := find(ref)
		return d.Definition, usable(ref, d, err)
	})
}

// Audit returns what the audit keeps of a judged event: the operator's entry, if it was one's, and what comes late.
func Audit(operator *dlq.AuditEntry, ev saga.Event, j saga.Judgement) []dlq.AuditEntry {
	var entries []dlq.AuditEntry
	if replied, ok := ev.(saga.Replied); ok && j.Late {
		entries = append(entries, lateAudit(replied.Reply))
	}
	if operator != nil {
		entries = append(entries, auditOf(*operator, j.EffectUnknown))
	}
	return entries
}
