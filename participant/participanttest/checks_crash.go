package participanttest

import (
	"time"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
)

// ackGrace is how long a participant gets to acknowledge a command too early.
const ackGrace = 300 * time.Millisecond

const killedAtWork = 10

// crashChecks cut the reply off, and kill the participant if that is possible.
func crashChecks() []check {
	const fixReply = "Commit, publish the reply, wait for its PubAck, and only then acknowledge the command. What is lost in between is asked for again: " +
		"answer from the barrier row."
	return []check{
		{
			name: "ack-after-reply", rules: "B5",
			must: "A command is acknowledged only after the PubAck of its reply; without it, the command stays.",
			fix:  fixReply, run: ackAfterReply,
		},
		{
			name: "reply-lost", rules: "B5, B3, I5",
			must: "When the reply is lost after the commit, and the participant perhaps with it, the next attempt gets the same reply, and the effect stands once.",
			fix:  fixReply + " " + fixStore, run: replyLost,
		},
		{
			name: "phase-two-reply-lost", rules: "B5, B3, I5", kinds: compensated,
			must: "When the reply of a confirm or cancel is lost after the commit, the next attempt gets the same reply, and the work is not done again.",
			fix:  fixReply + " " + fixStore, run: phaseTwoReplyLost,
		},
		{
			name: "killed-at-work", rules: "M2, I-3", needs: restart,
			must: "A participant that is killed at work has either done an operation and recorded it, or neither: the next attempt ends it, and the effect stands once.",
			fix:  fixOnce, run: killed,
		},
	}
}

// lose sends a command and takes its reply without giving a PubAck.
func (x *transaction) lose(o op) (a answer, box *mailbox, sequence uint64) {
	t := x.t
	if t.over() {
		return
	}
	box, sequence, err := t.k.postLost(t.ctx, o.cmd)
	if t.stop(err) {
		return
	}
	if a, err = t.k.read(t.ctx, box, t.k.cfg.Patience); t.stop(err) {
		return
	}
	if a.silent { // perhaps it may not publish there, which is no mistake
		t.left = "no reply on " + t.k.lost + ".reply.*.*, which Saga-Reply-To named; may the participant publish there?"
		return
	}
	o.notes = append(o.notes, "whose reply gets no PubAck")
	t.note(o, a)
	x.learn(o, a)
	return a, box, sequence
}

func ackAfterReply(t *trial) {
	x := t.begin()
	a, box, sequence := x.lose(x.try())
	x.judge(a, done, t.action.tried())
	if t.over() {
		return
	}
	t.wait(ackGrace)
	held, err := t.k.bus.Holds(t.ctx, bus.Commands, sequence)
	if t.stop(err) {
		return
	}
	if !held {
		t.fail(a, "the command is still in its stream", "it was acknowledged, and nobody has the reply")
	}
	box.stores.Store(true)
	x.do(x.try(), again(a), t.action.tried())
}

func replyLost(t *trial) {
	x := t.begin()
	x.loseAndRepeat(x.try, t.action.tried())
}

func phaseTwoReplyLost(t *trial) {
	x := t.begin()
	x.do(x.try(), done, t.action.tried())
	if t.action.Kind == saga.KindTCC {
		x.loseAndRepeat(x.confirm, Effect{Final: 1})
		return
	}
	x.loseAndRepeat(x.cancel, none)
}

// loseAndRepeat loses the reply to an operation, kills the participant before it can publish it again, and sends the
// next attempt.
func (x *transaction) loseAndRepeat(next func(...twist) op, stands Effect) {
	a, box, _ := x.lose(next())
	x.judge(a, done, stands)
	x.t.restart()
	if x.t.over() {
		return
	}
	box.stores.Store(true)
	x.do(next(), again(a), stands)
}

// killed kills the participant while it has work in hand, which it may or may not have done.
func killed(t *trial) {
	cmds := make([]saga.Command, killedAtWork)
	for i := range cmds {
		cmds[i] = t.begin().try().cmd
	}
	if _, err := t.k.post(t.ctx, cmds...); t.stop(err) {
		return
	}
	for i, x := range t.all {
		t.lines = nil
		if i == 0 {
			t.restart()
		}
		t.lines = []string{"try, attempt 1, input " + show(x.input.Data), "(the participant is killed with it)"}
		if a := x.ask(x.try(), done); a.is(saga.OutcomeUnknown, "") {
			// The effect is outside of the database, and nobody can find out about it (U4).
			if e := x.effect(); e != none && e != t.action.tried() {
				t.fail(a, "effect: none or "+t.action.tried().String(), "effect: "+e.String())
			}
		} else {
			x.judge(a, done, t.action.tried())
		}
	}
}
