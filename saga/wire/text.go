package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sagacity-tx/sagacity/saga"
)

// How single values look in headers.

const upperHex = "0123456789ABCDEF"

// appendEscaped writes text so that it fits a header: bytes outside visible ASCII, '%', and blanks at either
// end (which transports trim) become %XX. It works on bytes, so that invalid UTF-8 comes back as it was.
func appendEscaped(b []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		edge := c == ' ' && (i == 0 || i == len(s)-1)
		if edge || !headerByte(c) || c == '%' {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
			continue
		}
		b = append(b, c)
	}
	return b
}

// unescape reverses appendEscaped. Bytes that should have been escaped are taken as they are: the meaning of
// a raw "ü" is clear, that of a lone '%' is not.
func unescape(s string) (string, bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		hi, lo := unhex(s[i+1]), unhex(s[i+2])
		if hi > 15 || lo > 15 {
			return "", false
		}
		b = append(b, hi<<4|lo)
		i += 2
	}
	return string(b), true
}

func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

func headerByte(c byte) bool { return ' ' <= c && c < 0x7f }

// cut shortens text to at most limit bytes without splitting a rune.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for i := limit; i > limit-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:limit] // not UTF-8 anyway
}

// traceValue returns a trace context value if it can travel as it is, else nothing. It is never escaped,
// because tracing libraries read the header directly, and never refused, because tracing must not stop a
// transaction; W3C Trace Context allows dropping it.
func traceValue(s string, limit int) string {
	if len(s) > limit || s == "" || s[0] == ' ' || s[len(s)-1] == ' ' {
		return ""
	}
	for i := range len(s) {
		if !headerByte(s[i]) {
			return ""
		}
	}
	return s
}

// parseNumber reads a base-10 integer without sign or leading zeros.
func parseNumber(s string, low, high int) (int, bool) {
	if len(s) == 0 || len(s) > 10 || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	n := int64(0)
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return int(n), int64(low) <= n && n <= int64(high)
}

// appendSeconds writes a duration as decimal seconds, exactly: 1.5.
func appendSeconds(b []byte, d time.Duration) []byte {
	b = strconv.AppendInt(b, int64(d/time.Second), 10)
	rest := int64(d % time.Second)
	if rest == 0 {
		return b
	}
	b = append(b, '.')
	for unit := int64(time.Second) / 10; rest > 0; unit /= 10 {
		b = append(b, byte('0'+rest/unit))
		rest %= unit
	}
	return b
}

// parseSeconds reads decimal seconds with at most nine digits after the point.
func parseSeconds(s string) (time.Duration, bool) {
	whole, fraction, point := strings.Cut(s, ".")
	n, ok := parseNumber(whole, 0, NumberMax)
	if !ok || point && (fraction == "" || len(fraction) > 9) {
		return 0, false
	}
	d, unit := time.Duration(n)*time.Second, time.Second
	for i := range len(fraction) {
		if fraction[i] < '0' || fraction[i] > '9' {
			return 0, false
		}
		unit /= 10
		d += time.Duration(fraction[i]-'0') * unit
	}
	return d, true
}

// wholeSeconds rounds an attempt timeout up: NATS counts a message's life in seconds and refuses less than one.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// parseTTL reads both forms that NATS takes: seconds, and a duration such as 10s.
func parseTTL(s string) (time.Duration, bool) {
	if n, ok := parseNumber(s, 1, int(saga.AttemptTimeoutMax/time.Second)); ok {
		return time.Duration(n) * time.Second, true
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second || d > saga.AttemptTimeoutMax {
		return 0, false
	}
	return wholeSeconds(d), true
}

// The first and last instants that a deadline may name: RFC 3339 has four digits for the year, and the zero
// time means that there is none.
var (
	deadlineMin = time.Unix(0, 0).UTC()
	deadlineMax = time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
)

func deadlineInRange(t time.Time) bool { return !t.Before(deadlineMin) && !t.After(deadlineMax) }

// quote makes what came from outside safe and short.
func quote(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%+q… (%d bytes)", s[:40], len(s))
	}
	return fmt.Sprintf("%+q", s)
}
