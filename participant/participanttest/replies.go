package participanttest

import (
	"fmt"
	"sync"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// replies looks at the headers of every reply of a run, and keeps the first mistake of each sort until it is taken.
// It is safe for concurrent use.
type replies struct {
	mu     sync.Mutex
	ids    map[string]origin // by message id: the first reply that came with it
	unlike *Check            // a reply that does not repeat its command
	twice  *Check            // a reply with the message id of another one
}

// origin is what a reply's message id stands for.
type origin struct {
	key     saga.OperationKey
	verb    saga.Verb
	attempt int
	outcome saga.Outcome
}

func originOf(a answer) origin {
	return origin{key: a.reply.Key(), verb: a.reply.Verb, attempt: a.reply.Attempt, outcome: a.reply.Outcome}
}

// op returns the command that is answered, as far as its reply names it.
func (o origin) op() op {
	return op{cmd: saga.Command{Verb: o.verb, Step: o.key.Step, Phase: o.key.Phase, Attempt: o.attempt}}
}

func (o origin) String() string { return o.op().String() + " -> " + string(o.outcome) }

// see looks at a reply that came to the address of a command. Who reads it judges one that cannot be read.
func (r *replies) see(cmd saga.Command, a answer) {
	if a.problem != "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seeID(a)
	if a.answers(cmd) && r.unlike == nil && !a.repeats(cmd) {
		r.unlike = &Check{
			Sent:     []string{originOf(a).op().String() + " -> " + a.String()},
			Expected: identity(cmd.Revision, cmd.ContentSHA256) + ", as in the command",
			Came:     identity(a.reply.Revision, a.reply.ContentSHA256),
		}
	}
}

func (r *replies) seeID(a answer) {
	came := originOf(a)
	first, seen := r.ids[a.msgID]
	if !seen {
		r.ids[a.msgID] = came
	}
	if !seen || first == came || r.twice != nil {
		return
	}
	r.twice = &Check{
		Sent:     []string{first.String()},
		Expected: "a " + wire.HeaderMsgID + " that no other reply has: JetStream drops this one, and the coordinator never sees it",
		Came:     wire.HeaderMsgID + " " + show([]byte(a.msgID)) + " again",
	}
	if first.key.Transaction != came.key.Transaction {
		r.twice.Sent = append(r.twice.Sent, "(another transaction)")
	}
	r.twice.Sent = append(r.twice.Sent, came.String())
}

// takeUnlike returns the first reply that did not repeat its command since it was asked last; nil: none.
func (r *replies) takeUnlike() *Check { return r.take(&r.unlike) }

// takeTwice returns the first reply with the message id of another one since it was asked last; nil: none.
func (r *replies) takeTwice() *Check { return r.take(&r.twice) }

func (r *replies) take(found **Check) *Check {
	r.mu.Lock()
	defer r.mu.Unlock()
	wrong := *found
	*found = nil
	return wrong
}

// repeats reports whether the reply has the revision and the content hash of its command. With the outcome state they
// are the recorded ones, which are the same: the suite asks with the content that it has sent. A participant that
// cannot read a command may not know its hash.
func (a answer) repeats(cmd saga.Command) bool {
	unknown := a.is(saga.OutcomeFault, saga.FaultUndecodable) && a.reply.ContentSHA256 == [32]byte{}
	return a.reply.Revision == cmd.Revision && (unknown || a.reply.ContentSHA256 == cmd.ContentSHA256)
}

func identity(revision int, sha [32]byte) string {
	return fmt.Sprintf("%s %d, %s %x", wire.HeaderRevision, revision, wire.HeaderContentSHA256, sha)
}
