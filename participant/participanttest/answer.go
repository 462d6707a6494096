package participanttest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// answer is what came back for a command.
type answer struct {
	reply   saga.Reply
	msgID   string
	problem string // why there is no reply to judge
	silent  bool   // nothing came
}

func readAnswer(m *nats.Msg) answer {
	reply, err := wire.DecodeReply(bus.Message{Subject: m.Subject, Header: map[string][]string(m.Header), Data: m.Data})
	a := answer{reply: reply, msgID: m.Header.Get(wire.HeaderMsgID)}
	switch {
	case err != nil:
		a.problem = "a reply that cannot be read: " + err.Error()
	case a.msgID == "":
		a.problem = "a reply without the header " + wire.HeaderMsgID
	}
	return a
}

// answers reports whether the reply is one to the command.
func (a answer) answers(cmd saga.Command) bool {
	return a.reply.Key() == cmd.Key() && a.reply.Attempt == cmd.Attempt && a.reply.Verb == cmd.Verb
}

// transient reports whether a coordinator would send the operation again.
func (a answer) transient() bool {
	switch a.reply.Outcome {
	case saga.OutcomeRetry:
		return a.problem == "" && a.reply.Code != saga.CodeUnknownAction
	case saga.OutcomeInProgress:
		return a.problem == ""
	default:
		return false
	}
}

// done reports whether the effect of the operation is said to have happened.
func (a answer) done() bool { return a.problem == "" && a.reply.Outcome == saga.OutcomeDone }

// is reports whether the answer has an outcome and, unless it is "", a code.
func (a answer) is(outcome saga.Outcome, code string) bool {
	return a.problem == "" && a.reply.Outcome == outcome && (code == "" || a.reply.Code == code)
}

// same reports whether two replies say the same, byte for byte (B3).
func (a answer) same(b answer) bool {
	r, s := a.reply, b.reply
	return a.problem == "" && b.problem == "" && r.Outcome == s.Outcome && r.Code == s.Code && r.Reason == s.Reason && samePayload(r.Result, s.Result)
}

func samePayload(a, b saga.Payload) bool {
	return a.Type == b.Type && bytes.Equal(a.Data, b.Data) && a.IsZero() == b.IsZero()
}

// String returns the reply for people: "done, result {"id":7}, replayed".
func (a answer) String() string {
	if a.problem != "" {
		return a.problem
	}
	r := a.reply
	parts := []string{string(r.Outcome)}
	if r.State != "" {
		parts = append(parts, string(r.State))
	}
	if r.Code != "" {
		parts = append(parts, "code "+show([]byte(r.Code)))
	}
	if r.Reason != "" {
		parts = append(parts, "reason "+strconv.QuoteToASCII(r.Reason))
	}
	if !r.Result.IsZero() {
		parts = append(parts, "result "+show(r.Result.Data))
	}
	if r.Replayed {
		parts = append(parts, "replayed")
	}
	return strings.Join(parts, ", ")
}

const shownBytesMax = 160

// show returns bytes that others wrote so that they are safe in a terminal and not long.
func show(data []byte) string {
	cut, more := data, ""
	if len(data) > shownBytesMax {
		cut, more = data[:shownBytesMax], fmt.Sprintf("… (%d bytes)", len(data))
	}
	for _, c := range cut {
		if c < ' ' || c > '~' {
			return strconv.QuoteToASCII(string(cut)) + more
		}
	}
	return string(cut) + more
}

// want is what an answer has to be.
type want struct {
	outcome saga.Outcome
	code    string            // "": any
	state   saga.BarrierState // of an answer to inquire
	again   *answer           // the reply has to be this one, byte for byte
	result  *saga.Payload     // the reply has to carry this
}

var (
	done          = want{outcome: saga.OutcomeDone}
	hanging       = want{outcome: saga.OutcomeHanging}
	retry         = want{outcome: saga.OutcomeRetry}
	unknownAction = want{outcome: saga.OutcomeRetry, code: saga.CodeUnknownAction}
	reserved      = want{outcome: saga.OutcomeReserved}
	refused       = want{outcome: saga.OutcomeRefused}
	pastDeadline  = want{outcome: saga.OutcomeRefused, code: saga.CodeDeadline}
)

func fault(code string) want            { return want{outcome: saga.OutcomeFault, code: code} }
func again(first answer) want           { return want{outcome: first.reply.Outcome, again: &first} }
func state(s saga.BarrierState) want    { return want{outcome: saga.OutcomeState, state: s} }
func (w want) with(p saga.Payload) want { w.result = &p; return w }
func (w want) carries(a answer) bool {
	return w.result == nil || samePayload(*w.result, a.reply.Result)
}

func (w want) repeats(a answer) bool { return w.again == nil || a.reply.Replayed && a.same(*w.again) }
func (w want) stateOf(a answer) bool { return w.state == "" || w.state == a.reply.State }
func (w want) met(a answer) bool {
	return a.is(w.outcome, w.code) && w.stateOf(a) && w.repeats(a) && w.carries(a)
}
func (w want) mayBe(o saga.Outcome) bool { return w.outcome == o }

// String returns what is wanted, for people.
func (w want) String() string {
	if w.again != nil {
		first := *w.again
		first.reply.Replayed = true
		return "the first reply again, byte for byte: " + first.String()
	}
	s := string(w.outcome)
	if w.state != "" {
		s += ", " + string(w.state)
	}
	if w.code != "" {
		s += ", code " + w.code
	}
	if w.result != nil {
		s += ", result " + show(w.result.Data)
	}
	return s
}
