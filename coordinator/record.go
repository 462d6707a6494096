package coordinator

import (
	"bytes"
	"time"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

// Caller is who asks: a tenant's authenticated client. It comes from the credential, never from a body (I1).
type Caller struct {
	Tenant string
	Client string
	Reach  Reach  // whose transactions it may see and cancel beside its own
	Actor  string // with a reach: its name in the audit
}

// Reach says whose transactions a caller gets at. The zero value is its own.
type Reach int

// The reaches of callers.
const (
	ReachOwn    Reach = iota // of its tenant and client (S1.2)
	ReachTenant              // of all clients of its tenant
	ReachAll                 // of all tenants
)

// owns reports whether the transaction was submitted by the caller.
func (c Caller) owns(r *record) bool { return r.tx.Tenant == c.Tenant && r.client == c.Client }

// reaches reports whether the caller may see the transaction (I-14).
func (c Caller) reaches(r *record) bool {
	switch c.Reach {
	case ReachAll:
		return true
	case ReachTenant:
		return r.tx.Tenant == c.Tenant
	default:
		return c.owns(r)
	}
}

// selects returns tenant and client of the transactions that the caller may see; nil: any.
func (c Caller) selects() (tenant, client *string) {
	switch c.Reach {
	case ReachAll:
		return nil, nil
	case ReachTenant:
		return &c.Tenant, nil
	default:
		return &c.Tenant, &c.Client
	}
}

// record is a transaction as the store holds it: the pure part and what the coordinator knows beside it.
type record struct {
	tx             saga.Transaction
	def            *saga.Definition
	defSHA256      [32]byte
	client         string
	requestID      string // "" if it was submitted without a key
	contentSHA256  [32]byte
	definitionName string
	suspended      bool      // as stored, where operations are not loaded
	wakeAt         time.Time // as stored when loaded
	bodyBytes      int       // of the submission, which the inputs are parts of and keep in memory
	bytes          int       // as the cache counts it
}

// request is what identifies the submission that began the transaction.
func (r *record) request() *saga.Request {
	return &saga.Request{
		Tenant: r.tx.Tenant, Client: r.client, RequestID: r.requestID,
		Transaction: r.tx.ID, ContentSHA256: r.contentSHA256,
	}
}

// size estimates what the record takes in memory beside its fixed part.
func (r *record) size() int {
	n := 1024 + r.bodyBytes
	for i := range r.tx.Inputs {
		if r.tx.Inputs[i].Type != "" {
			n += len(r.tx.Inputs[i].Data) // decoded
		}
	}
	for i := range r.tx.Steps {
		try, settle := &r.tx.Steps[i].Try, &r.tx.Steps[i].Settle
		n += len(try.Result.Data) + len(try.Input.Data) + len(try.Proposed.Data) + len(settle.Input.Data) + len(settle.Proposed.Data) + 512
	}
	return n
}

// write is what one batch stores of one transaction.
type write struct {
	rec      *record           // as it will be
	before   *saga.Transaction // as it was loaded; nil for a new one
	body     []byte            // of a new one's submission
	answer   []byte            // of a new one's request key
	changed  bool              // the transaction and its operations have to be written
	woken    bool              // a timer fired: move it
	commands []saga.Command
	attempts []saga.AttemptEnd
	letters  []dlq.Change
	edits    []dlq.Edit
	wake     time.Time
}

// bytes estimates what the write stores.
func (w *write) bytes() int {
	n := 1024 + len(w.body)
	for i := range w.commands {
		n += 1024 + len(w.commands[i].Body)
	}
	for i := range w.letters {
		n += 1024 + len(w.letters[i].Command.Body)
	}
	for i := range w.edits {
		n += 1024 + len(w.edits[i].Input.Data)
	}
	return n
}

// add gathers what one more event has led to. An operator's event names the version of the dead letter it is about.
func (w *write) add(j *saga.Judgement, letterVersion int64) {
	e := &j.Effects
	w.rec.tx, w.changed, w.woken = j.Tx, w.changed || e.Changed, w.woken || j.MoveTimer
	w.commands = append(w.commands, e.Commands...)
	w.attempts = append(w.attempts, e.Attempts...)
	for _, letter := range e.DeadLetters {
		w.letters = append(w.letters, dlq.Change{
			DeadLetterChange: letter, Tenant: w.rec.tx.Tenant, TransactionID: w.rec.tx.ID, Version: letterVersion,
		})
	}
	for _, edit := range e.Edits {
		w.edits = append(w.edits, dlq.Edit{
			EditChange: edit, Tenant: w.rec.tx.Tenant, TransactionID: w.rec.tx.ID, Version: letterVersion,
		})
	}
	w.wake = e.Wake
}

// eachChanged calls f for every operation that differs from what is stored.
func (w *write) eachChanged(f func(step string, op *saga.Operation)) {
	var none saga.StepState
	for i := range w.rec.tx.Steps {
		old, now := &none, &w.rec.tx.Steps[i]
		if w.before != nil && i < len(w.before.Steps) {
			old = &w.before.Steps[i]
		}
		name := w.rec.def.Steps[i].Name
		if now.Try.Begun() && !sameOperation(&old.Try, &now.Try) {
			f(name, &now.Try)
		}
		if now.Settle.Begun() && !sameOperation(&old.Settle, &now.Settle) {
			f(name, &now.Settle)
		}
	}
}

func sameOperation(a, b *saga.Operation) bool {
	return a.State == b.State && a.Attempt == b.Attempt && a.Wait == b.Wait && a.Replaying == b.Replaying &&
		a.Counted == b.Counted && a.CountedTo == b.CountedTo && a.Floor == b.Floor && a.Revision == b.Revision &&
		a.NextAt.Equal(b.NextAt) && a.LastOutcome == b.LastOutcome && a.LastCode == b.LastCode &&
		a.LastReason == b.LastReason && bytes.Equal(a.Result.Data, b.Result.Data)
}
