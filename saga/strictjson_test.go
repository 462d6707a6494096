package saga_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// TestUnmarshalStrictDepth: members given twice are refused down to the depth, and keep their bytes below it.
func TestUnmarshalStrictDepth(t *testing.T) {
	text := []byte(`{"a":{"b":{"c":1,"c":2}}}`)
	for depth, ok := range map[int]bool{1: true, 2: true, 3: false, 8: false} {
		var v struct{ A json.RawMessage }
		err := saga.UnmarshalStrict(text, "body", depth, &v)
		if ok && (err != nil || string(v.A) != `{"b":{"c":1,"c":2}}`) {
			t.Errorf("depth %d: %v, %s", depth, err, v.A)
		}
		if !ok {
			wantInvalid(t, err, "duplicate_member", "body.a.b.c")
		}
	}
}

// TestMemberNamesAreEscaped: what a user called a member reaches logs and terminals only quoted (S1.7).
func TestMemberNamesAreEscaped(t *testing.T) {
	text := []byte(`{"\u001b[2J":1,"\u001b[2J":2}`)
	var v map[string]int
	wantInvalid(t, saga.UnmarshalStrict(text, "body", 1, &v), "duplicate_member", `body["\x1b[2J"]`)
	_, err := saga.Members(text, "inputs")
	wantInvalid(t, err, "duplicate_member", `inputs["\x1b[2J"]`)
	wantInvalid(t, saga.UnmarshalStrict([]byte(`{"\u001b[2J":1}`), "body", 1, &struct{}{}), "invalid_json", "body")
}

// TestJSONErrorsSayWhatAndWhere: a member that is not known is named, and what is no JSON has its place. None of it holds a
// value.
func TestJSONErrorsSayWhatAndWhere(t *testing.T) {
	for text, want := range map[string]string{
		`{"imput":"hunter2"}`:               `body has a member "imput", which is not known; send the documented members only`,
		"{\n  \"input\": \"hunter2\",\n}":   "body is not JSON at line 3, column 1, looking for beginning of object key string; send valid JSON",
		"{\n  \"input\": \"hunter2\"":       "body ends too early, at line 2, column 21; send all of it",
		`{"input":hunter2}`:                 "body is not JSON at line 1, column 10, looking for beginning of value; send valid JSON",
		`{"input":"hunter2" "at":1}`:        "body is not JSON at line 1, column 20, after object key:value pair; send valid JSON",
		" \n":                               "body is empty; send valid JSON with the documented members",
		`{"n":73.5}`:                        "body.n is a number; send a whole number",
		`{"at":"hunter2"}`:                  "body has a time that cannot be read; send times as in RFC 3339, such as 2026-01-31T03:00:00Z",
		`{"input":"hunter2"}{"input":"no"}`: "body has text after its end; send a single JSON value",
	} {
		var v struct {
			Input string
			N     int `json:"n"`
			At    time.Time
		}
		if err := saga.UnmarshalStrict([]byte(text), "body", 1, &v); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

// TestMembersKeepBytes: values are verbatim, in the order sent (S1.6).
func TestMembersKeepBytes(t *testing.T) {
	members, err := saga.Members([]byte(` { "b" : 1.0e+2 , "a":{"x" : [ 1,2]},"B":"\u0041" } `), "inputs")
	if err != nil {
		t.Fatal(err)
	}
	want := [][2]string{{"b", `1.0e+2`}, {"a", `{"x" : [ 1,2]}`}, {"B", `"\u0041"`}}
	if len(members) != len(want) {
		t.Fatalf("%d members: %v", len(members), members)
	}
	for i, m := range members {
		if m.Name != want[i][0] || string(m.Value) != want[i][1] {
			t.Errorf("member %d: %s %s, want %v", i, m.Name, m.Value, want[i])
		}
	}
	for _, text := range []string{``, `[]`, `"a"`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,}`, `{"a":1 "b":2}`, `{1:2}`, `{"a":1}x`} {
		_, err := saga.Members([]byte(text), "inputs")
		wantInvalid(t, err, "invalid_json", "inputs")
	}
}

// FuzzParseDefinition: any bytes give a definition whose canonical form is stable, or an InvalidError.
func FuzzParseDefinition(f *testing.F) {
	f.Add([]byte(definitionJSON("", stepJSON("a", ""), stepJSON("b", `,"kind":"pivot"`))))
	f.Add([]byte(definitionJSON(`,"timeout":"1h","on_exhausted":"dead_letter"`, stepJSON("a", `,"kind":"tcc","after":[],"retry":{"strategy":"fixed"}`))))
	f.Add([]byte(definitionJSON("", stepJSON("a", `,"after":["b"]`), stepJSON("b", `,"after":["a"]`))))
	f.Add([]byte(`{"name":"d","NAME":"e","ſteps":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := saga.ParseDefinition(data)
		if err != nil {
			var invalid *saga.InvalidError
			if !errors.As(err, &invalid) || invalid.Code == "" || invalid.Fix == "" {
				t.Fatalf("%#v", err)
			}
			return
		}
		again, err := saga.ParseDefinition(d.JSON())
		if err != nil || string(again.JSON()) != string(d.JSON()) {
			t.Fatalf("the canonical form is not stable: %v\n%s", err, d.JSON())
		}
		if _, _, err := saga.Step(d, newTransaction(d), saga.Submitted{}, begin, slowest{}); err != nil {
			t.Fatalf("a valid definition cannot be submitted: %v", err)
		}
	})
}

// FuzzMembers: what Members accepts, encoding/json accepts too, with the same number of members.
func FuzzMembers(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":{"c":[]}}`))
	f.Add([]byte(`{"a":1,"a":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		members, err := saga.Members(data, "inputs")
		if err != nil {
			var invalid *saga.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("%#v", err)
			}
			return
		}
		var all map[string]json.RawMessage
		if err := json.Unmarshal(data, &all); err != nil || len(all) != len(members) {
			t.Fatalf("%d members of %q, encoding/json says %d: %v", len(members), data, len(all), err)
		}
	})
}
