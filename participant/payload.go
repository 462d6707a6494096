package participant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// None is the Out of a try without a result, and the In of an action without an input.
type None struct{}

// Result returns the result of an earlier step that the step's after names, decoded like an input. Without
// one it returns ErrNoResult. Both that and a result that T cannot hold are faults when the handler returns
// them: no other attempt can change them, because a command's body is fixed (S1.4).
//
//	quote, err := participant.Result[Quote](c, "quote")
func Result[T, In any](c Call[In], step string) (T, error) {
	for _, r := range c.Results {
		if r.Step == step {
			return decode[T]("the result of step "+step, r.Payload)
		}
	}
	var none T
	return none, undecodable("step "+step, ErrNoResult)
}

// decode reads a payload: into a saga.Payload or json.RawMessage the very bytes, else JSON. Members that T
// does not have are ignored. Numbers in a value of type any become json.Number, never a float64 (S1.6).
func decode[T any](what string, p saga.Payload) (T, error) {
	var v T
	switch to := any(&v).(type) {
	case *None:
		return v, nil
	case *saga.Payload:
		*to = p
		return v, nil
	}
	if p.Type != "" {
		return v, undecodable(what, fmt.Errorf("the type is %q, not JSON; a handler of saga.Payload can read it", p.Type))
	}
	d := json.NewDecoder(bytes.NewReader(p.Data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return v, undecodable(what, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, undecodable(what, errors.New("more than one JSON value"))
	}
	return v, nil
}

// encode writes a result, once; what is written is stored and repeated. A None is no result. A saga.Payload
// and a json.RawMessage are kept byte for byte.
func encode[T any](v T) (saga.Payload, error) {
	switch from := any(v).(type) {
	case None:
		return saga.Payload{}, nil
	case saga.Payload:
		return checked(from)
	case json.RawMessage:
		if from == nil {
			from = json.RawMessage("null")
		}
		return checked(saga.Payload{Data: from})
	}
	data, err := json.Marshal(v)
	if err != nil {
		return saga.Payload{}, Fault(fmt.Errorf("the result cannot be encoded: %w", err))
	}
	return saga.Payload{Data: data}, nil
}

// checked refuses, before anything is committed, a result that no reply could carry.
func checked(p saga.Payload) (saga.Payload, error) {
	if p.Type == wire.ContentTypeJSON {
		p.Type = ""
	}
	switch {
	case p.Type == "" && p.Data != nil && !json.Valid(p.Data):
		return saga.Payload{}, Fault(errors.New("the result is not valid JSON; give its saga.Payload a Type"))
	case len(p.Type) > wire.ContentTypeBytesMax || saga.CleanText(p.Type, wire.ContentTypeBytesMax) != p.Type:
		return saga.Payload{}, Fault(fmt.Errorf("the result's type is not a content type: %.40q", p.Type))
	}
	return p, nil
}
