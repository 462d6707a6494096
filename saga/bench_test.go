package saga_test

import (
	"testing"

	"github.com/sagacity-tx/sagacity/saga"
)

// BenchmarkParseSubmission has its definition cached, as nearly every submission finds it.
func BenchmarkParseSubmission(b *testing.B) {
	text := []byte(`{"name":"transfer","version":1,"steps":[` +
		`{"name":"debit","kind":"saga","participant":"bank-a","action":"debit","attempt_timeout":"5s"},` +
		`{"name":"credit","kind":"saga","participant":"bank-b","action":"credit","attempt_timeout":"5s"},` +
		`{"name":"book","kind":"saga","participant":"ledger","action":"book","attempt_timeout":"5s"}]}`)
	def, err := saga.ParseDefinition(text)
	if err != nil {
		b.Fatal(err)
	}
	body := []byte(`{"definition":` + string(text) + `,"input":{"from":"a-17","to":"b-4","cents":1250}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := saga.ParseSubmission(body, func([]byte) (*saga.Definition, error) { return def, nil }); err != nil {
			b.Fatal(err)
		}
	}
}
