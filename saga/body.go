package saga

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
)

// The bodies of commands (S1.4). Users' JSON bytes are spliced in verbatim; a value of another content type
// is carried under the same name with the suffix _base64, as {"type":…,"data":…}. A body's bytes are part
// of an operation's identity (its content hash), so this encoding must never change: golden tests hold it.

// NamedPayload is a step's result by the step's name.
type NamedPayload struct {
	Step string
	Payload
}

// TryBody returns {"input":…} and, if there are results, "results":{step:…} after it.
func TryBody(input Payload, results []NamedPayload) []byte {
	b := appendValue(make([]byte, 0, bodySize(input, results)), '{', "input", input)
	b = appendResults(b, "results", results, func(p Payload) bool { return p.Type == "" }, appendJSON)
	b = appendResults(b, "results_base64", results, func(p Payload) bool { return p.Type != "" }, appendBase64)
	return append(b, '}')
}

// SettleBody returns the body of a confirm or cancel: {"input":…} and, if the try's result is known,
// "try":… after it.
func SettleBody(input, try Payload) []byte {
	b := appendValue(make([]byte, 0, len(input.Data)+len(try.Data)+64), '{', "input", input)
	if !try.IsZero() {
		b = appendValue(b, ',', "try", try)
	}
	return append(b, '}')
}

// ContentSHA256 is the hash that binds an operation to what it does: SHA-256 over the action, a line feed
// and the body (S1.4). Names have no line feeds, so the two cannot run into each other.
func ContentSHA256(action string, body []byte) [32]byte {
	h := sha256.New()
	h.Write([]byte(action))
	h.Write([]byte{'\n'})
	h.Write(body)
	var sum [32]byte
	h.Sum(sum[:0])
	return sum
}

func appendValue(b []byte, before byte, name string, p Payload) []byte {
	b = append(b, before, '"')
	b = append(b, name...)
	if p.Type == "" {
		return appendJSON(append(b, `":`...), p)
	}
	return appendBase64(append(b, `_base64":`...), p)
}

func appendResults(b []byte, name string, results []NamedPayload, want func(Payload) bool, value func([]byte, Payload) []byte) []byte {
	first := true
	for _, r := range results {
		if r.IsZero() || !want(r.Payload) {
			continue
		}
		if first {
			b = append(append(append(b, `,"`...), name...), `":{"`...)
		} else {
			b = append(b, `,"`...)
		}
		b = append(append(b, r.Step...), `":`...)
		b = value(b, r.Payload)
		first = false
	}
	if !first {
		b = append(b, '}')
	}
	return b
}

func appendJSON(b []byte, p Payload) []byte {
	if p.IsZero() {
		return append(b, "null"...)
	}
	return append(b, p.Data...)
}

func appendBase64(b []byte, p Payload) []byte {
	typ, _ := json.Marshal(p.Type) // a string always encodes
	b = append(append(b, `{"type":`...), typ...)
	b = append(b, `,"data":"`...)
	b = base64.StdEncoding.AppendEncode(b, p.Data)
	return append(b, `"}`...)
}

func bodySize(input Payload, results []NamedPayload) int {
	n := len(input.Data) + 64
	for _, r := range results {
		n += len(r.Data) + len(r.Step) + 16
	}
	return n
}
