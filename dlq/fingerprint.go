package dlq

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Fingerprint groups equal causes: it is a short hash over where it happened and what was said, with what
// differs from case to case (numbers, ids, quoted values) taken out (D1).
func Fingerprint(participant, action, phase, cause, reason string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{participant, action, phase, cause, normalise(reason)}, "\n")))
	return hex.EncodeToString(sum[:8])
}

// normalise replaces every word with a digit by #, and every quoted text by "…".
func normalise(reason string) string {
	var b strings.Builder
	quoted := false
	for _, field := range strings.Fields(reason) {
		switch quotes := strings.Count(field, `"`); {
		case quoted:
			quoted = quotes%2 == 0
			continue
		case quotes > 0:
			quoted = quotes%2 == 1
			b.WriteString(` "…"`)
		case strings.ContainsAny(field, "0123456789"):
			b.WriteString(" #")
		default:
			b.WriteByte(' ')
			b.WriteString(field)
		}
	}
	return b.String()
}
