package main

import (
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// hostile are texts that could command or deceive a terminal.
var hostile = []string{
	"\x1b[31mred\x1b[0m", "\x1b]0;title\a", "a\rb", "line\nbreak", "bell\a", "\u009b31m", "left\u202eright", "\u2066isolate\u2069",
	"zero\u200bwidth", "del\x7f", "tag\U000e0041", "nel\u0085", "sep\u2028\u2029", "nbsp\u00a0", "bad\xff\xc3utf8", "bom\ufeff",
	"plain", "grüße 世界 🙂", `back\slash "quote"`, "- yaml: [x]", "true", "1e3", "", " pad ", "# no comment", "null", "0x1f",
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	for _, s := range hostile {
		got := printable(s)
		if strings.ContainsFunc(got, unprintable) {
			t.Errorf("printable(%q) = %q", s, got)
		}
	}
	for in, want := range map[string]string{
		"\x1b[31mred": `\x1b[31mred`, "a\u202eb": `a\u202eb`, "bad\xffutf8": `bad\xffutf8`, "one\ntwo": `one\ntwo`, "grüße 世界 🙂": "grüße 世界 🙂",
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %s, want %s", in, got, want)
		}
	}
}

// TestEncodings: JSON and YAML cannot command a terminal either, and mean the same as what went in.
func TestEncodings(t *testing.T) {
	t.Parallel()
	in := map[string]any{
		"texts": hostile, "number": json.RawMessage("12345678901234567890.10"), "empty": []string{}, "none": nil, "yes": true,
		"html": "<a&b>", "object": map[string]int{},
	}
	for name, encode := range map[string]func(any) ([]byte, error){
		"JSON": func(v any) ([]byte, error) { return encodeJSON(v, "  ") },
		"line": func(v any) ([]byte, error) { return encodeJSON(v, "") },
		"YAML": encodeYAML,
	} {
		b, err := encode(in)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsFunc(string(b), func(r rune) bool { return r != '\n' && unprintable(r) }) {
			t.Errorf("%s has characters that a terminal could obey: %q", name, b)
		}
		var out struct {
			Texts  []string       `json:"texts"`
			HTML   string         `json:"html"`
			Empty  []string       `json:"empty"`
			Object map[string]int `json:"object"`
		}
		if name == "YAML" {
			err = yaml.Unmarshal(b, &out)
		} else {
			err = json.Unmarshal(b, &out)
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, b)
		}
		for i, want := range hostile {
			want = strings.ToValidUTF8(want, "\ufffd")
			if strings.ReplaceAll(out.Texts[i], "\ufffd\ufffd", "\ufffd") != strings.ReplaceAll(want, "\ufffd\ufffd", "\ufffd") {
				t.Errorf("%s: %q came back as %q", name, want, out.Texts[i])
			}
		}
		if out.HTML != "<a&b>" || out.Empty == nil || out.Object == nil {
			t.Errorf("%s: came back as %+v", name, out)
		}
		if !strings.Contains(string(b), "12345678901234567890.10") {
			t.Errorf("%s changes a number:\n%s", name, b)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	fill := func(t *table) {
		t.field("Name", "a\x1b[2J")
		t.field("Absent", "")
		t.head("STEP", "STATE", "REASON")
		t.row("世界", "done", "")
		t.row("b", "refused", "why\nnot")
	}
	plain := &table{}
	fill(plain)
	var b strings.Builder
	if err := plain.write(&b); err != nil {
		t.Fatal(err)
	}
	want := "Name  a\\x1b[2J\n\nSTEP  STATE    REASON\n世界  done\nb     refused  why\\nnot\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	coloured := &table{style: style{colours: true}}
	fill(coloured)
	b.Reset()
	if err := coloured.write(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\x1b[31mrefused\x1b[0m  why") {
		t.Errorf("no colours: %q", b.String())
	}
}
