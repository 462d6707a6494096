package client

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/internal/fault"
	"github.com/sagacity-tx/sagacity/saga"
)

// Submission is a transaction to start. Inputs are encoded with encoding/json; a json.RawMessage is sent as it
// is, byte for byte.
type Submission struct {
	Definition   *saga.Definition
	Registered   string            // instead of Definition: the name of a registered one, "transfer" or "transfer@2"
	Input        any               // for every step that has none of its own; nil: none
	Inputs       map[string]any    // by step
	InputsBinary map[string]Binary // by step, of another type than JSON
	Timeout      time.Duration     // from the submission to the deadline; zero: the definition's
	Deadline     time.Time         // instead of Timeout
	StartAt      time.Time         // zero: at once
	ID           saga.ID           // zero: the coordinator makes one
}

// Binary is a value that is not JSON.
type Binary struct {
	Type string // media type
	Data []byte
}

// SubmitOptions are those of one submission.
type SubmitOptions struct {
	RequestID   string        // 1 to 255 visible ASCII characters; "": a new one
	Wait        time.Duration // wait so long, in whole seconds up to 60, for the end
	Minimal     bool          // with Wait: the transaction comes without its steps, as in lists
	Traceparent string        // W3C Trace Context
	Tracestate  string
}

// Submitted is the answer to a submission.
type Submitted struct {
	ID          saga.ID
	RequestID   string       // as given or made; set beside an error too
	Replayed    bool         // it had been submitted before
	Answer      []byte       // as it came: without Wait the same bytes for every repetition
	Transaction *Transaction // with Wait: as it was then, not necessarily ended
}

// Submit starts a transaction, once, however often it has to be sent. Errors: *Problem if it was refused,
// *UnknownError if ctx or Options.RetryTime ended before that was known.
func (c *Client) Submit(ctx context.Context, s Submission, o SubmitOptions) (Submitted, error) {
	body, err := s.encode()
	if err != nil {
		return Submitted{RequestID: o.RequestID}, fmt.Errorf("client: %w", err)
	}
	return c.SubmitBytes(ctx, body, o)
}

// SubmitBytes is Submit of a submission that is JSON already. It is sent as it is, byte for byte.
func (c *Client) SubmitBytes(ctx context.Context, body []byte, o SubmitOptions) (Submitted, error) {
	result := Submitted{RequestID: o.RequestID}
	if result.RequestID == "" {
		result.RequestID = uuid.NewString()
	}
	if err := saga.CheckRequestID(result.RequestID); err != nil {
		return result, fmt.Errorf("client: %w", err)
	}
	r := request{method: http.MethodPost, path: "/v1/transactions", body: body, header: http.Header{}}
	r.header.Set("Idempotency-Key", result.RequestID)
	if seconds := int(min(o.Wait, waitMax) / time.Second); seconds > 0 {
		r.wait = time.Duration(seconds) * time.Second
		prefer := "wait=" + strconv.Itoa(seconds)
		if o.Minimal {
			prefer += ", return=minimal"
		}
		r.header.Set("Prefer", prefer)
	}
	for name, value := range map[string]string{"Traceparent": o.Traceparent, "Tracestate": o.Tracestate} {
		if value == "" || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c >= 0x7f }) {
			continue // tracing must not stop a transaction
		}
		r.header.Set(name, value)
	}
	a, err := c.do(ctx, r)
	if err != nil {
		return result, unknown(result.RequestID, err)
	}
	err = result.read(a)
	return result, err
}

// unknown marks the errors of a submission that leave it open whether it happened.
func unknown(requestID string, err error) error {
	var p *Problem
	var u *UnknownError
	switch {
	case errors.As(err, &u):
		return &UnknownError{RequestID: requestID, Err: u.Err}
	case errors.As(err, &p) && p.class() == fault.Unknown:
		return &UnknownError{RequestID: requestID, Err: err}
	}
	return err
}

// read takes the answer: the stored one, or with Prefer the transaction.
func (s *Submitted) read(a answer) error {
	var tx Transaction // the stored answer has its id and links
	err := json.Unmarshal(a.body, &tx)
	s.ID, s.Answer, s.Replayed = tx.ID, a.body, a.header.Get("Idempotent-Replayed") == "true"
	if err != nil {
		return &UnknownError{RequestID: s.RequestID, Err: fmt.Errorf("the answer cannot be read: %w", err)}
	}
	if tx.Status != "" {
		s.Transaction = &tx
	}
	return nil
}

// encode makes the body: always the same bytes for the same submission.
func (s *Submission) encode() ([]byte, error) {
	if (s.Definition == nil) == (s.Registered == "") {
		return nil, errors.New("one of Submission.Definition and Submission.Registered is required")
	}
	b := &objectWriter{}
	if s.Definition != nil {
		b.raw("definition", s.Definition.JSON())
	} else {
		b.value("definition", s.Registered)
	}
	if !s.ID.IsZero() {
		b.value("id", s.ID)
	}
	if s.Input != nil {
		b.value("input", s.Input)
	}
	if len(s.Inputs) > 0 {
		inner := &objectWriter{}
		for _, step := range slices.Sorted(maps.Keys(s.Inputs)) {
			inner.value(step, s.Inputs[step])
		}
		b.object("inputs", inner)
	}
	if len(s.InputsBinary) > 0 {
		inner := &objectWriter{}
		for _, step := range slices.Sorted(maps.Keys(s.InputsBinary)) {
			in := s.InputsBinary[step]
			inner.value(step, map[string]string{"type": in.Type, "data": base64.StdEncoding.EncodeToString(in.Data)})
		}
		b.object("inputs_base64", inner)
	}
	if s.Timeout != 0 {
		b.value("timeout", saga.Duration(s.Timeout))
	}
	for _, at := range []struct {
		name string
		time time.Time
	}{{"deadline", s.Deadline}, {"start_at", s.StartAt}} {
		if !at.time.IsZero() {
			b.value(at.name, at.time.UTC())
		}
	}
	return b.end()
}

// objectWriter writes a JSON object whose values are not re-encoded.
type objectWriter struct {
	buf bytes.Buffer
	err error
}

func (w *objectWriter) raw(name string, value []byte) {
	if w.buf.Len() == 0 {
		w.buf.WriteByte('{')
	} else {
		w.buf.WriteByte(',')
	}
	key, _ := json.Marshal(name) // strings always encode
	w.buf.Write(key)
	w.buf.WriteByte(':')
	w.buf.Write(value)
}

func (w *objectWriter) value(name string, v any) {
	var data []byte
	var err error
	if verbatim, ok := v.(json.RawMessage); ok {
		data = verbatim
		if !json.Valid(data) {
			err = errors.New("is a json.RawMessage that is not JSON")
		}
	} else {
		data, err = json.Marshal(v)
	}
	if err != nil {
		w.err = errors.Join(w.err, fmt.Errorf("%s: %w", name, err))
		return
	}
	w.raw(name, data)
}

func (w *objectWriter) object(name string, inner *objectWriter) {
	data, err := inner.end()
	w.err = errors.Join(w.err, err)
	w.raw(name, data)
}

func (w *objectWriter) end() ([]byte, error) {
	if w.buf.Len() == 0 {
		w.buf.WriteByte('{')
	}
	w.buf.WriteByte('}')
	return w.buf.Bytes(), w.err
}
