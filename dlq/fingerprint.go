package dlq

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fingerprint groups equal causes: it is a short hash over where it happened and what was said, with what
// differs from case to case (numbers, ids, quoted values) taken out (D1).
func Fingerprint(participant, action, phase, cause, reason string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{participant, action, phase, cause, normalise(reason)}, "\n")))
	return hex.EncodeToString(sum[:8])
}

// normalise replaces every word that has a digit or is a hexadecimal number by #, and every quoted text by "…".
func normalise(reason string) string {
	var b strings.Builder
	for _, field := range strings.Fields(dropQuoted(reason)) {
		b.WriteByte(' ')
		if varies(field) {
			b.WriteByte('#')
		} else {
			b.WriteString(field)
		}
	}
	return b.String()
}

// hexWordMin is how many hexadecimal digits make a word a number although it has only letters: hardly any English word has
// so many.
const hexWordMin = 8

// varies reports whether a word is one that another case of the same cause would have another of.
func varies(word string) bool {
	if strings.ContainsAny(word, "0123456789") {
		return true
	}
	bare := strings.TrimFunc(word, unicode.IsPunct)
	return len(bare) >= hexWordMin && strings.Trim(strings.ToLower(bare), "abcdef-") == ""
}

// quotes are pairs of marks around a value.
var quotes = map[rune]rune{'"': '"', '\'': '\'', '`': '`', '“': '”', '‘': '’', '«': '»'}

// dropQuoted replaces quoted texts. A mark behind a letter opens nothing (it is the apostrophe of don't), nor does one
// that nothing closes, but for ": what it quotes was cut off with the end.
func dropQuoted(text string) string {
	var b strings.Builder
	last := ' '
	for len(text) > 0 {
		open, size := utf8.DecodeRuneInString(text)
		end, isMark := quotes[open]
		if isMark && (open == '"' || !unicode.IsLetter(last) && !unicode.IsDigit(last)) {
			if n := closing(text[size:], end); n >= 0 || open == '"' {
				b.WriteString(` "…" `)
				if n < 0 {
					return b.String()
				}
				text, last = text[size+n:], end
				continue
			}
		}
		b.WriteString(text[:size])
		text, last = text[size:], open
	}
	return b.String()
}

// closing returns where the text goes on behind the mark, or -1. An apostrophe within a word closes nothing.
func closing(text string, mark rune) int {
	for i, r := range text {
		if r != mark {
			continue
		}
		behind := i + utf8.RuneLen(r)
		next, _ := utf8.DecodeRuneInString(text[behind:])
		if mark == '"' || !unicode.IsLetter(next) {
			return behind
		}
	}
	return -1
}
