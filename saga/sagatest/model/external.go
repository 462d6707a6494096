package model

import (
	"fmt"

	"github.com/sagacity-tx/sagacity/saga"
)

// Effects outside of the participant's database: a row that is trying, a lease with its token, and downstream, which
// executes the requests that it gets.
//
// A request that was sent and not answered is in flight: it is executed, or lost, before the lease is over; if
// downstream executes a key once, also later. The owner of a lease sends nothing after it, but may store late.

// External says what downstream can do.
type External struct {
	On         bool
	Inquire    bool // it can be asked whether it has executed a key, and made to refuse it
	Idempotent bool // it executes a key once
}

// external is what is true of a try's effect downstream, and who acts on it.
type external struct {
	effects int  // times that downstream executed it, at most 2
	flight  bool // a request is on its way
	voided  bool // downstream refuses the key
	owners  [2]owner
}

// owner is a process that has claimed a lease: owners[0] the one whose token the row has, owners[1] an earlier one
// that only has to store what it knows.
type owner struct {
	stage stage
	phase saga.Phase // of the command that it works on
}

type stage string

const (
	stageNone    stage = ""
	stageCalling stage = "calls downstream"
	stageAsking  stage = "asks downstream"
	stageVoiding stage = "makes downstream refuse the key"
	stageDone    stage = "knows: done"
	stageRefused stage = "knows: refused"
	stageVoided  stage = "knows: void"
)

func (s stage) knows() bool { return s == stageDone || s == stageRefused || s == stageVoided }

// String is for traces.
func (x external) String() string {
	s := fmt.Sprintf("(downstream executed %d times", x.effects)
	if x.flight {
		s += ", request in flight"
	}
	if x.voided {
		s += ", key refused"
	}
	for _, o := range x.owners {
		if o.stage != stageNone {
			s += fmt.Sprintf(", %s %s", o.phase, o.stage)
		}
	}
	return s + ")"
}

// execute is downstream acting on a request. It reports false if it refuses the key.
func (x *external) execute(idempotent bool) bool {
	if x.voided {
		return false
	}
	if !idempotent || x.effects == 0 {
		x.effects = min(x.effects+1, 2)
	}
	return true
}

// normalise forgets what makes no difference: which number the token is, and owners that can write nothing any more.
func (m *Model) normalise(b *barrier) {
	if b.row.State == saga.BarrierTrying {
		b.row.LeaseToken = 1
		return
	}
	if !m.opt.Faults.NoLeaseToken {
		b.ext.owners = [2]owner{}
	}
}

// claim takes the lease for a command.
func (b *barrier) claim(cmd saga.Command, does stage) {
	if b.ext.owners[0].stage.knows() {
		b.ext.owners[1] = b.ext.owners[0]
	}
	b.row = saga.Claim(b.row, cmd, farAway)
	b.ext.owners[0] = owner{does, cmd.Phase}
}

// admitExternal goes on after a verdict that is no reply.
func (m *Model) admitExternal(step int, id uint32, cmd saga.Command, verdict saga.Verdict) []answer {
	b := m.barriers[step][id]
	switch {
	case verdict.Do == saga.DoRun && cmd.Phase != saga.PhaseTry:
		return m.run(step, id, cmd)
	case verdict.Do == saga.DoRun:
		b.claim(cmd, stageCalling)
	default:
		b.claim(cmd, stageAsking)
	}
	what := fmt.Sprintf("takes the lease for %s %s", cmd.Step, cmd.Phase)
	return []answer{{what: what, next: m.internBarrier(step, b)}}
}

// goOn lists what happens to an external effect beside commands that are delivered.
func (m *Model) goOn(step int, l local, s sig, add func(local, string, string)) {
	b := m.barriers[step][l.barrier]
	put := func(what string, change func(b *barrier)) {
		next, changed := l, b
		change(&changed)
		next.barrier = m.internBarrier(step, changed)
		add(next, what, "")
	}
	trying := b.row.State == saga.BarrierTrying
	live := trying && b.row.LeaseUntil.Equal(farAway)
	if b.ext.flight {
		put("sees its request executed downstream", func(b *barrier) {
			b.ext.execute(m.opt.External.Idempotent)
			b.ext.flight = false
		})
		put("loses its request", func(b *barrier) { b.ext.flight = false })
	}
	if live && (!b.ext.flight || m.opt.External.Idempotent) {
		put("sees the lease pass", func(b *barrier) {
			b.row.LeaseUntil = past
			if !b.ext.owners[0].stage.knows() {
				b.ext.owners[0] = owner{}
			}
		})
	}
	for i, o := range b.ext.owners {
		if o.stage != stageNone {
			put(fmt.Sprintf("loses the process that %s", o.stage), func(b *barrier) { b.ext.owners[i] = owner{} })
		}
		if o.stage.knows() {
			m.leave(step, l, s, i, add)
		}
	}
	if !live {
		return
	}
	switch b.ext.owners[0].stage {
	case stageCalling:
		m.callDownstream(b, step, put)
	case stageAsking:
		m.askDownstream(step, l, s, add, put)
	case stageVoiding:
		put("makes downstream refuse the key", func(b *barrier) {
			b.ext.owners[0].stage = stageVoided
			if b.ext.effects > 0 { // too late: an error
				b.ext.owners[0] = owner{}
			} else {
				b.ext.voided = true
			}
		})
	default:
	}
}

// callDownstream lists what becomes of a request.
func (m *Model) callDownstream(b barrier, step int, put func(string, func(*barrier))) {
	put("calls downstream, which executes it and answers", func(b *barrier) {
		b.ext.owners[0].stage = stageRefused
		if b.ext.execute(m.opt.External.Idempotent) {
			b.ext.owners[0].stage = stageDone
		}
	})
	put("calls downstream, and dies", func(b *barrier) {
		b.ext.owners[0] = owner{}
		b.ext.flight = true
	})
	if b.ext.effects == 0 && m.def.Steps[step].Kind != saga.KindRetriable {
		put("calls downstream, which says no for ever", func(b *barrier) {
			b.ext.owners[0].stage = stageRefused
			b.ext.voided = true
		})
	}
}

// result is what downstream answers for a try that it has executed.
func result() saga.Payload { return userCode()[0].Result }

// askDownstream lists what an inquiry finds, and what Resume makes of it.
func (m *Model) askDownstream(step int, l local, s sig, add func(local, string, string), put func(string, func(*barrier))) {
	b := m.barriers[step][l.barrier]
	phase := b.ext.owners[0].phase
	op := s.ops[flag(phase != saga.PhaseTry)]
	cmd := m.commands[step][op.commandKey]
	found := []saga.Downstream{saga.DownstreamUndecided}
	if m.opt.External.Inquire {
		found = append(found, b.truth())
	}
	for _, f := range found {
		verdict, next := saga.Resume(b.row, cmd, f, result(), m.opt.External.Idempotent)
		what := fmt.Sprintf("asks downstream for %s %s, which says %s", cmd.Step, phase, f)
		switch {
		case verdict.Do == saga.DoRun && phase == saga.PhaseTry:
			put(what, func(b *barrier) { b.ext.owners[0].stage = stageCalling })
		case verdict.Do == saga.DoRun, verdict.Store && phase == saga.PhaseTry: // done: to be stored first
			put(what, func(b *barrier) { b.ext.owners[0].stage = stageDone })
		case verdict.Do == saga.DoVoid:
			put(what, func(b *barrier) { b.ext.owners[0].stage = stageVoiding })
		default:
			changed := b
			if !verdict.Store {
				changed.row.LeaseUntil, changed.ext.owners[0] = past, owner{} // released
			}
			a := m.conclude(step, m.internBarrier(step, changed), cmd, what+", and answers", false, verdict, next)
			if verdict.Store { // a pivot's try has happened
				stored := m.barriers[step][a.next]
				stored.runs[0] = 1
				a.next = m.internBarrier(step, stored)
			}
			add(m.after(step, l, a, op), a.what, a.problem)
		}
	}
}

// truth is what an inquiry finds.
func (b *barrier) truth() saga.Downstream {
	if b.ext.effects > 0 {
		return saga.DownstreamDone
	}
	return saga.DownstreamAbsent
}

// leave stores what an owner knows, if the lease is still its own (B6).
func (m *Model) leave(step int, l local, s sig, i int, add func(local, string, string)) {
	b := m.barriers[step][l.barrier]
	o := b.ext.owners[i]
	cleared := b
	cleared.ext.owners[i] = owner{}
	own := i == 0 && b.row.State == saga.BarrierTrying
	if !own && !m.opt.Faults.NoLeaseToken {
		next := l
		next.barrier = m.internBarrier(step, cleared)
		add(next, "cannot store what it knows, because its lease has passed to another", "")
		return
	}
	op, ran := s.ops[0], saga.Ran{Outcome: saga.OutcomeDone, Result: result()}
	switch {
	case o.stage == stageRefused:
		ran = saga.Ran{Outcome: saga.OutcomeRefused, Code: saga.CodeDeadline}
	case o.stage == stageVoided:
		op, ran.Result = s.ops[1], saga.Payload{}
	}
	cmd := m.commands[step][op.commandKey]
	verdict, next := saga.Conclude(cleared.row, cmd, ran)
	a := m.conclude(step, m.internBarrier(step, cleared), cmd, "stores", o.stage == stageDone && verdict.Store, verdict, next)
	if o.phase != cmd.Phase { // found out for a cancel, which comes again
		a.has = false
	}
	add(m.after(step, l, a, op), a.what, a.problem)
}

// obeyExternal delivers a command after every lease and every process is gone, to a downstream that answers.
func (m *Model) obeyExternal(step int, id uint32, key commandKey) (uint32, saga.Reply) {
	b, cmd := m.barriers[step][id], m.commands[step][key]
	b.ext.owners, b.ext.flight = [2]owner{}, false
	if b.row.State == saga.BarrierTrying {
		b.row.LeaseUntil = past
	}
	ran := func(verdict saga.Verdict, next saga.BarrierRow, effect bool) (uint32, saga.Reply) {
		a := m.conclude(step, m.internBarrier(step, b), cmd, "", effect, verdict, next)
		return a.next, a.reply
	}
	done := saga.Ran{Outcome: saga.OutcomeDone, Result: result()}
	verdict, next := saga.Admit(b.row, cmd, early)
	if verdict.Do == saga.DoInquire {
		found := saga.DownstreamUndecided
		if m.opt.External.Inquire {
			found = b.truth()
		}
		verdict, next = saga.Resume(b.row, cmd, found, done.Result, m.opt.External.Idempotent)
		if verdict.Do == saga.DoRun && cmd.Phase == saga.PhaseCancel { // the try is stored, then the cancel comes again
			try := cmd
			try.Phase = saga.PhaseTry
			_, b.row = saga.Conclude(b.row, try, done)
			b.runs[0] = 1
		}
	}
	switch verdict.Do {
	case saga.DoRun:
		if cmd.Phase == saga.PhaseTry && !b.ext.execute(m.opt.External.Idempotent) {
			done = saga.Ran{Outcome: saga.OutcomeRefused, Code: saga.CodeDeadline}
		}
		verdict, next = saga.Conclude(b.row, cmd, done)
		return ran(verdict, next, done.Outcome == saga.OutcomeDone)
	case saga.DoVoid:
		b.ext.voided = true
		verdict, next = saga.Conclude(b.row, cmd, saga.Ran{Outcome: saga.OutcomeDone})
	default:
	}
	return ran(verdict, next, false)
}
