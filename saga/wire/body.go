package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"

	"github.com/sagacity-tx/sagacity/saga"
)

// Body is a command's body taken apart (S1.4).
type Body struct {
	Input   saga.Payload        // always there; JSON null if the step has no input
	Results []saga.NamedPayload // of a try: the results of the steps in after that have one, as they were written
	Try     saga.Payload        // of a confirm or cancel: the try's result, if it was known
}

// ParseBody takes apart what saga.TryBody or saga.SettleBody wrote: every part is a slice of data with the
// user's own bytes, white space, duplicate keys and large numbers included (S1.6); only parts that are not
// JSON are decoded, from base64. It accepts nothing else, not even the members in another order, so that
// encoding the parts again gives data. Errors are *DecodeError with PartBody.
func ParseBody(phase saga.Phase, data []byte) (Body, error) {
	p := parser{data: data}
	var b Body
	p.expect("{")
	b.Input = p.payload("input")
	switch phase {
	case saga.PhaseTry:
		p.results(&b.Results)
	case saga.PhaseConfirm, saga.PhaseCancel:
		if !p.atEnd() {
			p.expect(",")
			b.Try = p.payload("try")
		}
	default:
		p.fail("is of no known phase: " + quote(string(phase)))
	}
	p.expect("}")
	if p.at != len(data) {
		p.failAt("is not at its end")
	}
	if p.problem != "" {
		return Body{}, &DecodeError{Header: PartBody, Problem: p.problem}
	}
	return b, nil
}

// parser walks over a body. After the first problem it does nothing.
type parser struct {
	data    []byte
	at      int
	problem string
}

func (p *parser) fail(problem string) {
	if p.problem == "" {
		p.problem = problem
	}
}

func (p *parser) failAt(problem string) { p.fail("at byte " + strconv.Itoa(p.at) + " " + problem) }

// accept skips s if it comes next.
func (p *parser) accept(s string) bool {
	if p.problem != "" || len(p.data)-p.at < len(s) || string(p.data[p.at:p.at+len(s)]) != s {
		return false
	}
	p.at += len(s)
	return true
}

func (p *parser) expect(s string) {
	if !p.accept(s) {
		p.failAt("does not continue with " + s)
	}
}

func (p *parser) atEnd() bool { return len(p.data)-p.at == 1 && p.data[p.at] == '}' }

// payload reads a member that is either name with JSON or name_base64.
func (p *parser) payload(name string) saga.Payload {
	p.expect(`"` + name)
	if p.accept(`_base64":`) {
		return p.base64()
	}
	p.expect(`":`)
	return saga.Payload{Data: p.value()}
}

func (p *parser) results(to *[]saga.NamedPayload) {
	if p.accept(`,"results":{`) {
		p.members(to, func() saga.Payload { return saga.Payload{Data: p.value()} })
	}
	if p.accept(`,"results_base64":{`) {
		p.members(to, p.base64)
	}
}

// members reads step names and values up to the closing brace.
func (p *parser) members(to *[]saga.NamedPayload, value func() saga.Payload) {
	for p.problem == "" {
		p.expect(`"`)
		end := bytes.IndexByte(p.data[p.at:], '"')
		if end < 0 || nameProblem(string(p.data[p.at:p.at+end])) != "" {
			p.failAt("has no step name")
			return
		}
		step := string(p.data[p.at : p.at+end])
		for i := range *to {
			if (*to)[i].Step == step {
				p.failAt("names the step " + step + " again")
				return
			}
		}
		if len(*to) == saga.AfterMax {
			p.failAt("has more than " + strconv.Itoa(saga.AfterMax) + " results")
			return
		}
		p.at += end
		p.expect(`":`)
		*to = append(*to, saga.NamedPayload{Step: step, Payload: value()})
		if !p.accept(",") {
			p.expect("}")
			return
		}
	}
}

// value returns the bytes up to the comma or bracket that ends the value, white space included.
func (p *parser) value() []byte {
	if p.problem != "" {
		return nil
	}
	end := p.at + valueLen(p.data[p.at:])
	value := p.data[p.at:end:end]
	if !json.Valid(value) {
		p.failAt("has no valid JSON value")
		return nil
	}
	p.at = end
	return value
}

// valueLen finds the end of the JSON value that b begins with. Of something else it returns any length.
func valueLen(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i += stringLen(b[i+1:])
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return len(b)
}

// stringLen returns the length of a string's rest, its closing quote included.
func stringLen(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// base64 reads {"type":…,"data":"…"}.
func (p *parser) base64() saga.Payload {
	p.expect(`{"type":`)
	start := p.at
	var typ string
	if raw := p.value(); raw != nil {
		again := []byte(nil)
		if json.Unmarshal(raw, &typ) == nil {
			again, _ = json.Marshal(typ) // a string always encodes
		}
		if typ == "" || len(typ) > ContentTypeBytesMax || !bytes.Equal(raw, again) {
			p.at = start
			p.failAt("has no content type")
		}
	}
	p.expect(`,"data":"`)
	if p.problem != "" {
		return saga.Payload{}
	}
	n := max(0, bytes.IndexByte(p.data[p.at:], '"'))
	text := p.data[p.at : p.at+n]
	// The decoder skips line breaks, which would not come back when encoded again.
	data, err := base64.StdEncoding.Strict().AppendDecode([]byte{}, text)
	if err != nil || bytes.ContainsAny(text, "\r\n") {
		p.failAt("has no base64")
		return saga.Payload{}
	}
	p.at += n
	p.expect(`"}`)
	return saga.Payload{Type: typ, Data: data}
}
