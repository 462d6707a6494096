package saga

import (
	"reflect"
	"testing"
)

// What is plain is read as encoding/json reads it, and anything else is left to it.
func TestPlainBody(t *testing.T) {
	t.Parallel()
	for body, plain := range map[string]bool{
		`{}`: true,
		`{"definition":"transfer","input":{"a":[1,"}]\\\""]}}`:                                     true,
		" {\t\"definition\" : {\"steps\":[ ]} ,\r\n\"inputs\" : {\"b\":-1.5e+3} , \"input\":12 } ": true,
		`{"input":true,"inputs_base64":{"c":{"type":"x/y","data":"AA=="}}}`:                        true,
		`{"timeout":"1m30s","deadline":"2026-01-02T05:04:05Z","start_at":"2026-01-02T04:04:05Z"}`:  true,
		`{"id":"0198c7a2-5b7e-7c31-9f6e-0a4b1c2d3e4f"}`:                                            true,
		``: false, ` `: false, `[]`: false, `"a"`: false, `{`: false, `{"input":}`: false, `{} x`: false,
		`{"input":1,"input":2}`:    false,
		`{"input":null}`:           false,
		`{"Input":1}`:              false,
		`{"inp\u0075t":1}`:         false,
		`{"other":1}`:              false,
		`{"timeout":"soon"}`:       false,
		"{\"input\":\"\xff\"}":     false,
		`{"input":{"a":1}}{}`:      false,
		`{"input":"\u0000\ud800"}`: true,
	} {
		b, ok := plainBody([]byte(body))
		if ok != plain {
			t.Errorf("%s is plain: %t", body, ok)
		}
		if ok {
			sameAsEncodingJSON(t, []byte(body), b)
		}
	}
}

func FuzzPlainBody(f *testing.F) {
	f.Add([]byte(`{"definition":"transfer","input":{"a":[1,"}]\\\""]},"timeout":"1m"}`))
	f.Add([]byte(" {\"inputs\" : {\"b\":-1.5e+3} , \"input\":12 } "))
	f.Fuzz(func(t *testing.T, data []byte) {
		if b, ok := plainBody(data); ok {
			sameAsEncodingJSON(t, data, b)
		}
	})
}

func sameAsEncodingJSON(t *testing.T, data []byte, got submissionBody) {
	t.Helper()
	var want submissionBody
	if err := UnmarshalStrict(data, "submission", 1, &want); err != nil {
		t.Fatalf("%q is taken as plain, but: %v", data, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q is read as %+v, want %+v", data, got, want)
	}
}

func BenchmarkReadSubmission(b *testing.B) {
	body := []byte(`{"definition":{"name":"noop","steps":[{"name":"a","kind":"saga","participant":"noop","action":"x"},` +
		`{"name":"b","kind":"saga","participant":"noop","action":"x"}]},"input":{"cents":100}}`)
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := plainBody(body); !ok {
				b.Fatal("not plain")
			}
		}
	})
	b.Run("other", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var s submissionBody
			if err := UnmarshalStrict(body, "submission", 1, &s); err != nil {
				b.Fatal(err)
			}
		}
	})
}
