package model

import (
	"encoding/binary"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// The coordinator's row. Rows are interned: one number for all transactions that Step cannot tell apart, and each
// answer of Step is asked for once.

// timeout is from the submission to the deadline. There are two instants at which things happen: before the deadline
// and after it. Each operation's own instant is either past or far away.
const timeout = 10 * time.Hour

var (
	begin    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	startAt  = begin.Add(time.Hour)
	early    = begin.Add(2 * time.Hour)
	late     = begin.Add(20 * time.Hour)
	past     = begin
	farAway  = begin.Add(1000 * time.Hour)
	deadline = begin.Add(timeout)
)

// instant is what the coordinator's clock says.
func instant(isLate bool) time.Time {
	if isLate {
		return late
	}
	return early
}

// longest draws the longest delay. No state depends on it.
type longest struct{}

func (longest) Int64N(n int64) int64 { return n - 1 }

// slot is an operation's place: the try of a step, or the confirm, cancel or fence that settles it.
type slot struct {
	step   int
	settle bool
}

func (s slot) of(tx *saga.Transaction) *saga.Operation {
	if s.settle {
		return &tx.Steps[s.step].Settle
	}
	return &tx.Steps[s.step].Try
}

// slots lists all operations of a transaction.
func (m *Model) slots() []slot {
	var all []slot
	for i := range m.def.Steps {
		all = append(all, slot{i, false}, slot{i, true})
	}
	return all
}

// row is a state of the stored transaction.
type row struct {
	tx      saga.Transaction
	sig     [stepsMax]uint32 // by step: what its participant and the network need to know
	ended   bool
	decided bool
	reloads bool                  // checkCaches has looked at it
	moves   [2][]rowMove          // by clock: events that no message brings; nil until asked for
	replies [2][stepsMax][]uint32 // by clock, step and reply: the row that follows
}

// Special rows: not asked for yet, and a rule is broken on the way.
const (
	unasked = ^uint32(0)
	broken  = ^uint32(0) - 1
)

// active reports whether the coordinator itself still sends the operation.
func active(op *saga.Operation) bool {
	return op.State == saga.OperationSent || op.State == saga.OperationWaiting
}

// normal returns the transaction that stands for all that Step treats alike: without instants, texts and what is left
// of the numbers of attempts of operations that are not being sent (see the package documentation).
func normal(tx saga.Transaction) saga.Transaction {
	tx.Steps = append([]saga.StepState(nil), tx.Steps...)
	if tx.Cause.Why != "" {
		tx.Cause = saga.Cause{Why: saga.WhyClient}
	}
	for i := range tx.Steps {
		for _, op := range []*saga.Operation{&tx.Steps[i].Try, &tx.Steps[i].Settle} {
			op.LastOutcome, op.LastCode, op.LastReason = "", "", ""
			if !op.Sent() {
				continue
			}
			op.SentAt = begin
			if !op.NextAt.IsZero() {
				op.NextAt = farAway
			}
			if !active(op) {
				op.Attempt, op.Counted, op.CountedTo, op.Floor = 1, 0, 0, 0
			}
		}
	}
	for _, at := range []*time.Time{&tx.CreatedAt, &tx.DecidedAt, &tx.FinishedAt} {
		if !at.IsZero() {
			*at = begin
		}
	}
	return tx
}

// rowKey encodes what tells rows apart.
func (m *Model) rowKey(tx *saga.Transaction) string {
	b := append([]byte(tx.Status), 0, flag(tx.Cause.Why != ""))
	for i := range tx.Steps {
		for _, op := range []*saga.Operation{&tx.Steps[i].Try, &tx.Steps[i].Settle} {
			b = append(append(append(b, op.State...), 0), op.Phase...)
			b = append(b, 0, flag(op.Replaying), byte(op.Attempt), byte(op.Counted), byte(op.CountedTo), byte(op.Floor), byte(op.Revision))
			b = binary.BigEndian.AppendUint16(b, m.content(op.ContentSHA256))
			b = append(append(b, op.Result.Data...), 0)
		}
	}
	return string(b)
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// content numbers the contents of commands.
func (m *Model) content(sum [32]byte) uint16 {
	n, ok := m.contents[sum]
	if !ok {
		n = uint16(len(m.contents))
		m.contents[sum] = n
	}
	return n
}

// internRow returns the number of the row. A rule that a new row breaks is the problem.
func (m *Model) internRow(tx saga.Transaction) (uint32, string) {
	tx = normal(tx)
	key := m.rowKey(&tx)
	if id, ok := m.rowIDs[key]; ok {
		return id, ""
	}
	id := uint32(len(m.rows))
	r := &row{tx: tx, ended: tx.Status.Terminal(), decided: tx.Status != saga.StatusAccepted && tx.Status != saga.StatusRunning}
	for i := range tx.Steps {
		r.sig[i] = m.internSig(i, newSig(m, r, i))
	}
	m.rows = append(m.rows, r)
	m.rowIDs[key] = id
	return id, m.checkDeadReplies(r)
}

// rowEdge puts an event to a row. With due, that operation's own instant has passed. The row that follows is the same
// one if nothing changes, and broken with the problem if a rule is broken.
func (m *Model) rowEdge(id uint32, ev saga.Event, due *slot, isLate bool) (next uint32, problem string) {
	r := m.rows[id]
	tx := r.tx
	if due != nil {
		tx.Steps = append([]saga.StepState(nil), tx.Steps...)
		due.of(&tx).NextAt = past
	}
	j, err := saga.Judge(saga.Case{Def: m.def, Tx: tx, Event: ev}, instant(isLate), longest{})
	m.steps++
	if problem = m.checkEdge(&r.tx, ev, j, err); problem != "" {
		return broken, problem
	}
	if err != nil || !j.Effects.Changed {
		return id, ""
	}
	if next, problem = m.internRow(j.Tx); problem != "" {
		return broken, problem
	}
	return next, ""
}

// rowMove is an event that no message brings.
type rowMove struct {
	next uint32
	what string
	ev   saga.Event
	due  *slot
}

// rowMoves lists the events that no message brings and that change the row, or break a rule: time, the client,
// operators. Everybody may do everything at any time, any number of times.
func (m *Model) rowMoves(id uint32, isLate bool) []rowMove {
	r := m.rows[id]
	if known := r.moves[flag(isLate)]; known != nil {
		return known
	}
	moves := []rowMove{}
	add := func(what string, ev saga.Event, due *slot) {
		next, _ := m.rowEdge(id, ev, due, isLate)
		if next != id {
			moves = append(moves, rowMove{next, what, ev, due})
		}
	}
	add("the coordinator wakes up", saga.Woken{}, nil)
	for _, s := range m.slots() {
		op := s.of(&r.tx)
		name := m.def.Steps[s.step].Name + "/" + string(op.Phase)
		switch {
		case op.State == saga.OperationWaiting && op.Attempt-max(op.Floor, 1)+1 < m.opt.attempts():
			add(name+" is due and sent again", saga.Woken{}, &s)
		case op.State == saga.OperationSent:
			add("the attempt of "+name+" times out in an outage of its participant", saga.Woken{}, &s)
			add("the attempt of "+name+" times out while its participant answers others", heard(m.def), &s)
		}
	}
	add("the client cancels", saga.CancelRequested{}, nil)
	for i, s := range m.def.Steps {
		for _, phase := range []saga.Phase{saga.PhaseTry, r.tx.Steps[i].Settle.Phase} {
			if phase == "" {
				continue
			}
			add("an operator replays "+s.Name+"/"+string(phase), saga.ReplayRequested{Step: s.Name, Phase: phase}, nil)
			add("an operator discards "+s.Name+"/"+string(phase), saga.DiscardRequested{Step: s.Name, Phase: phase}, nil)
		}
	}
	add("an operator resolves", saga.ResolveRequested{}, nil)
	r.moves[flag(isLate)] = moves
	return moves
}

// heard is a wake at which every participant has answered somebody since the attempt was sent.
func heard(def *saga.Definition) saga.Woken {
	of := make(map[string]saga.Heard)
	for _, s := range def.Steps {
		of[s.Participant] = saga.Heard{}.After(saga.OperationKey{}, begin.Add(time.Second))
	}
	return saga.Woken{Heard: of}
}

// onReply returns the row that follows a reply to a step.
func (m *Model) onReply(id uint32, step, reply int, isLate bool) uint32 {
	r := m.rows[id]
	table := &r.replies[flag(isLate)][step]
	for len(*table) <= reply {
		*table = append(*table, unasked)
	}
	if (*table)[reply] == unasked {
		next, _ := m.replyEdge(id, step, reply, isLate)
		m.rows[id].replies[flag(isLate)][step][reply] = next
	}
	return r.replies[flag(isLate)][step][reply]
}

// replyEdge puts a reply to a row. What one reply stands for has to have one effect: the same answer of an earlier
// attempt that still counts, and in another word that means the same.
func (m *Model) replyEdge(id uint32, step, reply int, isLate bool) (next uint32, problem string) {
	r := m.rows[id]
	kind := m.kinds[step][reply]
	next = unasked
	for _, answer := range m.variants(kind, r, step) {
		n, problem := m.rowEdge(id, saga.Replied{Reply: answer}, nil, isLate)
		switch {
		case problem != "":
			return broken, problem
		case next != unasked && n != next:
			return broken, "S2.10: the effect of " + kind.String() + " depends on the attempt that it answers"
		}
		next = n
	}
	return next, ""
}
