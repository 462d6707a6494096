package participanttest

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// The waiting between two attempts of one operation, whatever a participant asks for, and what a lease may add to
// Config.Patience.
const (
	againMin = 20 * time.Millisecond
	againMax = 250 * time.Millisecond
	leaseMax = 2 * time.Minute

	attemptsAfterRestart = 5 // within Config.Patience
)

// transaction is one transaction of a check, with its one step; of a transaction with two steps it is one of them.
type transaction struct {
	t        *trial
	c        Case
	input    saga.Payload
	result   saga.Payload // of the try, as far as it is known
	bodies   map[saga.Phase][]byte
	attempts map[saga.Phase]int
}

// newID returns a UUIDv7 of now.
func newID() saga.ID {
	var id saga.ID
	_, _ = rand.Read(id[:]) // never fails
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli())<<16)
	copy(id[:6], ms[:6])
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id
}

// op is a command with what is special about it.
type op struct {
	cmd   saga.Command
	notes []string
}

// what returns which operation it is: "try", "try of second-step".
func (o op) what() string {
	if o.cmd.Step == SecondStep {
		return string(o.cmd.Phase) + " of " + SecondStep
	}
	return string(o.cmd.Phase)
}

func (o op) String() string {
	s := o.what()
	if o.cmd.Verb != saga.VerbExecute {
		s = fmt.Sprintf("%s about the %s", o.cmd.Verb, s)
	}
	return strings.Join(append([]string{fmt.Sprintf("%s, attempt %d", s, o.cmd.Attempt)}, o.notes...), ", ")
}

// twist makes a command special.
type twist func(x *transaction, o *op)

// late makes the command come after its deadline.
func late(_ *transaction, o *op) {
	o.cmd.Deadline = time.Now().Add(-time.Minute)
	o.notes = append(o.notes, "a minute past its deadline")
}

// other gives the same operation other content: another input, or one that is part of a larger body.
func other(x *transaction, o *op) {
	changed := saga.Payload{Data: x.t.action.Input(x.c.N + 1)}
	if o.cmd.Phase == saga.PhaseTry {
		o.setBody(saga.TryBody(changed, []saga.NamedPayload{{Step: "other", Payload: saga.Payload{Data: []byte("1")}}}))
	} else {
		o.setBody(saga.SettleBody(changed, saga.Payload{Data: []byte(`"other"`)}))
	}
	o.notes = append(o.notes, "with other content")
}

// blind leaves the try's result out of a confirm or cancel, as when it was not known.
func blind(x *transaction, o *op) {
	o.setBody(saga.SettleBody(x.input, saga.Payload{}))
	x.bodies[o.cmd.Phase] = o.cmd.Body
	o.notes = append(o.notes, "without the try's result")
}

// tampered changes the body after its hash was computed.
func tampered(_ *transaction, o *op) {
	o.cmd.Body = append(slices.Clone(o.cmd.Body), ' ')
	o.notes = append(o.notes, "with a body that does not match Saga-Content-Sha256")
}

// copied sends the last attempt once more.
func copied(x *transaction, o *op) {
	x.attempts[o.cmd.Phase]--
	o.cmd.Attempt = max(1, o.cmd.Attempt-1)
	o.notes = append(o.notes, "a copy")
}

func inquire(_ *transaction, o *op) { o.cmd.Verb = saga.VerbInquire }
func reserve(_ *transaction, o *op) { o.cmd.Verb = saga.VerbReserve }

// revision sets the revision of the body.
func revision(n int) twist {
	return func(_ *transaction, o *op) {
		o.cmd.Revision = n
		o.notes = append(o.notes, fmt.Sprintf("revision %d", n))
	}
}

// action calls another action.
func action(name string) twist {
	return func(_ *transaction, o *op) {
		o.cmd.Action = name
		o.setBody(o.cmd.Body)
		o.notes = append(o.notes, "of the action "+name)
	}
}

func (o *op) setBody(body []byte) {
	o.cmd.Body = body
	o.cmd.ContentSHA256 = saga.ContentSHA256(o.cmd.Action, body)
}

func (x *transaction) try(twists ...twist) op     { return x.op(saga.PhaseTry, twists) }
func (x *transaction) confirm(twists ...twist) op { return x.op(saga.PhaseConfirm, twists) }
func (x *transaction) cancel(twists ...twist) op  { return x.op(saga.PhaseCancel, twists) }

// op returns the next attempt of an operation. Its body is fixed when it is made first (S1.4).
func (x *transaction) op(phase saga.Phase, twists []twist) op {
	x.attempts[phase]++
	t := x.t
	body := x.bodies[phase]
	switch {
	case body != nil:
	case phase == saga.PhaseTry:
		body = saga.TryBody(x.input, nil)
	default:
		body = saga.SettleBody(x.input, x.result)
	}
	o := op{cmd: saga.Command{
		Verb: saga.VerbExecute, Tenant: x.c.Tenant, Transaction: x.c.Transaction, Step: x.c.Step, Phase: phase,
		Kind: t.action.Kind, Participant: t.k.cfg.Participant, Action: t.action.Name,
		Attempt: x.attempts[phase], Revision: 1,
	}}
	o.setBody(body)
	for _, twist := range twists {
		twist(x, &o)
	}
	if len(twists) == 0 {
		x.bodies[phase] = body
	}
	if phase == saga.PhaseTry && o.cmd.Attempt == 1 && len(o.notes) == 0 {
		o.notes = append(o.notes, "input "+show(x.input.Data))
	}
	return o
}

// do sends a command, and again as its next attempt while the participant asks for patience, and judges the answer
// and the effect that stands after it.
func (x *transaction) do(o op, w want, stands Effect) answer {
	t := x.t
	if t.over() {
		return answer{}
	}
	a := x.ask(o, w)
	x.judge(a, w, stands)
	return a
}

// judge compares an answer and the effect that stands after it with what they have to be.
func (x *transaction) judge(a answer, w want, stands Effect) {
	t := x.t
	if t.over() {
		return
	}
	got := x.effect()
	came, expected := a.String(), w.String()
	if stands != got {
		came, expected = came+"; effect: "+got.String(), expected+"; effect: "+stands.String()
	}
	if !w.met(a) || stands != got {
		t.fail(a, expected, came)
	}
}

// ask sends a command until there is an answer that a coordinator would not follow by another attempt. After a
// restart it does not wait for one attempt only: a command that was on its way to the dead process comes again much
// later.
func (x *transaction) ask(o op, w want) answer {
	t := x.t
	patience := t.k.cfg.Patience
	until := time.Now().Add(patience)
	if t.restarted {
		patience /= attemptsAfterRestart
	}
	for {
		boxes, err := t.k.post(t.ctx, o.cmd)
		if t.stop(err) {
			return answer{}
		}
		a, err := t.k.read(t.ctx, boxes[0], patience)
		if t.stop(err) {
			return answer{}
		}
		asks := min(a.reply.RetryAfter, leaseMax)
		if lease := time.Now().Add(asks + t.k.cfg.Patience); a.transient() && lease.After(until) && asks > t.k.cfg.Patience {
			until = lease
		}
		again := a.transient() && !w.mayBe(a.reply.Outcome) || a.silent && t.restarted
		if !again || time.Now().After(until) {
			t.note(o, a)
			x.learn(o, a)
			return a
		}
		t.noteOnce(o, a)
		t.wait(min(max(asks, againMin), againMax))
		x.attempts[o.cmd.Phase]++
		o.cmd.Attempt = x.attempts[o.cmd.Phase]
		o.notes = nil
	}
}

// learn keeps the result of the try for the confirm and the cancel.
func (x *transaction) learn(o op, a answer) {
	if o.cmd.Phase == saga.PhaseTry && a.done() && x.result.IsZero() {
		x.result = a.reply.Result
	}
}

// effect asks the user's probe.
func (x *transaction) effect() Effect {
	e, err := x.t.action.Effects(x.t.ctx, x.c)
	if err != nil {
		x.t.stop(fmt.Errorf("the probe of action %s: %w", x.t.action.Name, err))
	}
	return e
}

// settled reports whether a confirm or cancel was sent.
func (x *transaction) settled() bool {
	return x.attempts[saga.PhaseConfirm]+x.attempts[saga.PhaseCancel] > 0
}
