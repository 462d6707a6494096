package saga

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
)

// Submission is a client's wish to start a transaction: the JSON body of POST /v1/transactions and of a
// message to saga.submit. Its bytes are kept as sent: inputs are slices of them (S1.6).
//
//	{"definition": {…}, or the name of a registered one: "transfer", "transfer@2",
//	 "input":  any JSON for every step that has none of its own,
//	 "inputs": {"step": any JSON},
//	 "inputs_base64": {"step": {"type": "application/x-protobuf", "data": "…"}},
//	 "timeout": "30s", "deadline": "2026-01-02T15:04:05Z", "start_at": "…", "id": "UUIDv7"}
type Submission struct {
	Definition *Definition
	ID         ID // zero: the coordinator makes one
	Inputs     []Payload
	Timeout    time.Duration // zero: the definition's
	Deadline   time.Time     // zero: by the timeout
	StartAt    time.Time     // zero: at once
	Body       []byte
}

type submissionBody struct {
	Definition   json.RawMessage `json:"definition"`
	ID           *ID             `json:"id"`
	Input        json.RawMessage `json:"input"`
	Inputs       json.RawMessage `json:"inputs"`
	InputsBase64 json.RawMessage `json:"inputs_base64"`
	Timeout      *Duration       `json:"timeout"`
	Deadline     *time.Time      `json:"deadline"`
	StartAt      *time.Time      `json:"start_at"`
}

// ParseSubmission reads and validates a submission, but for its times, which CheckTimes compares with the
// clock. Its definition is read by parse, which is ParseDefinition or what stands before it: a cache, and the
// registered definitions, because the value may be a string. Errors are *InvalidError, or parse's. The result refers to body: do not change it afterwards.
func ParseSubmission(body []byte, parse func([]byte) (*Definition, error)) (*Submission, error) {
	if len(body) > SubmissionBytesMax {
		return nil, invalid(CodeTooLarge, "submission", fmt.Sprintf("has %d bytes", len(body)),
			fmt.Sprintf("send at most %d; keep large data elsewhere and pass a reference", SubmissionBytesMax))
	}
	b, plain := plainBody(body)
	if !plain {
		if err := UnmarshalStrict(body, "submission", 1, &b); err != nil {
			return nil, err
		}
	}
	if b.Definition == nil {
		return nil, invalid("missing_definition", "submission.definition", "is absent", "give the definition as an object, or the name of a registered one")
	}
	def, err := parse(b.Definition)
	if err != nil {
		return nil, err
	}
	s := &Submission{Definition: def, Body: body}
	if s.Inputs, err = inputs(def, b); err != nil {
		return nil, err
	}
	s.ID, s.Timeout = deref(b.ID), time.Duration(deref(b.Timeout))
	s.Deadline, s.StartAt = deref(b.Deadline), deref(b.StartAt)
	if b.Timeout != nil && b.Deadline != nil {
		return nil, invalid("invalid_deadline", "submission.deadline", "is given beside timeout", "give one of the two")
	}
	if b.Timeout != nil {
		return s, checkDuration("submission.timeout", s.Timeout, TimeoutMin, TimeoutMax)
	}
	return s, nil
}

// CodeTooLarge marks an *InvalidError about size, which HTTP answers with 413.
const CodeTooLarge = "too_large"

// StoredInputs returns the inputs of a submission that was accepted earlier.
func StoredInputs(def *Definition, body []byte) ([]Payload, error) {
	b, plain := plainBody(body)
	if !plain {
		if err := json.Unmarshal(body, &b); err != nil {
			return nil, fmt.Errorf("reading a stored submission: %w", err)
		}
	}
	return inputs(def, b)
}

// ContentSHA256 binds a request key to what was submitted: SHA-256 over the method, a line feed and the
// exact body, which contains the definition (S1.3).
func (s *Submission) ContentSHA256() [32]byte {
	h := sha256.New()
	h.Write([]byte("submit\n"))
	h.Write(s.Body)
	var sum [32]byte
	h.Sum(sum[:0])
	return sum
}

// Transaction returns the transaction that Step begins with Submitted at the given instant.
func (s *Submission) Transaction(tenant string, id ID, now time.Time) Transaction {
	start := now
	if s.StartAt.After(now) {
		start = s.StartAt
	}
	tx := Transaction{Tenant: tenant, ID: id, StartAt: s.StartAt, Deadline: s.Deadline, Inputs: s.Inputs}
	if tx.Deadline.IsZero() {
		timeout := s.Timeout
		if timeout == 0 {
			timeout = time.Duration(s.Definition.Timeout)
		}
		tx.Deadline = start.Add(timeout)
	}
	return tx
}

// idSkewMax is how far the time in a client's own transaction id may be from the clock (S1.2).
const idSkewMax = 5 * time.Minute

// CheckTimes compares the submission's id, deadline and start with the clock.
func (s *Submission) CheckTimes(now time.Time) error {
	if !s.ID.IsZero() && (s.ID.Time().Before(now.Add(-idSkewMax)) || s.ID.Time().After(now.Add(idSkewMax))) {
		return invalid("invalid_id", "submission.id", "was made at "+s.ID.Time().Format(time.RFC3339)+", too far from now",
			"make the id when you send it, with a clock within "+idSkewMax.String()+" of the coordinator's database")
	}
	if !s.StartAt.IsZero() && s.StartAt.After(now.Add(StartDelayMax)) {
		return invalid("invalid_start", "submission.start_at", "is more than "+StartDelayMax.String()+" away", "start sooner")
	}
	if !s.StartAt.IsZero() && s.StartAt.Before(now.Add(-StartDelayMax)) {
		return invalid("invalid_start", "submission.start_at", "is more than "+StartDelayMax.String()+" ago", "leave it out to start at once")
	}
	if s.Deadline.IsZero() {
		return nil
	}
	if start := later(now, s.StartAt); !s.Deadline.After(start) || s.Deadline.After(start.Add(TimeoutMax)) {
		return invalid("invalid_deadline", "submission.deadline", "is "+s.Deadline.Format(time.RFC3339),
			"use an instant after the start and within "+TimeoutMax.String()+" of it")
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// inputs gives every step its input, in the order of the definition.
func inputs(def *Definition, b submissionBody) ([]Payload, error) {
	result := make([]Payload, len(def.Steps))
	if b.Input != nil {
		if err := checkInput("submission.input", len(b.Input)); err != nil {
			return nil, err
		}
		for i := range result {
			result[i] = Payload{Data: b.Input}
		}
	}
	own := make(map[int]bool)
	each := func(member string, data json.RawMessage, value func(string, json.RawMessage) (Payload, error)) error {
		if data == nil {
			return nil
		}
		members, err := Members(data, "submission."+member)
		if err != nil {
			return err
		}
		for _, m := range members {
			at := "submission." + member + "." + m.Name
			i := def.StepIndex(m.Name)
			if i < 0 {
				return invalid("unknown_step", "submission."+member, "names "+quoteShort(m.Name)+", which is no step", "name a step of the definition")
			}
			if own[i] {
				return invalid("duplicate_member", at, "is given in inputs too", "give it once")
			}
			own[i] = true
			if result[i], err = value(at, m.Value); err != nil {
				return err
			}
			if err := checkInput(at, len(result[i].Data)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := each("inputs", b.Inputs, func(_ string, v json.RawMessage) (Payload, error) { return Payload{Data: v}, nil }); err != nil {
		return nil, err
	}
	return result, each("inputs_base64", b.InputsBase64, base64Input)
}

func base64Input(at string, v json.RawMessage) (Payload, error) {
	var in struct {
		Type string `json:"type"`
		Data string `json:"data"`
	}
	if err := UnmarshalStrict(v, at, 1, &in); err != nil {
		return Payload{}, err
	}
	if err := CheckContentType(at+".type", in.Type); err != nil {
		return Payload{}, err
	}
	data, err := base64.StdEncoding.DecodeString(in.Data)
	if err != nil {
		return Payload{}, invalid("invalid_base64", at+".data", "is not standard base64", "encode with padding (RFC 4648, section 4)")
	}
	return Payload{Type: in.Type, Data: append([]byte{}, data...)}, nil
}

// CheckContentType returns an *InvalidError unless s can be the content type of a value that is not JSON.
func CheckContentType(field, s string) error {
	ok := len(s) >= 3 && len(s) <= 127
	for i := range len(s) {
		ok = ok && s[i] > ' ' && s[i] < 0x7f
	}
	if ok && s != "application/json" {
		return nil
	}
	return invalid("invalid_content_type", field, "is "+quoteShort(s),
		"use a media type such as application/x-protobuf; JSON goes into the member without _base64")
}

func checkInput(field string, size int) error {
	if size <= InputBytesMax {
		return nil
	}
	return invalid(CodeTooLarge, field, fmt.Sprintf("has %d bytes", size),
		fmt.Sprintf("send at most %d; keep large data elsewhere and pass a reference", InputBytesMax))
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
