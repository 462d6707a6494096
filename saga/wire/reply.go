package wire

import (
	"encoding/json"

	"github.com/sagacity-tx/sagacity/saga"
)

// EncodeReply returns the message of a reply, to be published on the ReplyTo of the command that it answers.
// Reason and Code are cut to their limits between runes, RetryAfter to saga.BackoffMax; a result of type
// application/json is one of no type. Anything else that would not decode to the same reply is an
// *EncodeError, a JSON result that is not JSON included: it would break the body that it is spliced into.
func EncodeReply(r saga.Reply, subject string) (Message, error) {
	var scratch [768]byte
	w := writer{text: scratch[:0]}
	if problem := replyToProblem(subject, r.Participant); problem != "" {
		w.fail(PartSubject, problem)
	}
	// The outcome is in the message id so that a later, better answer to the same attempt (retry, then done)
	// is not swallowed as a duplicate of the first.
	w.operation(r.Key(), r.Verb, r.Attempt, r.Question, "/reply/", string(r.Outcome))
	w.name(HeaderParticipant, r.Participant)
	w.number(HeaderRevision, r.Revision)
	w.hash(r.ContentSHA256)
	putOneOf(&w, HeaderOutcome, r.Outcome, outcomes)
	w.escaped(HeaderCode, cut(r.Code, saga.CodeBytesMax))
	w.escaped(HeaderReason, cut(r.Reason, saga.ReasonBytesMax))
	if r.State != "" {
		putOneOf(&w, HeaderState, r.State, states)
	}
	if header, problem := missing(r); problem != "" {
		w.fail(header, problem)
	}
	switch {
	case r.RetryAfter < 0:
		w.fail(HeaderRetryAfter, "is negative")
	case r.RetryAfter > 0:
		w.seconds(HeaderRetryAfter, min(r.RetryAfter, saga.BackoffMax))
	}
	if r.Replayed {
		w.put(HeaderReplayed, "true")
	}
	w.put(HeaderTraceparent, traceValue(r.Traceparent, traceparentBytesMax))
	w.result(r.Result)
	if err := w.err(); err != nil {
		return Message{}, err
	}
	return Message{Subject: subject, Header: w.headers(), Data: r.Result.Data}, nil
}

// DecodeReply reads a reply. Its Result shares the memory of the message's Data. The participant is that of
// the subject, which permissions protect, and the header must agree; without a Subject it is the header's
// alone. Beside a *DecodeError it returns what was valid.
func DecodeReply(m Message) (saga.Reply, error) {
	r := reader{headers: m.Header}
	reply := saga.Reply{
		Verb:          readOneOf(&r, HeaderVerb, verbs),
		Tenant:        r.name(HeaderTenant),
		Transaction:   r.id(HeaderTransaction, r.required(HeaderTransaction)),
		Step:          r.name(HeaderStep),
		Phase:         readOneOf(&r, HeaderPhase, phases),
		Participant:   r.name(HeaderParticipant),
		Attempt:       r.number(HeaderAttempt),
		Revision:      r.number(HeaderRevision),
		ContentSHA256: r.hash(),
		Outcome:       readOneOf(&r, HeaderOutcome, outcomes),
		Code:          r.text(HeaderCode, saga.CodeBytesMax),
		Reason:        r.text(HeaderReason, saga.ReasonBytesMax),
		RetryAfter:    r.retryAfter(),
		Replayed:      r.flag(HeaderReplayed),
		Traceparent:   r.trace(HeaderTraceparent, traceparentBytesMax),
	}
	reply.Question = r.question(reply.Verb)
	if r.optional(HeaderState) != "" {
		reply.State = readOneOf(&r, HeaderState, states)
	}
	if m.Subject != "" {
		if problem := replyToProblem(m.Subject, reply.Participant); problem != "" {
			r.fail(PartSubject, problem)
			reply.Participant = "" // it is not known who says so
		}
	}
	if header, problem := missing(reply); problem != "" {
		r.fail(header, problem)
	}
	reply.Result = r.result(m.Data)
	return reply, r.err()
}

// Attributable reports whether a reply that DecodeReply refused still says which attempt of which operation it
// answers, and is of the participant that it names: the operation, not only the message, can be set aside.
func Attributable(r saga.Reply) bool {
	return r.Verb != "" && r.Tenant != "" && !r.Transaction.IsZero() && r.Step != "" && r.Phase != "" &&
		r.Participant != "" && r.Attempt != 0 && r.Revision != 0
}

// missing names what the outcome needs and the reply has not.
func missing(r saga.Reply) (header, problem string) {
	switch {
	case r.Outcome == saga.OutcomeState && r.State == "":
		return HeaderState, "is missing beside the outcome state"
	case r.Outcome == saga.OutcomeFault && r.Code == "":
		return HeaderCode, "is missing beside the outcome fault"
	}
	return "", ""
}

// result adds the type of a result. A value that is there always has one, so that an empty text and no value
// stay apart.
func (w *writer) result(p saga.Payload) {
	if p.IsZero() {
		return
	}
	typ := p.Type
	if typ == "" {
		typ = ContentTypeJSON
	}
	if problem := resultProblem(typ, p.Data); problem != "" {
		w.fail(PartBody, problem)
	}
	if problem := typeProblem(typ); problem != "" {
		w.fail(HeaderContentType, problem)
	}
	w.escaped(HeaderContentType, typ)
}

func (r *reader) result(data []byte) saga.Payload {
	typ, ok := unescape(r.optional(HeaderContentType))
	switch {
	case !ok:
		r.fail(HeaderContentType, "has a '%' that two hexadecimal digits do not follow")
		return saga.Payload{}
	case typ == "" && len(data) == 0:
		return saga.Payload{}
	case typ == "":
		r.fail(HeaderContentType, "is missing, but there is a result")
		return saga.Payload{}
	}
	if problem := typeProblem(typ); problem != "" {
		r.fail(HeaderContentType, problem)
		return saga.Payload{}
	}
	if problem := resultProblem(typ, data); problem != "" {
		r.fail(PartBody, problem)
		return saga.Payload{}
	}
	if data == nil {
		data = []byte{} // the value is there, and empty
	}
	if typ == ContentTypeJSON {
		typ = ""
	}
	return saga.Payload{Type: typ, Data: data}
}

func resultProblem(typ string, data []byte) string {
	switch {
	case len(data) > saga.ResultBytesMax:
		return tooLarge(len(data), saga.ResultBytesMax)
	case typ == ContentTypeJSON && !json.Valid(data):
		return "is not valid JSON"
	}
	return ""
}

// typeProblem refuses what a database's text column, a header or a terminal cannot hold.
func typeProblem(typ string) string {
	if len(typ) > ContentTypeBytesMax {
		return tooLarge(len(typ), ContentTypeBytesMax)
	}
	for i := range len(typ) {
		if !headerByte(typ[i]) {
			return "has characters that are not printable ASCII"
		}
	}
	return ""
}
