package saga

import (
	"encoding/hex"
	"fmt"
	"time"
)

// ID is a transaction's identity: a UUIDv7, whose first 48 bits are milliseconds since the Unix epoch, so
// that ids order by time (S1.2).
type ID [16]byte

// String returns the canonical form: 36 lower-case characters with hyphens.
func (id ID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	hex.Encode(b[9:13], id[4:6])
	hex.Encode(b[14:18], id[6:8])
	hex.Encode(b[19:23], id[8:10])
	hex.Encode(b[24:36], id[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// IsZero reports whether the id is unset.
func (id ID) IsZero() bool { return id == ID{} }

// Time returns the instant, in whole milliseconds, that the id was made at.
func (id ID) Time() time.Time {
	ms := int64(0)
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms).UTC()
}

// MarshalText returns the canonical form.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what ParseID reads.
func (id *ID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseID(string(text))
	return err
}

// ParseID reads a UUIDv7 of 36 characters, digits in either case (RFC 9562, section 4); anything else is an
// *InvalidError with code invalid_id. String returns the one canonical form.
func ParseID(s string) (ID, error) {
	var id ID
	invalid := func(why string) (ID, error) {
		return ID{}, &InvalidError{
			Code: "invalid_id", Field: "transaction id", Problem: why,
			Fix: "use a UUIDv7 as 36 characters, for example 0198c7a2-5b7e-7c31-9f6e-0a4b1c2d3e4f",
		}
	}
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return invalid("is not 36 characters with hyphens in the places of a UUID")
	}
	digits := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return invalid("has characters that are not hexadecimal digits")
	}
	if id[6]>>4 != 7 || id[8]>>6 != 2 {
		return invalid("is not a version 7 UUID")
	}
	return id, nil
}

// Kind says which operations a step has and when they run (S2.2).
type Kind string

// The kinds of steps.
const (
	KindSaga      Kind = "saga"      // try, and cancel to compensate
	KindTCC       Kind = "tcc"       // try, then confirm or cancel
	KindPivot     Kind = "pivot"     // try only; its outcome is the decision
	KindRetriable Kind = "retriable" // try only, after the decision; must go forward
)

// Phase is the part of a step that an operation executes.
type Phase string

// The phases.
const (
	PhaseTry     Phase = "try"
	PhaseConfirm Phase = "confirm"
	PhaseCancel  Phase = "cancel"
)

// Verb says what a command asks for.
type Verb string

// The verbs of commands.
const (
	VerbExecute Verb = "execute" // run the operation, or repeat its stored reply
	VerbInquire Verb = "inquire" // report the state of the barrier row, change nothing
	VerbReserve Verb = "reserve" // raise the row's min_revision if nothing is recorded (S1.5)
)

// OperationKey is the identity of an operation over all its attempts (S1.1).
type OperationKey struct {
	Tenant      string
	Transaction ID
	Step        string
	Phase       Phase
}

// String returns tenant/transaction/step/phase, as in message ids and logs.
func (k OperationKey) String() string {
	return k.Tenant + "/" + k.Transaction.String() + "/" + k.Step + "/" + string(k.Phase)
}

// CheckName returns an *InvalidError unless s is a valid tenant, participant, action or step name (S1.7).
// The field is what the message calls it.
func CheckName(field, s string) error {
	if validName(s) {
		return nil
	}
	return &InvalidError{
		Code: "invalid_name", Field: field, Problem: fmt.Sprintf("is %s", quoteShort(s)),
		Fix: "use 1 to 64 letters, digits, '-' or '_', beginning with a letter or digit",
	}
}

func validName(s string) bool {
	if len(s) == 0 || len(s) > NameBytesMax {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || c != '-' && c != '_') {
			return false
		}
	}
	return true
}

// CheckRequestID returns an *InvalidError unless s is 1 to 255 visible ASCII characters (S1.7).
func CheckRequestID(s string) error {
	ok := len(s) >= 1 && len(s) <= RequestIDBytesMax
	for i := range len(s) {
		ok = ok && s[i] > ' ' && s[i] < 0x7f
	}
	if ok {
		return nil
	}
	return &InvalidError{
		Code: "invalid_request_id", Field: "request id", Problem: fmt.Sprintf("is %s", quoteShort(s)),
		Fix: "use 1 to 255 visible ASCII characters without spaces",
	}
}

// quoteShort quotes what a user sent so that it is safe in logs and terminals and not long.
func quoteShort(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%+q… (%d bytes)", s[:40], len(s))
	}
	return fmt.Sprintf("%+q", s)
}
