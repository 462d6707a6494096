package wire

import (
	"strings"

	"github.com/sagacity-tx/sagacity/saga"
)

// The question of an inquiry is a part of message ids only: JetStream drops a message whose id it has seen, and who asks
// again wants another answer. A participant that makes the id of its reply of the command's, as all replies are, needs
// to know nothing about it.

// questionAt is where the question is in a message id: behind tenant, transaction, step, phase, verb and attempt.
const questionAt = 6

// question reads the question of an inquiry, and of the reply to one, out of the message id. Anything else in that place
// is none.
func (r *reader) question(verb saga.Verb) string {
	ids := r.headers[HeaderMsgID]
	if verb != saga.VerbInquire || len(ids) != 1 || len(ids[0]) > HeaderValueBytesMax {
		return ""
	}
	parts := strings.SplitN(ids[0], "/", questionAt+2)
	if len(parts) <= questionAt || parts[questionAt] == replyPart || saga.CheckName("", parts[questionAt]) != nil {
		return ""
	}
	return strings.Clone(parts[questionAt])
}

// replyPart begins what a reply's id has behind its command's.
const replyPart = "reply"

func questionProblem(verb saga.Verb, question string) string {
	switch {
	case verb != saga.VerbInquire:
		return "has a question, which only an inquiry has"
	case question == replyPart || saga.CheckName("", question) != nil:
		return "has the question " + quote(question) + "; use a name other than " + replyPart
	}
	return ""
}
