package outbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga/relay"
)

// Limits of a message.
const (
	// DefaultMessageBytesMax is the default max_payload of NATS, which counts headers and data.
	DefaultMessageBytesMax = relay.MessageBytesMax
	SubjectBytesMax        = 255
	IDBytesMax             = 512
)

const (
	headerMsgID  = "Nats-Msg-Id"
	headerStatus = "Status"
	// headerFrameBytes is what NATS adds around headers: "NATS/1.0\r\n" and the empty line.
	headerFrameBytes = 12
	// headerLineBytes is ": " and "\r\n".
	headerLineBytes = 4
)

// Message is a message to be published. Subject is required.
type Message struct {
	Subject string
	// Header holds names of letters, digits and '-', and values of printable ASCII without spaces around
	// them. Nats-Msg-Id, if given, is the message's id.
	Header map[string][]string
	Data   []byte // stored and published byte for byte
	// TTL, if not zero, is how long after the insert the message is still worth publishing.
	TTL time.Duration
}

// Entry is a message that was inserted: what HandOff needs once the transaction is committed. It shares
// header and data with the Message, which must not change after the insert.
type Entry struct {
	id     uuid.UUID
	msg    bus.Message // with its Nats-Msg-Id
	size   int
	expiry time.Time // by this process's clock; zero: none
}

// ID returns the row's id, a UUIDv7.
func (e Entry) ID() uuid.UUID { return e.id }

// TooLargeError says that a message is larger than NATS would accept. Nothing was inserted.
type TooLargeError struct {
	Subject  string
	Bytes    int // headers and data
	BytesMax int
}

// Error returns one line.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("outbox: the message for %q has %d bytes, headers included, and %d are allowed; "+
		"store the content elsewhere and send a reference", e.Subject, e.Bytes, e.BytesMax)
}

// InvalidError says that a message cannot travel over NATS. Nothing was inserted.
type InvalidError struct {
	Field   string // "subject", "header Name"
	Problem string
}

// Error returns one line.
func (e *InvalidError) Error() string { return "outbox: the " + e.Field + " " + e.Problem }

// newEntry checks a message and gives it its ids.
func newEntry(m Message, bytesMax int, now time.Time) (Entry, error) {
	if problem := subjectProblem(m.Subject); problem != "" {
		return Entry{}, &InvalidError{Field: "subject", Problem: problem}
	}
	if m.TTL < 0 {
		return Entry{}, &InvalidError{Field: "TTL", Problem: "is negative; use 0 for none"}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Entry{}, fmt.Errorf("outbox: make an id: %w", err)
	}
	header := withMessageID(m.Header, id.String())
	size := headerFrameBytes + len(m.Data)
	for name, values := range header {
		if problem := headerProblem(name, values); problem != "" {
			return Entry{}, &InvalidError{Field: fmt.Sprintf("header %+q", name), Problem: problem}
		}
		for _, v := range values {
			size += len(name) + len(v) + headerLineBytes
		}
	}
	if size > bytesMax {
		return Entry{}, &TooLargeError{Subject: m.Subject, Bytes: size, BytesMax: bytesMax}
	}
	e := Entry{id: id, msg: bus.Message{Subject: m.Subject, Header: header, Data: m.Data}, size: size + len(m.Subject)}
	if m.TTL > 0 {
		e.expiry = now.Add(m.TTL)
	}
	return e, nil
}

// withMessageID returns the header with a message id, the given one unless it has its own.
func withMessageID(header map[string][]string, id string) map[string][]string {
	if len(header[headerMsgID]) > 0 {
		return header
	}
	own := make(map[string][]string, len(header)+1)
	for name, values := range header {
		own[name] = values
	}
	own[headerMsgID] = []string{id}
	return own
}

func subjectProblem(s string) string {
	if s == "" || len(s) > SubjectBytesMax {
		return fmt.Sprintf("has %d bytes; use 1 to %d", len(s), SubjectBytesMax)
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '*' || c == '>' {
			return fmt.Sprintf("is %+q; use visible ASCII characters without * and >", s)
		}
	}
	if s[0] == '.' || s[len(s)-1] == '.' || strings.Contains(s, "..") {
		return fmt.Sprintf("is %+q; use tokens that are not empty", s)
	}
	return ""
}

func headerProblem(name string, values []string) string {
	if name == "" {
		return "has no name"
	}
	if name == headerStatus {
		return "is reserved: NATS clients take such a message for one of the server"
	}
	for i := range len(name) {
		c := name[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return "has a name that is not of letters, digits, '-' and '_'"
		}
	}
	for _, v := range values {
		for i := range len(v) {
			if v[i] < ' ' || v[i] > '~' {
				return "has a value that is not printable ASCII; encode it"
			}
		}
		if v != strings.TrimSpace(v) {
			return "has a value with spaces around it, which NATS removes"
		}
	}
	if name == headerMsgID && (len(values) != 1 || values[0] == "" || len(values[0]) > IDBytesMax) {
		return fmt.Sprintf("is not one value of 1 to %d bytes", IDBytesMax)
	}
	return ""
}

// headerText writes a header as the table holds it, its message id apart.
func headerText(header map[string][]string) (text, messageID string) {
	names := make([]string, 0, len(header))
	size := 0
	for name, values := range header {
		if name == headerMsgID {
			messageID = values[0]
			continue
		}
		names = append(names, name)
		for _, v := range values {
			size += len(name) + len(v) + len(": \n")
		}
	}
	slices.Sort(names)
	var b strings.Builder
	b.Grow(size)
	for _, name := range names {
		for _, v := range header[name] {
			b.WriteString(name)
			b.WriteString(": ")
			b.WriteString(v)
			b.WriteByte('\n')
		}
	}
	return b.String(), messageID
}

// parseHeader reads what headerText wrote. Lines that have another form, which another program may have
// inserted, are left out.
func parseHeader(text, messageID string) map[string][]string {
	header := make(map[string][]string, strings.Count(text, "\n")+1)
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		value = strings.TrimSpace(value)
		if ok && headerProblem(name, []string{value}) == "" {
			header[name] = append(header[name], value)
		}
	}
	header[headerMsgID] = []string{messageID}
	return header
}
