package wire

import "crypto/sha256"

// signedHeaders are the headers that a signature covers, in the order of the canonical form. Not among them:
// trace context and the headers of NATS, which others may change on the way, and the signature itself.
var signedHeaders = [...]string{
	HeaderVerb, HeaderTenant, HeaderTransaction, HeaderStep, HeaderPhase, HeaderStepKind, HeaderParticipant,
	HeaderAction, HeaderAttempt, HeaderRevision, HeaderContentSHA256, HeaderDeadline, HeaderFloor,
	HeaderReplyTo, HeaderOutcome, HeaderCode, HeaderReason, HeaderState, HeaderRetryAfter, HeaderReplayed,
	HeaderContentType,
}

// Canonical returns what a signature in Saga-Signature will cover: the values of the signed headers as they
// travel, in a fixed order, an absent one as nothing, each followed by a line feed, then the SHA-256 of Data
// in hexadecimal digits. Nothing signs yet; the form is fixed from the start so that signing can be added
// without changing a message.
func Canonical(m Message) []byte {
	b := make([]byte, 0, 640)
	for _, name := range signedHeaders {
		if values := m.Header[name]; len(values) > 0 {
			b = appendLine(b, values[0])
		}
		b = append(b, '\n')
	}
	sum := sha256.Sum256(m.Data)
	return appendHex(b, sum[:])
}

// appendLine keeps a value on its line. Values on the wire have no line breaks; one that was made in memory
// must not be able to pose as several.
func appendLine(b []byte, value string) []byte {
	for i := range len(value) {
		switch value[i] {
		case '\r':
			b = append(b, "%0D"...)
		case '\n':
			b = append(b, "%0A"...)
		default:
			b = append(b, value[i])
		}
	}
	return b
}
