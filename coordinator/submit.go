package coordinator

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// SubmitParams is a submission as a door of the coordinator received it.
type SubmitParams struct {
	Caller      Caller
	RequestID   string // "" for an unprotected submission (X2)
	Body        []byte // see saga.Submission; not to be changed afterwards
	Traceparent string
	Tracestate  string
}

func (p *SubmitParams) key() requestKey {
	return requestKey{tenant: p.Caller.Tenant, client: p.Caller.Client, requestID: p.RequestID}
}

// Submitted is the answer to a submission.
type Submitted struct {
	ID       saga.ID
	Answer   []byte // the stored answer of the key, the same bytes for every repetition (I2)
	Replayed bool   // it was submitted before
}

// submission is a valid submission on its way through a lane.
type submission struct {
	rec    record
	body   []byte
	answer []byte
	ownID  bool // the client made the id: it may be taken
	sent   bool // a commit of it was tried: if it is found stored, that may be why
	// release gives back what it was admitted with; it may be called again.
	release func()
}

func (s *submission) key() requestKey {
	return requestKey{tenant: s.rec.tx.Tenant, client: s.rec.client, requestID: s.rec.requestID}
}

// Submit starts a transaction. It returns when the transaction is stored, or was stored by an earlier
// submission with the same key and content (I1–I3). Errors: *saga.InvalidError, ErrKeyReused, ErrIDTaken,
// ErrPastRetention, *RateError, ErrOverloaded; ErrOutcomeUnknown when ctx ended or the coordinator stopped before the commit was known.
func (c *Coordinator) Submit(ctx context.Context, p SubmitParams) (Submitted, error) {
	s, err := c.enter(ctx, p)
	if err != nil {
		return replayed(err)
	}
	submitted, err := c.submit(ctx, s)
	if err != nil {
		return replayed(err)
	}
	return submitted, nil
}

// enter admits a submission and validates it. A repetition is answered even where it is not admitted (*storedError).
func (c *Coordinator) enter(ctx context.Context, p SubmitParams) (*submission, error) {
	release, err := c.entrance.enter(p.Caller.Tenant, len(p.Body))
	if err != nil {
		return nil, c.refused(ctx, p.key(), saga.Submission{Body: p.Body}, err)
	}
	s, err := c.newSubmission(ctx, p)
	if err != nil {
		release()
		return nil, err
	}
	s.release = release
	return s, nil
}

// submit takes an admitted submission through its lane. What it was admitted with is given back when the lane is
// done with it, which may be after ctx has ended.
func (c *Coordinator) submit(ctx context.Context, s *submission) (Submitted, error) {
	o, err := c.ask(ctx, &item{id: s.rec.tx.ID, event: saga.Submitted{}, submit: s, done: func(outcome) { s.release() }})
	if errors.Is(err, ErrOverloaded) { // it was not queued, or it was and is answered
		s.release()
		return Submitted{}, c.refused(ctx, s.key(), saga.Submission{Body: s.body}, err)
	}
	if err != nil {
		return Submitted{}, err
	}
	id, err := answerID(o.answer)
	return Submitted{ID: id, Answer: o.answer, Replayed: o.replayed}, err
}

// SubmitAndWait is Submit and then Wait, until waitCtx ends. A transaction that ends meanwhile in this process is
// not read from the database again.
func (c *Coordinator) SubmitAndWait(ctx, waitCtx context.Context, p SubmitParams) (Submitted, View, error) {
	s, err := c.enter(ctx, p)
	if err != nil {
		return c.waitForReplayed(waitCtx, p.Caller, err)
	}
	waiter := c.waiters.add(s.rec.tx.ID, false)
	defer c.waiters.remove(s.rec.tx.ID, waiter)
	submitted, err := c.submit(ctx, s)
	if err != nil {
		return c.waitForReplayed(waitCtx, p.Caller, err)
	}
	if submitted.ID == s.rec.tx.ID {
		select {
		case ended := <-waiter.ch:
			return submitted, ended.view(), nil
		case <-waitCtx.Done():
		case <-c.stopping:
		}
	}
	v, err := c.Wait(waitCtx, p.Caller, submitted.ID)
	return submitted, v, err
}

// waitForReplayed waits for the transaction of a repetition. Any other error it returns.
func (c *Coordinator) waitForReplayed(waitCtx context.Context, caller Caller, err error) (Submitted, View, error) {
	submitted, err := replayed(err)
	if err != nil {
		return submitted, View{}, err
	}
	v, err := c.Wait(waitCtx, caller, submitted.ID)
	return submitted, v, err
}

// newSubmission validates and makes everything that does not need a lane.
func (c *Coordinator) newSubmission(ctx context.Context, p SubmitParams) (*submission, error) {
	var def *parsedDefinition
	k, dated, err := readSubmission(p, c.store.clock.now, func(text []byte) (_ *saga.Definition, err error) {
		if named(text) {
			def, err = c.store.definitions.lookUp(ctx, text)
		} else {
			def, err = c.store.definitions.parse(text)
		}
		if err != nil {
			return nil, err
		}
		return def.def, nil
	})
	switch {
	case dated:
		return nil, c.tooLate(ctx, p.key(), (&saga.Submission{Body: p.Body}).ContentSHA256(), err)
	case err != nil:
		return nil, err
	}
	s := &submission{rec: *k.record(), body: p.Body, answer: k.Answer(), ownID: k.OwnID, release: func() {}}
	s.rec.defSHA256, s.rec.bodyBytes = def.sha256, len(p.Body)
	return s, c.store.definitions.store(ctx, def)
}

// readSubmission validates a submission and makes the transaction that saga.Submitted begins. definition returns the one
// that a text gives or names. dated says of an error that it is about what may have changed since the same bytes were
// accepted: the times, or the meaning of a name.
func readSubmission(p SubmitParams, now func() time.Time, definition func(text []byte) (*saga.Definition, error)) (k *Kept, dated bool, err error) {
	if p.RequestID != "" {
		if err := saga.CheckRequestID(p.RequestID); err != nil {
			return nil, false, err
		}
	}
	byName := false
	s, err := saga.ParseSubmission(p.Body, func(text []byte) (*saga.Definition, error) {
		byName = named(text)
		return definition(text)
	})
	if err != nil {
		_, invalid := errors.AsType[*saga.InvalidError](err)
		return nil, byName && invalid, err
	}
	id := s.ID
	if id.IsZero() {
		if id, err = newID(); err != nil {
			return nil, false, err
		}
	}
	at := now()
	k = &Kept{
		Tx: s.Transaction(p.Caller.Tenant, id, at), Def: s.Definition, OwnID: !s.ID.IsZero(),
		Client: p.Caller.Client, RequestID: p.RequestID, ContentSHA256: s.ContentSHA256(),
	}
	k.Tx.Traceparent = traceValue(p.Traceparent, traceparentBytesMax)
	k.Tx.Tracestate = traceValue(p.Tracestate, tracestateBytesMax)
	err = s.CheckTimes(at)
	return k, err != nil, err
}

// storedError is a submission that was accepted earlier, with what it was answered.
type storedError struct{ answer []byte }

func (e *storedError) Error() string { return "it was submitted before" }

// tooLate decides about a submission whose times or definition's name do not fit any more: a repetition of one that
// was accepted in time gets its answer (I2), anything else the error.
func (c *Coordinator) tooLate(ctx context.Context, key requestKey, contentSHA256 [32]byte, err error) error {
	if key.requestID == "" {
		return err
	}
	found, findErr := c.store.findRequests(ctx, []requestKey{key})
	if findErr != nil {
		return findErr
	}
	return repetition(found[key], key, contentSHA256, err)
}

// repetition returns the stored answer of a submission that is not to begin for a reason, or else that reason.
func repetition(stored *storedRequest, key requestKey, contentSHA256 [32]byte, reason error) error {
	again := saga.Request{Tenant: key.tenant, Client: key.client, RequestID: key.requestID, ContentSHA256: contentSHA256}
	switch as, refused := saga.JudgeSubmission(stored.request(), again, false); {
	case refused != nil:
		return refused
	case as == saga.SubmittingNew:
		return reason
	}
	return &storedError{answer: stored.answer}
}

// replayed turns the error of a repetition into its answer.
func replayed(err error) (Submitted, error) {
	var stored *storedError
	if !errors.As(err, &stored) {
		return Submitted{}, err
	}
	id, err := answerID(stored.answer)
	return Submitted{ID: id, Answer: stored.answer, Replayed: true}, err
}

// Limits of W3C Trace Context.
const (
	traceparentBytesMax = 128
	tracestateBytesMax  = 512
)

// traceValue drops what cannot be a trace header: tracing must not stop a transaction.
func traceValue(s string, bytesMax int) string {
	if len(s) > bytesMax || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
		return ""
	}
	return s
}

// answerFor makes the answer that is stored with a request key: id and links, no state.
func answerFor(id saga.ID) []byte {
	s := id.String()
	return []byte(`{"id":"` + s + `","links":{"self":"/v1/transactions/` + s + `","cancel":"/v1/transactions/` + s + `/cancel"}}`)
}

const answerIDStart = len(`{"id":"`)

// answerID reads the id of a stored answer.
func answerID(answer []byte) (saga.ID, error) {
	if len(answer) < answerIDStart+36 {
		return saga.ID{}, &faultError{"a stored answer is too short to hold an id"}
	}
	return saga.ParseID(string(answer[answerIDStart : answerIDStart+36]))
}
