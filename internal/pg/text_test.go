package pg_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sagacity-tx/sagacity/internal/pg"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		in   string
		max  int
		want string
	}{
		{"plain", 5, "plain"},
		{"plain", 4, "plai"},
		{"", 0, ""},
		{"a", 0, ""},
		{"a\x00b", 9, "ab"},
		{"a\xffb", 9, "a\uFFFDb"},
		{"a\xff", 3, "a"}, // the replacement is three bytes
		{"äö", 3, "ä"},    // never half a rune
		{"\xe2\x82", 9, "\uFFFD\uFFFD"},
	} {
		if got := pg.Text(c.in, c.max); got != c.want {
			t.Errorf("Text(%q, %d) = %q, want %q", c.in, c.max, got, c.want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\x00\xff€", 5)
	f.Fuzz(func(t *testing.T, s string, bytesMax int) {
		got := pg.Text(s, bytesMax)
		if len(got) > max(bytesMax, 0) || !utf8.ValidString(got) || strings.IndexByte(got, 0) >= 0 {
			t.Errorf("Text(%q, %d) = %q", s, bytesMax, got)
		}
	})
}
