package pg

import (
	"strings"
	"unicode/utf8"
)

// Text makes any bytes fit for a text column: NUL is dropped, which PostgreSQL cannot store; invalid
// UTF-8 is replaced by U+FFFD; and the result is cut to at most bytesMax bytes, between two runes.
func Text(s string, bytesMax int) string {
	if len(s) <= bytesMax && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s { // invalid bytes arrive as U+FFFD, one each
		if r == 0 {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > bytesMax {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
