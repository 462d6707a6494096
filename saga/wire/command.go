package wire

import (
	"fmt"
	"strconv"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// EncodeCommand returns the message of one attempt. Its Data is the command's Body itself. The trace context
// is left out if it cannot travel as it is. The attempt timeout travels as the message's life, in whole
// seconds rounded up, at least one (C12). The content hash is taken as it is: it was computed when the body
// was fixed. Anything that would not decode to the same command is an *EncodeError.
func EncodeCommand(prefix string, c saga.Command) (Message, error) {
	var scratch [768]byte
	w := writer{text: scratch[:0]}
	if !validPrefix(prefix) {
		w.fail(PartSubject, "has the prefix "+quote(prefix))
	}
	w.operation(c.Key(), c.Verb, c.Attempt, c.Question, "", "")
	putOneOf(&w, HeaderStepKind, c.Kind, kinds)
	w.name(HeaderParticipant, c.Participant)
	w.name(HeaderAction, c.Action)
	w.number(HeaderRevision, c.Revision)
	w.hash(c.ContentSHA256)
	w.deadline(c.Deadline)
	w.ttl(c.Timeout)
	w.floor(c.Floor)
	if problem := replyToProblem(c.ReplyTo, c.Participant); problem != "" {
		w.fail(HeaderReplyTo, problem)
	}
	w.put(HeaderReplyTo, c.ReplyTo)
	w.put(HeaderContentType, ContentTypeJSON)
	w.put(HeaderTraceparent, traceValue(c.Traceparent, traceparentBytesMax))
	w.put(HeaderTracestate, traceValue(c.Tracestate, tracestateBytesMax))
	if len(c.Body) > BodyBytesMax {
		w.fail(PartBody, tooLarge(len(c.Body), BodyBytesMax))
	}
	if err := w.err(); err != nil {
		return Message{}, err
	}
	return Message{Subject: CommandSubject(prefix, c.Participant), Header: w.headers(), Data: c.Body}, nil
}

// DecodeCommand reads a command and verifies its content hash; only an inquiry without a body may have a hash of
// zeros, which asks about whatever is recorded. The command's Body is the message's Data, not
// parsed yet: see ParseBody. Its Timeout is in whole seconds, and zero if the message does not say. Without a
// Subject (a message that came over a bridge) the participant is the header's alone.
//
// Beside a *DecodeError it returns what was valid, see Answerable.
func DecodeCommand(m Message) (saga.Command, error) {
	r := reader{headers: m.Header}
	c := saga.Command{
		Verb:          readOneOf(&r, HeaderVerb, verbs),
		Tenant:        r.name(HeaderTenant),
		Transaction:   r.id(HeaderTransaction, r.required(HeaderTransaction)),
		Step:          r.name(HeaderStep),
		Phase:         readOneOf(&r, HeaderPhase, phases),
		Kind:          readOneOf(&r, HeaderStepKind, kinds),
		Participant:   r.name(HeaderParticipant),
		Action:        r.name(HeaderAction),
		Attempt:       r.number(HeaderAttempt),
		Revision:      r.number(HeaderRevision),
		Deadline:      r.deadline(),
		Timeout:       r.ttl(),
		Body:          m.Data,
		ContentSHA256: r.hash(),
		Floor:         r.id(HeaderFloor, r.optional(HeaderFloor)),
		ReplyTo:       r.required(HeaderReplyTo),
		Traceparent:   r.trace(HeaderTraceparent, traceparentBytesMax),
		Tracestate:    r.trace(HeaderTracestate, tracestateBytesMax),
	}
	c.Question = r.question(c.Verb)
	if !r.commandSubject(m.Subject, c.Participant) {
		c.Participant = "" // nobody may answer in another's name
	}
	if c.ReplyTo != "" && c.Participant != "" {
		if problem := replyToProblem(c.ReplyTo, c.Participant); problem != "" {
			r.fail(HeaderReplyTo, problem)
			c.ReplyTo = ""
		}
	}
	if v := r.required(HeaderContentType); v != "" && v != ContentTypeJSON {
		r.fail(HeaderContentType, "is "+quote(v)+", not "+ContentTypeJSON)
	}
	r.content(c)
	return c, r.err()
}

// Answerable reports whether a command that DecodeCommand refused still says enough to be answered with the
// fault undecodable: which operation, which attempt and revision, and where to.
func Answerable(c saga.Command) bool {
	return c.Verb != "" && c.Tenant != "" && !c.Transaction.IsZero() && c.Step != "" && c.Phase != "" &&
		c.Participant != "" && c.Attempt != 0 && c.Revision != 0 && c.ReplyTo != ""
}

// content bounds the body before it hashes it.
func (r *reader) content(c saga.Command) {
	switch {
	case r.problem != "":
	case len(c.Body) > BodyBytesMax:
		r.fail(PartBody, tooLarge(len(c.Body), BodyBytesMax))
	case c.Verb == saga.VerbInquire && len(c.Body) == 0 && c.ContentSHA256 == [32]byte{}:
		// An inquiry by someone who does not know the content: it is compared with nothing.
	case saga.ContentSHA256(c.Action, c.Body) != c.ContentSHA256:
		r.fail(HeaderContentSHA256, "does not match the action and the body")
	}
}

// commandSubject reports whether the subject, if there is one, is that of the participant's commands.
func (r *reader) commandSubject(subject, participant string) bool {
	if subject == "" || participant == "" {
		return true
	}
	_, name, err := ParseCommandSubject(subject)
	if err == nil && name == participant {
		return true
	}
	r.fail(PartSubject, "is "+quote(subject)+", not that of the participant's commands")
	return false
}

func (w *writer) deadline(t time.Time) {
	if t.IsZero() {
		return
	}
	t = t.UTC()
	if !deadlineInRange(t) {
		w.fail(HeaderDeadline, "is "+t.String()+", outside of 1970 to 9999")
		return
	}
	from := len(w.text)
	w.text = t.AppendFormat(w.text, time.RFC3339Nano)
	w.part(HeaderDeadline, from, len(w.text))
}

func (w *writer) ttl(d time.Duration) {
	if d == 0 {
		return
	}
	if d < 0 || d > saga.AttemptTimeoutMax {
		w.fail(HeaderTTL, "is "+d.String()+", not from 0 to "+saga.AttemptTimeoutMax.String())
		return
	}
	from := len(w.text)
	w.text = strconv.AppendInt(w.text, int64(wholeSeconds(d)/time.Second), 10)
	w.text = append(w.text, 's')
	w.part(HeaderTTL, from, len(w.text))
}

func (w *writer) floor(id saga.ID) {
	if id.IsZero() {
		return
	}
	if !validID(id) {
		w.fail(HeaderFloor, "is not a version 7 UUID")
	}
	from := len(w.text)
	w.text = appendID(w.text, id)
	w.part(HeaderFloor, from, len(w.text))
}

// replyToProblem checks that replies go to a reply subject of the same participant, so that nobody can be
// made to publish elsewhere.
func replyToProblem(replyTo, participant string) string {
	_, name, _, err := ParseReplySubject(replyTo)
	if err == nil && name == participant {
		return ""
	}
	return "is " + quote(replyTo) + ", not a reply subject of the participant"
}

func tooLarge(n, limit int) string { return fmt.Sprintf("has %d bytes, more than %d", n, limit) }
