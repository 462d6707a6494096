package wire

import (
	"strconv"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// writer collects headers. Values that have to be formatted share one buffer, which becomes one string, and
// all values share one slice: a message has some twenty headers, and this is the hot path.
type writer struct {
	fields  [24]field
	n       int
	text    []byte
	header  string // of the first problem
	problem string
}

// field is a header whose value is a string at hand, or the part [from, to) of the writer's text.
type field struct {
	name, value string
	from, to    int
}

func (w *writer) fail(header, problem string) {
	if w.problem == "" {
		w.header, w.problem = header, problem
	}
}

func (w *writer) err() error {
	if w.problem == "" {
		return nil
	}
	return &EncodeError{Header: w.header, Problem: w.problem}
}

// put adds a header; an empty value means that there is none.
func (w *writer) put(header, value string) {
	if value == "" {
		return
	}
	w.fields[w.n] = field{name: header, value: value}
	w.n++
}

// part adds a header whose value is a part of the text.
func (w *writer) part(header string, from, to int) {
	w.fields[w.n] = field{name: header, from: from, to: to}
	w.n++
}

func (w *writer) name(header, value string) {
	if problem := nameProblem(value); problem != "" {
		w.fail(header, problem)
	}
	w.put(header, value)
}

func (w *writer) number(header string, n int) {
	if n < 1 || n > NumberMax {
		w.fail(header, "is "+strconv.Itoa(n)+", not from 1 to "+strconv.Itoa(NumberMax))
	}
	from := len(w.text)
	w.text = strconv.AppendInt(w.text, int64(n), 10)
	w.part(header, from, len(w.text))
}

// escaped adds text from people or programs outside.
func (w *writer) escaped(header, value string) {
	if value == "" {
		return
	}
	from := len(w.text)
	w.text = appendEscaped(w.text, value)
	w.part(header, from, len(w.text))
}

func (w *writer) hash(sum [32]byte) {
	from := len(w.text)
	w.text = appendHex(w.text, sum[:])
	w.part(HeaderContentSHA256, from, len(w.text))
}

func (w *writer) seconds(header string, d time.Duration) {
	from := len(w.text)
	w.text = appendSeconds(w.text, d)
	w.part(header, from, len(w.text))
}

// operation adds the identity and the message id, which contains it: tenant/transaction/step/phase/verb/attempt, of an
// inquiry then its question, and what follows in a reply.
func (w *writer) operation(key saga.OperationKey, verb saga.Verb, attempt int, question, suffix, outcome string) {
	w.name(HeaderTenant, key.Tenant)
	w.name(HeaderStep, key.Step)
	putOneOf(w, HeaderPhase, key.Phase, phases)
	putOneOf(w, HeaderVerb, verb, verbs)
	if !validID(key.Transaction) {
		w.fail(HeaderTransaction, "is not a version 7 UUID")
	}
	from := len(w.text)
	w.text = append(append(w.text, key.Tenant...), '/')
	id := len(w.text)
	w.text = append(appendID(w.text, key.Transaction), '/')
	w.part(HeaderTransaction, id, len(w.text)-1)
	w.text = append(append(w.text, key.Step...), '/')
	w.text = append(append(w.text, key.Phase...), '/')
	w.text = append(append(w.text, verb...), '/')
	w.number(HeaderAttempt, attempt)
	if question != "" {
		if problem := questionProblem(verb, question); problem != "" {
			w.fail(HeaderMsgID, problem)
		}
		w.text = append(append(w.text, '/'), question...)
	}
	w.text = append(append(w.text, suffix...), outcome...)
	w.part(HeaderMsgID, from, len(w.text))
}

// headers makes the header map of what was collected.
func (w *writer) headers() Header {
	text := string(w.text)
	values := make([]string, w.n)
	h := make(Header, w.n)
	for i := range w.n {
		f := &w.fields[i]
		values[i] = f.value
		if f.to > f.from {
			values[i] = text[f.from:f.to]
		}
		h[f.name] = values[i : i+1 : i+1]
	}
	return h
}

func putOneOf[T ~string](w *writer, header string, value T, all []T) {
	if _, ok := oneOf(string(value), all); !ok {
		w.fail(header, "is "+quote(string(value)))
	}
	w.put(header, string(value))
}

// oneOf returns the constant that s names, not s itself, so that nothing holds on to the message.
func oneOf[T ~string](s string, all []T) (T, bool) {
	for _, v := range all {
		if string(v) == s {
			return v, true
		}
	}
	return "", false
}

func nameProblem(s string) string {
	if saga.CheckName("", s) == nil {
		return ""
	}
	return "is " + quote(s) + "; a name has 1 to 64 letters, digits, '-' or '_' and begins with a letter or digit"
}

func validID(id saga.ID) bool { return id[6]>>4 == 7 && id[8]>>6 == 2 }

const lowerHex = "0123456789abcdef"

func appendHex(b, data []byte) []byte {
	for _, c := range data {
		b = append(b, lowerHex[c>>4], lowerHex[c&15])
	}
	return b
}

// appendID is saga.ID.String without the allocation.
func appendID(b []byte, id saga.ID) []byte {
	b = append(appendHex(b, id[0:4]), '-')
	b = append(appendHex(b, id[4:6]), '-')
	b = append(appendHex(b, id[6:8]), '-')
	b = append(appendHex(b, id[8:10]), '-')
	return appendHex(b, id[10:16])
}
