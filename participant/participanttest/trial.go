package participanttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// check is one rule and how to find out whether a participant keeps it.
type check struct {
	name  string
	rules string      // ids on docs/rules.md
	kinds []saga.Kind // nil: all
	needs need
	must  string // the rule, as a sentence
	fix   string // what to do where it is broken
	run   func(t *trial)
}

// need is what a check cannot do without.
type need int

const (
	nothingElse need = iota
	refusing
	failing
	restart
)

// missing says what was not given; "" if nothing is missing.
func (n need) missing(c Config, a *Action) string {
	switch {
	case n == refusing && a.Refusing == nil:
		return "give Action.Refusing"
	case n == failing && a.Failing == nil:
		return "give Action.Failing"
	case n == restart && c.Restart == nil:
		return "give Config.Restart"
	}
	return ""
}

// trial is one check of one action.
type trial struct {
	ctx    context.Context
	k      *conductor
	action *Action
	count  *int // of the action's transactions
	rnd    *rand.Rand

	all    []*transaction
	lines  []string
	wrong  *Check
	left   string // why it was left out
	err    error  // the check could not be carried out
	silent bool   // the participant did not answer

	restarted bool
}

// begin begins a transaction with Action.Input.
func (t *trial) begin() *transaction { return t.beginWith(t.action.Input) }

func (t *trial) beginWith(input func(n int) []byte) *transaction {
	if len(t.lines) > 0 {
		t.remark("(another transaction)")
	}
	return t.step(newID(), Step, input)
}

// step begins a step of a transaction.
func (t *trial) step(id saga.ID, name string, input func(n int) []byte) *transaction {
	*t.count++
	x := &transaction{
		t: t, c: Case{Tenant: t.k.cfg.Tenant, Transaction: id, Step: name, Action: t.action.Name, N: *t.count},
		input: saga.Payload{Data: input(*t.count)}, bodies: map[saga.Phase][]byte{}, attempts: map[saga.Phase]int{},
	}
	t.all = append(t.all, x)
	return x
}

// over reports whether there is a result already: what follows the first wrong answer proves nothing.
func (t *trial) over() bool { return t.wrong != nil || t.left != "" || t.err != nil }

// stop ends the trial for an error that is not the participant's.
func (t *trial) stop(err error) bool {
	t.err = cmp.Or(t.err, err)
	return t.err != nil
}

func (t *trial) fail(a answer, expected, came string) {
	if t.over() {
		return
	}
	t.silent = a.silent
	t.wrong = &Check{Expected: expected, Came: came}
}

func (t *trial) note(o op, a answer) {
	t.lines = append(t.lines, o.String()+" -> "+a.String())
}

// noteOnce leaves out an attempt that was answered like the one before.
func (t *trial) noteOnce(o op, a answer) {
	line := fmt.Sprintf("%s -> %s, sent again", o.what(), a)
	if len(t.lines) == 0 || t.lines[len(t.lines)-1] != line {
		t.lines = append(t.lines, line)
	}
}

// remark adds a line about something else than a command.
func (t *trial) remark(format string, args ...any) {
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

func (t *trial) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
		t.stop(context.Cause(t.ctx))
	}
}

// restart restarts the participant, if that is possible.
func (t *trial) restart() {
	if t.over() || t.k.cfg.Restart == nil {
		return
	}
	t.restarted = true
	t.remark("(the participant is restarted)")
	if err := t.k.cfg.Restart(t.ctx); err != nil {
		t.stop(fmt.Errorf("restart the participant: %w", err))
	}
}

// tidy cancels what a check has left reserved or done, so that the next ones find as much as this one has. What comes
// back proves nothing.
func (t *trial) tidy() {
	if t.silent || t.action.Kind == saga.KindPivot || t.action.Kind == saga.KindRetriable {
		return
	}
	aside := *t
	aside.wrong, aside.left, aside.err, aside.lines = nil, "", nil, nil
	for _, x := range t.all {
		if x.result.IsZero() && len(x.bodies) == 0 || x.settled() || aside.err != nil {
			continue
		}
		x.t = &aside
		aside.silent = x.ask(x.cancel(), done).silent
		if aside.silent {
			break
		}
	}
	if t.err == nil && !errors.Is(aside.err, context.Canceled) {
		t.err = aside.err
	}
}

// result is the line of the report.
func (t *trial) result(c check) Check {
	r := Check{Action: t.action.Name, Kind: t.action.Kind, Name: c.name, Rules: c.rules, Verdict: OK}
	switch {
	case t.left != "":
		r.Verdict, r.Reason = LeftOut, t.left
	case t.wrong != nil:
		r.Verdict, r.Rule, r.Fix = Wrong, c.must, c.fix
		r.Sent, r.Expected, r.Came = t.lines, t.wrong.Expected, t.wrong.Came
	}
	return r
}
