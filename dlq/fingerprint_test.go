package dlq_test

import (
	"testing"

	"github.com/sagacity-tx/sagacity/dlq"
)

// What differs from case to case of one cause is taken out, what tells causes apart is not (D1).
func TestFingerprint(t *testing.T) {
	t.Parallel()
	causes := [][]string{
		{`order 17: card "4111" declined`, `order 99812: card "5500 0000" declined`, `order 1: card "" declined`},
		{`order 17: card "4111" expired`},
		{"no account 0198c7a2-5b7e-7c31-9f6e-0a4b1c2d3e4f", "no account deadbeef-dead-beef-dead-beefdeadbeef", "no account ABCDEFAB"},
		{"no account named 'alice'", "no account named 'bob o clock'", "no account named “bob”", "no account named `x`", "no account named «y»"},
		{"can't connect, won't try", "can't  connect,\twon't try "},
		{"cannot connect, won't try"},
		{`unexpected "cut off in the mid`, `unexpected "cut`},
		{"key=17, offset 0x7ffe12, 3.5 s", "key=18, offset 0xbeef, 12 s"},
		{"a facade of decade", "a facade of decade"},
		{"the users' accounts", "the users' accounts"},
		{""},
		{"\xff\xfe"},
	}
	seen := map[string]int{}
	for i, reasons := range causes {
		prints := map[string]string{}
		for _, reason := range reasons {
			f := dlq.Fingerprint("bank", "debit", "try", "handler_fault", reason)
			prints[f] = reason
			if other, known := seen[f]; known && other != i {
				t.Errorf("%q is grouped with %q", reason, causes[other])
			}
			seen[f] = i
		}
		if len(prints) != 1 {
			t.Errorf("one cause has %d fingerprints: %q", len(prints), prints)
		}
	}
	base := dlq.Fingerprint("bank", "debit", "try", "exhausted", "x")
	for _, f := range []string{
		dlq.Fingerprint("bank2", "debit", "try", "exhausted", "x"), dlq.Fingerprint("bank", "credit", "try", "exhausted", "x"),
		dlq.Fingerprint("bank", "debit", "cancel", "exhausted", "x"), dlq.Fingerprint("bank", "debit", "try", "panic", "x"),
	} {
		if f == base {
			t.Errorf("another place or cause has the same fingerprint")
		}
	}
}
