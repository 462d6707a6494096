package model

import (
	"fmt"

	"github.com/sagacity-tx/sagacity/saga"
)

// The network. What was ever sent may be delivered at any time, any number of times: to be lost is never to be
// delivered, to be reordered is to be delivered later than another. So the commands in the network are those of all
// attempts that the row says were sent, and need no memory of their own. The replies in it are kept per step.

// replyKind is a reply to a step, or all replies that must have the same effect.
type replyKind struct {
	verb    saga.Verb
	phase   saga.Phase
	content uint16
	attempt int // that it answers; zero: any, because it makes no difference
	outcome saga.Outcome
	code    string
	state   saga.BarrierState
	result  string
}

// newKind returns what a reply to that attempt is one of. Only a retry counts by its attempt (S2.8), and of its codes
// only that of a panic makes a difference.
func (m *Model) newKind(r saga.Reply, attempt int) replyKind {
	if r.Outcome != saga.OutcomeRetry {
		attempt = 0
	} else if r.Code != saga.CodePanic {
		r.Code = saga.CodeError
	}
	return replyKind{
		verb: r.Verb, phase: r.Phase, content: m.content(r.ContentSHA256), attempt: attempt,
		outcome: r.Outcome, code: r.Code, state: r.State, result: string(r.Result.Data),
	}
}

// String is for traces.
func (k replyKind) String() string {
	s := string(k.outcome)
	if k.outcome == saga.OutcomeState {
		s = "state " + string(k.state)
	}
	if k.code != "" {
		s += " (" + k.code + ")"
	}
	if k.attempt > 0 {
		s += fmt.Sprintf(" to attempt %d", k.attempt)
	}
	return s + " of " + string(k.phase)
}

// transient reports whether the reply counts only for an operation that is being sent (S2.10).
func (k replyKind) transient(kind saga.Kind) bool {
	switch k.outcome {
	case saga.OutcomeRetry, saga.OutcomeInProgress, saga.OutcomeUnknown:
		return true
	case saga.OutcomeFault:
		return kind != saga.KindPivot || k.phase != saga.PhaseCancel || k.code != saga.FaultContradicts
	default:
		return false
	}
}

// kindID numbers the replies of a step.
func (m *Model) kindID(step int, k replyKind) int {
	id, ok := m.kindIDs[step][k]
	if !ok {
		id = len(m.kinds[step])
		if id == repliesMax {
			panic("model: a step has more kinds of replies than repliesMax")
		}
		m.kindIDs[step][k] = id
		m.kinds[step] = append(m.kinds[step], k)
	}
	return id
}

// variants returns the replies that a kind stands for, as they may meet a row.
func (m *Model) variants(k replyKind, r *row, step int) []saga.Reply {
	op := slot{step, k.phase != saga.PhaseTry}.of(&r.tx)
	attempts := []int{k.attempt}
	switch {
	case k.attempt > 0:
	case k.outcome == saga.OutcomeInProgress, k.outcome == saga.OutcomeState: // older ones do less
		attempts = []int{max(op.Attempt, 1)}
	case k.transient(m.def.Steps[step].Kind):
		attempts = []int{max(op.Floor, 1), max(op.Attempt, 1)}
	default:
		attempts = []int{1, max(op.Attempt, 1)}
	}
	var all []saga.Reply
	for i, a := range attempts {
		if i > 0 && a == attempts[0] {
			continue
		}
		all = append(all, m.reply(k, step, a))
	}
	if k.outcome == saga.OutcomeRetry && k.code == saga.CodeError {
		other := all[0]
		other.Code = saga.CodeBusy
		all = append(all, other)
	}
	return all
}

func (m *Model) reply(k replyKind, step, attempt int) saga.Reply {
	r := saga.AnswerTo(m.commands[step][commandKey{k.phase, k.content}])
	r.Verb, r.Attempt, r.Outcome, r.Code, r.State = k.verb, attempt, k.outcome, k.code, k.state
	if k.result != "" {
		r.Result.Data = []byte(k.result)
	}
	return r
}

// commandKey names the content of an operation. All its attempts have the same (S1.4).
type commandKey struct {
	phase   saga.Phase
	content uint16
}

// opSig is what the network and the participant need to know of an operation.
type opSig struct {
	commandKey
	sent    bool
	attempt int // the last one
	from    int // the first one whose transient replies count; zero: none does
	counted int // the last one that was counted: its retry does not count again
}

// sig is what they need to know of a step.
type sig struct {
	ops   [2]opSig
	ended bool // the transaction: no reply counts any more
}

func newSig(m *Model, r *row, step int) sig {
	s := sig{ended: r.ended}
	for i, op := range []*saga.Operation{&r.tx.Steps[step].Try, &r.tx.Steps[step].Settle} {
		if !op.Sent() {
			continue
		}
		s.ops[i] = opSig{commandKey: commandKey{op.Phase, m.content(op.ContentSHA256)}, sent: true, attempt: op.Attempt, counted: op.CountedTo}
		if active(op) {
			s.ops[i].from = max(op.Floor, 1)
		}
	}
	return s
}

// intern returns the number of a value by its key: a new one if none of that key is known.
func intern[K comparable, V any](ids map[K]uint32, values *[]V, key K, value V) uint32 {
	id, ok := ids[key]
	if !ok {
		id = uint32(len(*values))
		ids[key] = id
		*values = append(*values, value)
	}
	return id
}

func (m *Model) internSig(step int, s sig) uint32 {
	return intern(m.sigIDs[step], &m.sigs[step], s, s)
}

// local is a participant with all replies that it has ever made and that can still count.
type local struct {
	barrier uint32
	open    saga.Phase // of the local transaction that is not committed yet, if they are modelled
	read    uint32     // the barrier as that transaction has read it
	replies bitset
}

func (m *Model) internLocal(step int, l local) uint32 {
	return intern(m.localIDs[step], &m.locals[step], l, l)
}

// settled returns the local state with every reply that the participant can make without changing anything: whoever
// may answer has answered. It drops the replies that cannot count any more.
func (m *Model) settled(step int, id, sigID uint32) uint32 {
	key := uint64(id)<<32 | uint64(sigID)
	if known, ok := m.settledIDs[step][key]; ok {
		return known
	}
	l, s := m.locals[step][id], m.sigs[step][sigID]
	if !m.opt.EveryDelivery {
		for _, op := range s.ops {
			l.replies.addAll(m.free(step, l.barrier, s, op))
		}
	}
	l.replies = m.live(step, l.replies, s)
	known := m.internLocal(step, l)
	m.settledIDs[step][key] = known
	return known
}

// free returns the replies to an operation that its participant can make without changing anything.
func (m *Model) free(step int, barrier uint32, s sig, op opSig) bitset {
	var replies bitset
	if !op.sent || s.ended {
		return replies
	}
	for _, a := range m.answers(step, barrier, op.commandKey) {
		if a.next == barrier && a.has {
			replies.addAll(m.made(step, a.reply, op))
		}
	}
	for _, other := range s.ops { // whoever meets the uncommitted local transaction of a command waits, but not for ever
		if other.sent && m.mayRun(step, barrier, other.commandKey) {
			replies.addAll(m.made(step, m.busy(step, op.commandKey), op))
		}
	}
	return replies
}

// made returns a reply to whichever attempt of the operation.
func (m *Model) made(step int, r saga.Reply, op opSig) bitset {
	var b bitset
	for attempt := 1; attempt <= op.attempt; attempt++ {
		b.add(m.kindID(step, m.newKind(r, attempt)))
	}
	return b
}

// live drops the replies that cannot count any more: none does after the end, a transient one counts only for an
// operation that is being sent, from its last sending by an operator on, and a retry once (S2.8, S2.10).
// checkDeadReplies shows for each row that they change nothing.
func (m *Model) live(step int, replies bitset, s sig) bitset {
	if s.ended {
		return bitset{}
	}
	for id := range replies.each {
		k := m.kinds[step][id]
		op := s.ops[flag(k.phase != saga.PhaseTry)]
		counts := op.from > 0 && (k.attempt == 0 || k.attempt >= op.from && k.attempt > op.counted)
		if k.transient(m.def.Steps[step].Kind) && !counts {
			replies.remove(id)
		}
	}
	return replies
}

func (m *Model) busy(step int, key commandKey) saga.Reply {
	r := saga.AnswerTo(m.commands[step][key])
	r.Outcome, r.Code = saga.OutcomeRetry, saga.CodeBusy
	return r
}
