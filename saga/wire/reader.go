package wire

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// reader takes headers apart. It remembers the first problem and goes on, so that what was valid can still
// be used in an answer.
type reader struct {
	headers Header
	header  string // of the first problem
	problem string
}

func (r *reader) fail(header, problem string) {
	if r.problem == "" {
		r.header, r.problem = header, problem
	}
}

func (r *reader) err() error {
	if r.problem == "" {
		return nil
	}
	return &DecodeError{Header: r.header, Problem: r.problem}
}

// optional returns a header's only value; an empty one is as good as none.
func (r *reader) optional(header string) string {
	values := r.headers[header]
	switch {
	case len(values) == 0:
		return ""
	case len(values) > 1:
		r.fail(header, fmt.Sprintf("occurs %d times", len(values)))
		return ""
	case len(values[0]) > HeaderValueBytesMax:
		r.fail(header, fmt.Sprintf("has %d bytes, more than %d", len(values[0]), HeaderValueBytesMax))
		return ""
	}
	return values[0]
}

func (r *reader) required(header string) string {
	value := r.optional(header)
	if value == "" {
		r.fail(header, "is missing")
	}
	return value
}

func (r *reader) name(header string) string {
	value := r.required(header)
	if value == "" {
		return ""
	}
	if problem := nameProblem(value); problem != "" {
		r.fail(header, problem)
		return ""
	}
	return value
}

func (r *reader) id(header, value string) saga.ID {
	if value == "" {
		return saga.ID{}
	}
	id, err := saga.ParseID(value)
	if err != nil {
		r.fail(header, "is "+quote(value)+", not a version 7 UUID")
	}
	return id
}

func (r *reader) number(header string) int {
	value := r.required(header)
	if value == "" {
		return 0
	}
	n, ok := parseNumber(value, 1, NumberMax)
	if !ok {
		r.fail(header, "is "+quote(value)+", not a number from 1 to "+strconv.Itoa(NumberMax))
		return 0
	}
	return n
}

func (r *reader) hash() (sum [32]byte) {
	value := r.required(HeaderContentSHA256)
	if value == "" {
		return sum
	}
	var digits [64]byte
	if len(value) == len(digits) {
		copy(digits[:], value)
		if _, err := hex.Decode(sum[:], digits[:]); err == nil {
			return sum
		}
	}
	r.fail(HeaderContentSHA256, "is "+quote(value)+", not 64 hexadecimal digits")
	return [32]byte{}
}

func (r *reader) deadline() time.Time {
	value := r.optional(HeaderDeadline)
	if value == "" {
		return time.Time{}
	}
	var t time.Time
	if err := t.UnmarshalText([]byte(value)); err != nil || !deadlineInRange(t) {
		r.fail(HeaderDeadline, "is "+quote(value)+", not an RFC 3339 time")
		return time.Time{}
	}
	return t.UTC()
}

func (r *reader) ttl() time.Duration {
	value := r.optional(HeaderTTL)
	if value == "" {
		return 0
	}
	d, ok := parseTTL(value)
	if !ok {
		r.fail(HeaderTTL, "is "+quote(value)+", not a time from 1s to "+saga.AttemptTimeoutMax.String())
	}
	return d
}

// text reads what escaped wrote and cuts it to its limit.
func (r *reader) text(header string, limit int) string {
	value, ok := unescape(r.optional(header))
	if !ok {
		r.fail(header, "has a '%' that two hexadecimal digits do not follow")
		return ""
	}
	return cut(value, limit)
}

func (r *reader) retryAfter() time.Duration {
	value := r.optional(HeaderRetryAfter)
	if value == "" {
		return 0
	}
	d, ok := parseSeconds(value)
	if !ok {
		r.fail(HeaderRetryAfter, "is "+quote(value)+", not seconds")
	}
	return min(d, saga.BackoffMax)
}

func (r *reader) flag(header string) bool {
	switch value := r.optional(header); value {
	case "", "false":
		return false
	case "true":
		return true
	default:
		r.fail(header, "is "+quote(value)+", not true or false")
		return false
	}
}

// trace reads a trace context value as traceValue says; whatever is wrong with it, the message counts.
func (r *reader) trace(header string, limit int) string {
	if values := r.headers[header]; len(values) == 1 {
		return traceValue(values[0], limit)
	}
	return ""
}

// readOneOf reads a required value of an enumeration.
func readOneOf[T ~string](r *reader, header string, all []T) T {
	value := r.required(header)
	if value == "" {
		return ""
	}
	v, ok := oneOf(value, all)
	if !ok {
		r.fail(header, "is "+quote(value)+", which is not known")
	}
	return v
}
