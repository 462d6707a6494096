package coordinatortest

import (
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// Participant is a fake: it answers as its test says. Between the commands and the answers stands the real barrier,
// in memory, so that every operation takes effect once, a late try hangs and the cancel of nothing does nothing.
type Participant struct {
	e       *engine
	name    string
	actions map[string]*Action
	rows    map[stepKey]saga.BarrierRow
	calls   map[saga.OperationKey]int
}

// Participant returns the fake of that name, which is made when it is first asked for. It panics if the name is not
// valid (S1.7) or that of a connected participant.
func (c *Coordinator) Participant(name string) *Participant {
	if err := saga.CheckName("participant", name); err != nil {
		panic("coordinatortest: " + err.Error())
	}
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	switch p := c.e.participants[name].(type) {
	case *Participant:
		return p
	case nil:
		made := &Participant{
			e: c.e, name: name, actions: map[string]*Action{}, rows: map[stepKey]saga.BarrierRow{}, calls: map[saga.OperationKey]int{},
		}
		c.e.participants[name] = made
		return made
	}
	panic("coordinatortest: participant " + name + " is connected; it cannot be a fake too")
}

// Action is an action of a fake.
type Action struct {
	e       *engine
	kind    saga.Kind
	answers map[saga.Phase][]Answer
}

// On says what the action does when a try calls it: of each operation the first call gets the first answer, and so on;
// behind the last one it is done, without a result. On the same action again replaces the answers. A step of another
// kind than the action's is answered with a fault, as by a participant.
func (p *Participant) On(action string, kind saga.Kind, answers ...Answer) *Action {
	if err := saga.CheckName("action", action); err != nil {
		panic("coordinatortest: " + err.Error())
	}
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	a := &Action{e: p.e, kind: kind, answers: map[saga.Phase][]Answer{saga.PhaseTry: answers}}
	p.actions[action] = a
	return a
}

// Confirm says what the action does when a confirm calls it; default: it is done.
func (a *Action) Confirm(answers ...Answer) *Action { return a.on(saga.PhaseConfirm, answers) }

// Cancel says what the action does when a cancel calls it; default: it is done.
func (a *Action) Cancel(answers ...Answer) *Action { return a.on(saga.PhaseCancel, answers) }

func (a *Action) on(phase saga.Phase, answers []Answer) *Action {
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	a.answers[phase] = answers
	return a
}

// start executes a command.
func (p *Participant) start(e *engine, cmd saga.Command, end func(*saga.Reply)) {
	key := stepKey{cmd.Transaction, cmd.Step}
	verdict, next := saga.Admit(p.rows[key], cmd, e.now)
	if verdict.Do == saga.DoReply {
		if verdict.Store {
			p.rows[key] = next
		}
		end(&verdict.Reply)
		return
	}
	a, body, wrong := p.check(cmd)
	if wrong.Outcome != "" {
		reply := p.conclude(cmd, wrong)
		end(&reply)
		return
	}
	n := p.calls[cmd.Key()]
	p.calls[cmd.Key()]++
	p.give(e.called(cmd, body), nth(a.answers[cmd.Phase], n), begun{cmd, end})
}

// check finds the action of a command, or what a participant answers that has none such.
func (p *Participant) check(cmd saga.Command) (a *Action, body wire.Body, wrong saga.Ran) {
	a, ok := p.actions[cmd.Action]
	if !ok {
		p.e.tell("step %s calls action %q of participant %q, which the test has not made: add On(%q, …)", cmd.Step, cmd.Action, p.name, cmd.Action)
		return nil, body, saga.Ran{Outcome: saga.OutcomeRetry, Code: saga.CodeUnknownAction, Reason: "participant " + p.name + " has no action " + cmd.Action}
	}
	if a.kind != cmd.Kind {
		return nil, body, saga.Ran{
			Outcome: saga.OutcomeFault, Code: saga.FaultUndecodable,
			Reason: "the step is of kind " + string(cmd.Kind) + ", but the action " + cmd.Action + " is of kind " + string(a.kind),
		}
	}
	body, err := wire.ParseBody(cmd.Phase, cmd.Body)
	if err != nil {
		wrong = saga.Ran{Outcome: saga.OutcomeFault, Code: saga.FaultUndecodable, Reason: err.Error()}
	}
	return a, body, wrong
}

// begun is a command whose action is called.
type begun struct {
	cmd saga.Command
	end func(*saga.Reply)
}

// give does what an answer says.
func (p *Participant) give(call *Call, a Answer, b begun) {
	switch {
	case a.delay > 0:
		at := p.e.now.Add(a.delay)
		a.delay = 0
		p.e.agenda.add(at, func() { p.give(call, a, b) })
	case a.do != nil:
		seen := *call
		p.e.spawn(func() func() {
			next := a.call(seen)
			return func() { p.give(call, next, b) }
		}, func() { p.give(call, Panic(1), b) })
	case a.silent:
		p.e.note("%s is silent", operationText(b.cmd))
		b.end(nil)
	default:
		reply := p.conclude(b.cmd, a.ran)
		call.Outcome, call.Code = reply.Outcome, reply.Code
		b.end(&reply)
	}
}

// conclude stores and answers what an action did.
func (p *Participant) conclude(cmd saga.Command, ran saga.Ran) saga.Reply {
	key := stepKey{cmd.Transaction, cmd.Step}
	verdict, next := saga.Conclude(p.rows[key], cmd, ran)
	if verdict.Store {
		p.rows[key] = next
	}
	return verdict.Reply
}
