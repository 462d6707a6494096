package wire_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

func TestParseBodyRefuses(t *testing.T) {
	nine := make([]saga.NamedPayload, saga.AfterMax+1)
	for i := range nine {
		nine[i] = saga.NamedPayload{Step: "s" + string(rune('0'+i)), Payload: saga.Payload{Data: []byte("1")}}
	}
	for _, body := range []string{
		``, `null`, `{}`, `{`, `{"input"`, `{"input":`, `{"input":}`, `{"input":1`, `{"input":1}}`, `{"input":1} `, ` {"input":1}`,
		`{"input" :1}`, `{"input":1,}`, `{"input":1,"input":2}`, `{"input":1,"other":2}`, `{"results":{},"input":1}`,
		`{"input":1,"results":{}}`, `{"input":1,"results":{"a":1},"results":{"b":1}}`, `{"input":1,"results":{"a":1,"a":2}}`,
		`{"input":1,"results":{"a":1},"results_base64":{"a":{"type":"x","data":""}}}`, `{"input":1,"results":{"a.b":1}}`,
		`{"input":1,"results":{"\u0061":1}}`, `{"input":1,"results":{"":1}}`, `{"input":1,"results":{"a":1},"x":1}`,
		`{"input":1,"results_base64":{"a":{"type":"x","data":""}},"results":{"b":1}}`, `{"input":01}`, `{"input":tru}`,
		`{"input":"a}`, `{"input":[1,2}`, `{"input":"\x"}`, "{\"input\":\"\x00\"}", `{"input":1 2}`, `{"input":NaN}`,
		`{"input_base64":{"type":"","data":""}}`, `{"input_base64":{"data":"","type":"x"}}`, `{"input_base64":{"type":"x"}}`,
		`{"input_base64":{"type":"x","data":"!"}}`, `{"input_base64":{"type":"x","data":"YQ"}}`, `{"input_base64":{"type":"x","data":"YR=="}}`,
		`{"input_base64":{"type":"x","data":"YQ==","more":1}}`, `{"input_base64":{"type":"\u0078","data":""}}`,
		"{\"input_base64\":{\"type\":\"x\",\"data\":\"YWFh\nYWFh\"}}", `{"input_base64":{"type":1,"data":""}}`,
		`{"input_base64":{"type":"` + strings.Repeat("x", 256) + `","data":""}}`, `{"input":1,"input_base64":{"type":"x","data":""}}`,
		`{"input":` + strings.Repeat("[", 1<<16), string(saga.TryBody(saga.Payload{}, nine)), `{"input":1,"try":2,"results":{"a":1}}`,
	} {
		for _, phase := range []saga.Phase{saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel, ""} {
			if b, err := wire.ParseBody(phase, []byte(body)); err == nil {
				t.Errorf("%s: %.80s is read as %+v", phase, body, b)
			} else if e := checkDecodeError(t, err); e.Header != wire.PartBody {
				t.Errorf("%v does not name the body", err)
			}
		}
	}
}

// What belongs to one phase is refused in another.
func TestParseBodyKnowsThePhase(t *testing.T) {
	one := saga.Payload{Data: []byte("1")}
	try := saga.TryBody(one, []saga.NamedPayload{{Step: "a", Payload: one}})
	if _, err := wire.ParseBody(saga.PhaseConfirm, try); err == nil {
		t.Error("results in a confirm")
	}
	if _, err := wire.ParseBody(saga.PhaseTry, saga.SettleBody(one, one)); err == nil {
		t.Error("a try's result in a try")
	}
}

// Parts are slices of the body: nothing is copied, and appending to one cannot reach the next.
func TestParseBodySharesMemory(t *testing.T) {
	data := saga.SettleBody(saga.Payload{Data: []byte(` {"n": 9007199254740993, "n": 1} `)}, saga.Payload{Data: []byte("2")})
	before := bytes.Clone(data)
	b, err := wire.ParseBody(saga.PhaseCancel, data)
	if err != nil {
		t.Fatal(err)
	}
	if string(b.Input.Data) != ` {"n": 9007199254740993, "n": 1} ` || &b.Input.Data[0] != &data[len(`{"input":`)] {
		t.Errorf("input is %q", b.Input.Data)
	}
	_ = append(b.Input.Data, 'x')
	if !bytes.Equal(data, before) {
		t.Error("appending to a part changed the body")
	}
}

// The largest body of an accepted transaction fits a message (S1.4).
func TestLargestBodyFits(t *testing.T) {
	typ := strings.Repeat("<", wire.ContentTypeBytesMax) // six bytes each in JSON
	var results []saga.NamedPayload
	for i := range saga.AfterMax {
		step := string(rune('a'+i)) + strings.Repeat("x", saga.NameBytesMax-1)
		results = append(results, saga.NamedPayload{Step: step, Payload: saga.Payload{Type: typ, Data: make([]byte, saga.ResultBytesMax)}})
	}
	body := saga.TryBody(saga.Payload{Type: typ, Data: make([]byte, saga.InputBytesMax)}, results)
	if len(body) > wire.BodyBytesMax {
		t.Fatalf("%d bytes", len(body))
	}
	c := goldenCommands()["command_try"]
	c.Body = body
	m := encodeCommand(t, sealed(c))
	got, err := wire.DecodeCommand(m)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := wire.ParseBody(got.Phase, got.Body); err != nil || len(b.Results) != saga.AfterMax {
		t.Errorf("%d results, %v", len(b.Results), err)
	}
}
