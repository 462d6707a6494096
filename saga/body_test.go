package saga_test

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/saga"
)

// bodyCases are the bodies that testdata/body.golden freezes, each with the content hash under the action
// "debit". Operations recorded today are compared with hashes of tomorrow: a change of one byte makes every
// command in flight a conflict. Cases may be added, never changed.
func bodyCases() []struct {
	name string
	body []byte
} {
	input := saga.Payload{Data: []byte(`{"account": "A-1", "amount": 12345678901234567890}`)}
	pdf := saga.Payload{Type: "application/pdf", Data: []byte("%PDF-1.7\n\x00\xff")}
	named := func(step string, p saga.Payload) saga.NamedPayload { return saga.NamedPayload{Step: step, Payload: p} }
	return []struct {
		name string
		body []byte
	}{
		{"try without anything", saga.TryBody(saga.Payload{}, nil)},
		{"try with an input", saga.TryBody(input, nil)},
		{"try with results in the order given", saga.TryBody(input, []saga.NamedPayload{
			named("quote", saga.Payload{Data: []byte(`{"rate":1.50}`)}), named("audit", saga.Payload{Data: []byte(`null`)}),
		})},
		{"try with results of other types, after the JSON ones", saga.TryBody(input, []saga.NamedPayload{
			named("scan", pdf), named("none", saga.Payload{}), named("quote", saga.Payload{Data: []byte(`7`)}),
			named("empty", saga.Payload{Type: "text/plain; charset=utf-8", Data: []byte{}}),
		})},
		{"try with an input of another type", saga.TryBody(pdf, nil)},
		{"user's bytes: white space, duplicate keys, large numbers, escapes", saga.TryBody(saga.Payload{
			Data: []byte(` {"a": 9007199254740993, "a":-1.0E+400,"<&>":"\u00fc\/ü"} `),
		}, nil)},
		{"settle without the try's result", saga.SettleBody(input, saga.Payload{})},
		{"settle with the try's result", saga.SettleBody(input, saga.Payload{Data: []byte(`{"hold":"h-77"}`)})},
		{"settle with a result of another type", saga.SettleBody(input, pdf)},
		{"settle with other types only", saga.SettleBody(pdf, saga.Payload{Type: `x/y; z="<&>"`, Data: []byte("z")})},
		{"settle without anything", saga.SettleBody(saga.Payload{}, saga.Payload{})},
	}
}

func TestBodyEncodingIsFrozen(t *testing.T) {
	var got strings.Builder
	got.WriteString("# Frozen: bodies and content hashes are part of an operation's identity. Add cases, never change one.\n")
	for _, c := range bodyCases() {
		sum := saga.ContentSHA256("debit", c.body)
		got.WriteString("\n# " + c.name + "\n" + string(c.body) + "\n" + hex.EncodeToString(sum[:]) + "\n")
	}
	want, err := os.ReadFile("testdata/body.golden")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
	}
}
