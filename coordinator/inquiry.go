package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// Inquiries about dead letters (U3, S2.11): the participant is asked what it has recorded, which changes nothing there. The
// answer is a reply like any other: it comes to any coordinator, and one that is definitive settles the operation. What it
// said is kept beside that, so that every coordinator can tell what a replay would do.

const (
	// inquiryTimeout is how long a participant has to answer. Later answers are stored too.
	inquiryTimeout = 30 * time.Second
	// inquiryAgain is after what time a question that has no answer yet is asked again.
	inquiryAgain = 2 * time.Second

	inquiriesKept      = 24 * time.Hour
	inquiriesForgotten = 10_000 // at a time

	actionInquire = "inquire"
)

// InquireParams says who asks about which dead letter.
type InquireParams struct {
	Actor      string
	DeadLetter uuid.UUID
	Tenant     string // only one of this tenant; "": of any
}

// Inquire asks the participant of a dead letter what it has recorded of the operation. It waits for no answer: read the
// dead letter again. An answer that settles the operation closes it. Asking again within two seconds sends nothing.
// Errors: dlq.ErrNotFound, and *saga.StateError for what is no open dead letter.
func (a Admin) Inquire(ctx context.Context, p InquireParams) error {
	entry := dlq.AuditEntry{Actor: p.Actor, Action: actionInquire, Object: p.DeadLetter.String(), Allowed: true}
	letter, err := dlq.Get(ctx, a.c.cfg.Pool, p.DeadLetter)
	entry.Tenant = cmp.Or(p.Tenant, letter.Tenant)
	switch {
	case err != nil:
	case !inScope(p.Tenant, letter.Tenant):
		err = dlq.ErrNotFound
	default:
		err = saga.JudgeInquiry(letter.Facts())
	}
	if err == nil {
		err = a.c.inquire(ctx, []dlq.DeadLetter{letter}, entry)
	}
	return a.recordRefusal(ctx, entry, err)
}

// inquire asks about open dead letters, and records who did. What was asked just now is not asked again.
func (c *Coordinator) inquire(ctx context.Context, letters []dlq.DeadLetter, entry dlq.AuditEntry) error {
	operations := make([]dlq.Operation, len(letters))
	for i := range letters {
		operations[i] = letters[i].Operation()
	}
	asked, err := dlq.Inquiries(ctx, c.cfg.Pool, operations)
	if err != nil {
		return err
	}
	var again []dlq.DeadLetter
	for i := range letters {
		last, found := asked[operations[i]]
		if !found || last.Answered() || c.store.clock.now().Sub(last.AskedAt) >= inquiryAgain {
			again = append(again, letters[i])
		}
	}
	if len(again) == 0 {
		return dlq.InsertAudit(ctx, c.cfg.Pool, entry)
	}
	var batch pgx.Batch
	dlq.QueueAudit(&batch, entry)
	entries, err := c.sendInquiries(ctx, c.cfg.Pool, &batch, again, entry.Actor)
	if err != nil {
		return err
	}
	c.cfg.Relay.HandOff(entries...)
	return nil
}

// sendInquiries adds inquiries to a batch, and sends it. The entries are to be handed off once that is committed.
func (c *Coordinator) sendInquiries(ctx context.Context, db dlq.Sender, batch *pgx.Batch, letters []dlq.DeadLetter, actor string) ([]outbox.Entry, error) {
	questions := make([]dlq.Question, 0, len(letters))
	messages := make([]outbox.Message, 0, len(letters))
	for i := range letters {
		q, m, err := c.inquiryAbout(&letters[i])
		if err != nil {
			c.log.Warn("a dead letter cannot be asked about", "dead_letter", letters[i].ID.String(), "error", err)
			continue // it stays unknown
		}
		questions, messages = append(questions, q), append(messages, m)
	}
	dlq.QueueAsk(batch, questions, actor)
	var entries []outbox.Entry
	if len(messages) > 0 {
		var err error
		if entries, err = outbox.Queue(batch, messages...); err != nil {
			return nil, err
		}
	}
	if err := db.SendBatch(ctx, batch).Close(); err != nil {
		return nil, writeError(fmt.Sprintf("asking about %d dead letters", len(letters)), err)
	}
	return entries, nil
}

// inquiryAbout makes the command that asks about a dead letter. It has no content: who has recorded other content shall say
// what, and not only that it conflicts.
func (c *Coordinator) inquiryAbout(letter *dlq.DeadLetter) (dlq.Question, outbox.Message, error) {
	q := dlq.Question{Operation: letter.Operation()}
	name, err := uuid.NewV7()
	if err != nil {
		return q, outbox.Message{}, errNoID
	}
	q.Name = name.String()
	cmd, err := wire.DecodeCommand(letter.Message)
	if err != nil {
		return q, outbox.Message{}, err
	}
	cmd.Verb, cmd.Question, cmd.Attempt, cmd.Timeout = saga.VerbInquire, q.Name, letter.Attempt, inquiryTimeout
	cmd.Body, cmd.ContentSHA256, cmd.Deadline = nil, [32]byte{}, time.Time{}
	m, err := c.encoder.outboxMessage(&cmd)
	return q, m, err
}

// answerOf is what is stored of a reply to an inquiry.
func answerOf(r *saga.Reply) dlq.Answer {
	return dlq.Answer{
		Question: dlq.Question{Operation: dlq.Operation{Transaction: r.Transaction, Step: r.Step, Phase: r.Phase}, Name: r.Question},
		Inquiry:  saga.Inquiry{Outcome: r.Outcome, State: r.State, Code: r.Code, Reason: r.Reason, Revision: r.Revision, ContentSHA256: r.ContentSHA256},
	}
}

// PredictedLetter is a dead letter with what its replay would do.
type PredictedLetter struct {
	dlq.DeadLetter
	Inquiry *saga.Inquiry // nil: the participant was not asked of late
	Replay  saga.Prediction
}

// predict says of dead letters what their replay would do, as this coordinator sees it. Their transactions may be given, with
// what is proposed in the dead letters; nil: both are read.
func (c *Coordinator) predict(ctx context.Context, letters []dlq.DeadLetter, loaded map[saga.ID]*record) ([]PredictedLetter, error) {
	operations := make([]dlq.Operation, 0, len(letters))
	wanted := make([]saga.ID, 0, len(letters))
	for i := range letters {
		if letters[i].Kind == dlq.KindOperation {
			operations = append(operations, letters[i].Operation())
			wanted = append(wanted, letters[i].TransactionID)
		}
	}
	asked, err := dlq.Inquiries(ctx, c.cfg.Pool, operations)
	if err != nil {
		return nil, err
	}
	if loaded == nil {
		if err := dlq.Propose(ctx, c.cfg.Pool, pointers(letters)...); err != nil {
			return nil, err
		}
		if loaded, err = c.store.load(ctx, wanted); err != nil {
			return nil, err
		}
	}
	now := c.store.clock.now()
	predicted := make([]PredictedLetter, len(letters))
	for i := range letters {
		facts := c.replayFacts(&letters[i], loaded[letters[i].TransactionID], now)
		if a, found := asked[letters[i].Operation()]; found {
			facts.Inquiry = &a.Inquiry
		}
		predicted[i] = PredictedLetter{DeadLetter: letters[i], Inquiry: facts.Inquiry, Replay: saga.PredictReplay(facts, now)}
	}
	return predicted, nil
}

func pointers(letters []dlq.DeadLetter) []*dlq.DeadLetter {
	list := make([]*dlq.DeadLetter, len(letters))
	for i := range letters {
		list[i] = &letters[i]
	}
	return list
}

// replayFacts is what this coordinator knows about a dead letter, beside what its participant says.
func (c *Coordinator) replayFacts(letter *dlq.DeadLetter, r *record, now time.Time) saga.ReplayFacts {
	facts := saga.ReplayFacts{Letter: letter.Facts(), ApproveAll: c.cfg.ApproveAll}
	if r == nil {
		return facts
	}
	facts.Def, facts.Tx = r.def, r.tx
	cmd := saga.Command{Participant: letter.Participant, Action: letter.Action}
	facts.Wait = c.gate.holds(saga.SendRequest{Definition: r.def.Name, Command: &cmd, Operator: true}, now)
	return facts
}
