package wire

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/sagacity-tx/sagacity/saga"
)

// Subjects are prefix.kind.names. A prefix is one or more tokens; the names are single tokens, because names
// have no dots (S1.7). Ids travel in headers, never in subjects.

// CommandSubject returns where a participant's commands go: prefix.cmd.participant. Like all builders of
// subjects it takes valid names only (saga.CheckName, CheckPrefix).
func CommandSubject(prefix, participant string) string { return prefix + ".cmd." + participant }

// ReplySubject returns where a participant's replies go: prefix.reply.participant.shard. The participant is
// in the subject so that permissions can keep others out.
func ReplySubject(prefix, participant string, shard int) string {
	return prefix + ".reply." + participant + "." + strconv.Itoa(shard)
}

// SubmitSubject returns where a tenant's services submit transactions: prefix.submit.tenant.
func SubmitSubject(prefix, tenant string) string { return prefix + ".submit." + tenant }

// EventSubject returns where a definition's lifecycle events go: prefix.event.tenant.definition.
func EventSubject(prefix, tenant, definition string) string {
	return prefix + ".event." + tenant + "." + definition
}

// ParseCommandSubject takes a command subject apart; anything else is a *DecodeError.
func ParseCommandSubject(subject string) (prefix, participant string, err error) {
	prefix, participant, err = parseOne(subject, ".cmd")
	return prefix, participant, err
}

// ParseSubmitSubject takes a submit subject apart; anything else is a *DecodeError.
func ParseSubmitSubject(subject string) (prefix, tenant string, err error) {
	return parseOne(subject, ".submit")
}

// ParseReplySubject takes a reply subject apart; anything else is a *DecodeError.
func ParseReplySubject(subject string) (prefix, participant string, shard int, err error) {
	rest, number := cutLast(subject)
	shard, ok := parseNumber(number, 0, ShardsMax-1)
	if !ok {
		return "", "", 0, notSubject(subject, "prefix.reply.participant.shard")
	}
	prefix, participant, err = parseOne(rest, ".reply")
	if err != nil {
		return "", "", 0, notSubject(subject, "prefix.reply.participant.shard")
	}
	return prefix, participant, shard, nil
}

// ParseEventSubject takes an event subject apart; anything else is a *DecodeError.
func ParseEventSubject(subject string) (prefix, tenant, definition string, err error) {
	rest, definition := cutLast(subject)
	prefix, tenant, err = parseOne(rest, ".event")
	if err != nil || saga.CheckName("", definition) != nil {
		return "", "", "", notSubject(subject, "prefix.event.tenant.definition")
	}
	return prefix, tenant, definition, nil
}

// CheckPrefix returns an *saga.InvalidError unless the prefix is usable in subjects: tokens of letters,
// digits, '-' and '_' with dots between them.
func CheckPrefix(prefix string) error {
	if validPrefix(prefix) {
		return nil
	}
	return &saga.InvalidError{
		Code: "invalid_prefix", Field: "subject prefix", Problem: "is " + quote(prefix),
		Fix: "use letters, digits, '-' and '_', with single dots between tokens, 64 bytes at most",
	}
}

// Shard returns the shard, from 0 to n-1, of a transaction where replies are spread by transaction. The coordinator spreads
// them by who sent the command.
func Shard(id saga.ID, n int) int {
	if n <= 1 {
		return 0
	}
	// The last four bytes of a UUIDv7 are random; the first ones are the time.
	return int(uint64(binary.BigEndian.Uint32(id[12:])) % uint64(n))
}

func parseOne(subject, kind string) (prefix, name string, err error) {
	rest, name := cutLast(subject)
	prefix, ok := strings.CutSuffix(rest, kind)
	if !ok || !validPrefix(prefix) || saga.CheckName("", name) != nil {
		return "", "", notSubject(subject, "prefix"+kind+".name")
	}
	return prefix, name, nil
}

// cutLast splits off the last token.
func cutLast(subject string) (rest, token string) {
	i := strings.LastIndexByte(subject, '.')
	if i < 0 {
		return "", subject
	}
	return subject[:i], subject[i+1:]
}

func validPrefix(prefix string) bool {
	if len(prefix) > PrefixBytesMax {
		return false
	}
	empty := true // the present token
	for i := range len(prefix) {
		c := prefix[i]
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_':
			empty = false
		case c == '.' && !empty:
			empty = true
		default:
			return false
		}
	}
	return !empty
}

func notSubject(subject, form string) error {
	return &DecodeError{Header: PartSubject, Problem: fmt.Sprintf("is %s, not of the form %s", quote(subject), form)}
}
