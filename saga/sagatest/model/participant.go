package model

import (
	"fmt"

	"github.com/sagacity-tx/sagacity/saga"
)

// The participants. Admit and Conclude decide; the model stores what they say, or does not, and remembers beside it
// what really happened.

// barrier is a participant's row and what has happened to it.
type barrier struct {
	row   saga.BarrierRow
	runs  [3]int    // by phase: times that the business effect was committed, at most 2
	given [3]string // by phase: the definitive reply that was given first
	ext   external  // of an effect outside of the database
}

func phaseIndex(p saga.Phase) int {
	switch p {
	case saga.PhaseConfirm:
		return 1
	case saga.PhaseCancel:
		return 2
	default:
		return 0
	}
}

// effect reports whether the step holds an effect that nobody has undone.
func (b *barrier) effect() bool {
	return (b.runs[0] > 0 || b.ext.effects > 0) && b.runs[2] == 0
}

// executed reports whether the try has happened.
func (b *barrier) executed() bool { return b.runs[0] > 0 || b.ext.effects > 0 }

// sealed reports whether the try can never execute.
func (b *barrier) sealed() bool {
	switch b.row.State {
	case saga.BarrierRefused, saga.BarrierCancelled, saga.BarrierNullCancelled:
		return !b.executed() && (!b.ext.flight || b.ext.voided)
	default:
		return false
	}
}

func (m *Model) internBarrier(step int, b barrier) uint32 {
	m.normalise(&b)
	r := &b.row
	key := fmt.Sprintf("%s|%s|%v|%d|%s|%+v|%t", r.State, r.Kind, b.runs, r.LeaseToken, b.given, b.ext, r.LeaseUntil.Equal(farAway))
	for _, rec := range []saga.Recorded{r.Try, r.Confirm, r.Cancel} {
		key += fmt.Sprintf("|%d %d %d %s %s %s", m.content(rec.ContentSHA256), rec.Revision, rec.MinRevision, rec.Reply.Outcome, rec.Reply.Code, rec.Reply.Result.Data)
	}
	return intern(m.barrierIDs[step], &m.barriers[step], key, b)
}

// answer is something that a participant can do with a command.
type answer struct {
	what    string
	next    uint32 // the barrier afterwards
	has     bool   // there is a reply
	reply   saga.Reply
	runs    bool // user code is called in a local transaction
	problem string
}

// answersKey names a barrier and a command.
type answersKey struct {
	barrier uint32
	commandKey
}

// mayRun reports whether a copy of the command may be under way in a local transaction that is not committed.
func (m *Model) mayRun(step int, b uint32, key commandKey) bool {
	for _, a := range m.answers(step, b, key) {
		if a.runs {
			return true
		}
	}
	return false
}

// answers lists everything that a participant can do with a command: its clock may be anywhere, and user code may do,
// refuse, fail for now, panic, fault or not know. A local transaction that is rolled back has not happened; what is
// not answered is a reply that is never delivered.
func (m *Model) answers(step int, b uint32, key commandKey) []answer {
	k := answersKey{b, key}
	if known, ok := m.answerMemo[step][k]; ok {
		return known
	}
	cmd := m.commands[step][key]
	var all []answer
	for _, isLate := range []bool{false, true} {
		if isLate && cmd.Deadline.IsZero() {
			continue
		}
		verdict, next := saga.Admit(m.barriers[step][b].row, cmd, instant(isLate))
		switch {
		case isLate && verdict.Do != saga.DoReply: // as before the deadline
		case verdict.Do == saga.DoReply:
			all = append(all, m.conclude(step, b, cmd, "answers", false, verdict, next))
		case m.opt.External.On:
			all = append(all, m.admitExternal(step, b, cmd, verdict)...)
		default:
			all = append(all, m.run(step, b, cmd)...)
		}
	}
	if m.opt.Inquiries {
		cmd.Verb = saga.VerbInquire
		verdict, next := saga.Admit(m.barriers[step][b].row, cmd, early)
		all = append(all, m.conclude(step, b, cmd, "answers an inquiry", false, verdict, next))
	}
	m.answerMemo[step][k] = all
	return all
}

// userCode lists what user code may do.
//
// It refuses with the code that the barrier refuses late tries with: no state depends on the code, so that one is enough.
func userCode() []saga.Ran {
	return []saga.Ran{
		{Outcome: saga.OutcomeDone, Result: saga.Payload{Data: []byte(`{"n":1}`)}},
		{Outcome: saga.OutcomeRefused, Code: saga.CodeDeadline},
		{Outcome: saga.OutcomeRetry, Code: saga.CodeError},
		{Outcome: saga.OutcomeRetry, Code: saga.CodePanic},
		{Outcome: saga.OutcomeFault},
		{Outcome: saga.OutcomeUnknown},
	}
}

// run calls user code in the local transaction.
func (m *Model) run(step int, b uint32, cmd saga.Command) []answer {
	var all []answer
	for _, ran := range userCode() {
		verdict, next := saga.Conclude(m.barriers[step][b].row, cmd, ran)
		a := m.conclude(step, b, cmd, "runs user code, which says "+string(ran.Outcome)+",", ran.Outcome == saga.OutcomeDone && verdict.Store, verdict, next)
		a.runs = true
		all = append(all, a)
	}
	return all
}

// conclude stores what the verdict says, remembers what happened, and holds it against the rules.
func (m *Model) conclude(step int, id uint32, cmd saga.Command, what string, ran bool, verdict saga.Verdict, next saga.BarrierRow) answer {
	b := m.barriers[step][id]
	a := answer{has: true, reply: verdict.Reply}
	if verdict.Store {
		b.row = next
	}
	if ran {
		a.problem = b.ran(cmd)
	}
	if a.problem == "" {
		a.problem = b.answered(verdict.Reply)
	}
	a.next = m.internBarrier(step, b)
	stored := ""
	if verdict.Store {
		stored = ", which is committed"
	}
	a.what = fmt.Sprintf("%s %s %s: %s%s", what, m.def.Steps[step].Name, cmd.Phase, outcomeText(verdict.Reply), stored)
	return a
}

// ran remembers that the business effect of a phase was committed.
func (b *barrier) ran(cmd saga.Command) string {
	p := phaseIndex(cmd.Phase)
	again := b.given[p] != "" && p == 0 && b.ext.effects > 0 // what downstream did is only written down once more
	if !again {
		b.runs[p] = min(b.runs[p]+1, 2)
	}
	switch {
	case b.runs[p] > 1:
		return "I-3: the " + string(cmd.Phase) + " of " + cmd.Step + " takes effect twice"
	case p == 0 && b.given[2] != "":
		return "I-6: the try of " + cmd.Step + " executes after its cancel"
	case p == 0 && b.given[0] != "" && !again:
		return "I-6: the try of " + cmd.Step + " executes after " + b.given[0]
	case p == 1 && b.runs[0] == 0:
		return "I-4: " + cmd.Step + " is confirmed without a committed try"
	case p == 1 && b.runs[2] > 0, p == 2 && b.runs[1] > 0:
		return "I-1: " + cmd.Step + " is confirmed and cancelled"
	case p == 2 && b.runs[0] == 0:
		return "B: the cancel of " + cmd.Step + " calls user code though the try never ran"
	}
	return ""
}

// answered remembers the first definitive reply of an operation: it is repeated byte for byte (B3).
func (b *barrier) answered(r saga.Reply) string {
	definitive := r.Outcome == saga.OutcomeDone || r.Outcome == saga.OutcomeRefused
	if !definitive || r.Verb == saga.VerbInquire {
		return ""
	}
	p := phaseIndex(r.Phase)
	text := fmt.Sprintf("%s|%s|%s", r.Outcome, r.Code, r.Result.Data)
	switch {
	case p == 0 && r.Outcome == saga.OutcomeDone && string(r.Result.Data) != string(userCode()[0].Result.Data):
		return "B3: the try of " + r.Step + " is answered without the result of its user code"
	case b.given[p] == "" && p == 2 && b.row.State == saga.BarrierRefused: // it has nothing to forbid that the refusal does not
	case b.given[p] == "":
		b.given[p] = text
	case b.given[p] != text:
		return fmt.Sprintf("I-5: the %s of %s was answered %s, and now %s", r.Phase, r.Step, b.given[p], text)
	case p == 0 && r.Outcome == saga.OutcomeDone && b.given[2] != "":
		return "I-5: the try of " + r.Step + " is still answered " + text + " after its cancel was recorded"
	}
	return ""
}

func outcomeText(r saga.Reply) string {
	s := string(r.Outcome)
	if r.Code != "" {
		s += " (" + r.Code + ")"
	}
	if r.State != "" {
		s += " " + string(r.State)
	}
	return s
}

// localMove is something that a participant does.
type localMove struct {
	next    uint32
	what    string
	problem string
}

// localMoves lists what changes a participant: a command that is delivered, an outside effect that goes on.
func (m *Model) localMoves(step int, id, sigID uint32) []localMove {
	key := uint64(id)<<32 | uint64(sigID)
	if known, ok := m.moveMemo[step][key]; ok {
		return known
	}
	l, s := m.locals[step][id], m.sigs[step][sigID]
	moves := []localMove{}
	add := func(next local, what, problem string) {
		n := m.settled(step, m.internLocal(step, next), sigID)
		if n != id || problem != "" {
			moves = append(moves, localMove{n, m.def.Steps[step].Participant + " " + what, problem})
		}
	}
	for _, op := range s.ops {
		if !op.sent {
			continue
		}
		if m.opt.LocalTransactions || m.opt.Faults.NoRowLock {
			m.localTransaction(step, l, op, add)
			continue
		}
		for _, a := range m.answers(step, l.barrier, op.commandKey) {
			if a.next != l.barrier || a.problem != "" {
				add(m.after(step, l, a, op), a.what, a.problem)
			}
			if m.opt.EveryDelivery && a.next != l.barrier {
				next := l
				next.barrier = a.next
				add(next, a.what+", and dies before it answers", "")
			}
		}
		if m.opt.EveryDelivery {
			for reply := range m.free(step, l.barrier, s, op).each {
				next := l
				next.replies.add(reply)
				add(next, "answers "+m.kinds[step][reply].String(), "")
			}
		}
	}
	if m.opt.External.On {
		m.goOn(step, l, s, add)
	}
	m.moveMemo[step][key] = moves
	return moves
}

// after is the local state when an answer was given.
func (m *Model) after(step int, l local, a answer, op opSig) local {
	l.barrier = a.next
	if a.has {
		l.replies.addAll(m.made(step, a.reply, op))
	}
	return l
}

// localTransaction takes a command through a local transaction in two steps, its begin and its commit: in between the
// row is locked, and other commands of the step wait. With the lock, one step is as good: nobody sees anything of it
// before the commit but that it is busy.
func (m *Model) localTransaction(step int, l local, op opSig, add func(local, string, string)) {
	name := m.def.Steps[step].Name + " " + string(op.phase)
	switch {
	case l.open == op.phase:
		for _, a := range m.answers(step, l.read, op.commandKey) {
			if a.runs && a.next != l.read {
				next := m.after(step, l, a, op)
				next.open, next.read = "", 0
				add(next, "commits: "+a.what, a.problem)
			}
		}
		next := l
		next.open, next.read = "", 0
		add(next, "rolls back "+name, "")
	case l.open == "" || m.opt.Faults.NoRowLock:
		for _, a := range m.answers(step, l.barrier, op.commandKey) {
			if !a.runs && (a.next != l.barrier || a.problem != "") {
				add(m.after(step, l, a, op), a.what, a.problem)
			}
		}
		if l.open == "" && m.mayRun(step, l.barrier, op.commandKey) {
			next := l
			next.open, next.read = op.phase, l.barrier
			add(next, "begins "+name, "")
		}
	}
}
