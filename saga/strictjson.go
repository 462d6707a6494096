package saga

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// UnmarshalStrict decodes one JSON value into v and refuses what encoding/json lets pass: members that v
// does not have, members given twice down to the given depth (1: those of the value itself), text after the
// value, and bytes that are not UTF-8. Members of type json.RawMessage keep their bytes as sent. The error
// is an *InvalidError whose field begins with name.
func UnmarshalStrict(data []byte, name string, depth int, v any) error {
	if !utf8.Valid(data) {
		return invalid("invalid_utf8", name, "has bytes that are not UTF-8", "send JSON in UTF-8 (RFC 8259)")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return jsonError(data, name, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return invalid("invalid_json", name, "has text after its end", "send a single JSON value")
	}
	return checkDuplicates(json.NewDecoder(bytes.NewReader(data)), name, depth)
}

// jsonError says what is wrong with data and where, in words that hold none of its values.
func jsonError(data []byte, name string, err error) error {
	var own *InvalidError
	var typ *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var instant *time.ParseError
	switch {
	case errors.As(err, &own):
		own.Field = name + ": " + own.Field
		return own
	case errors.As(err, &typ):
		at := strings.TrimSuffix(name+"."+typ.Field, ".")
		return invalid("invalid_json", at, "is "+article(typ.Value), "send "+jsonWant(typ))
	case errors.As(err, &syntax):
		return invalid("invalid_json", name, syntaxProblem(data, syntax), "send valid JSON")
	case errors.As(err, &instant):
		return invalid("invalid_json", name, "has a time that cannot be read", "send times as in RFC 3339, such as 2026-01-31T03:00:00Z")
	case len(bytes.TrimSpace(data)) == 0:
		return invalid("invalid_json", name, "is empty", "send valid JSON with the documented members")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return invalid("invalid_json", name, "ends too early, "+position(data, len(data)), "send all of it")
	}
	// encoding/json has no type for this error.
	if member, err := strconv.Unquote(strings.TrimPrefix(err.Error(), "json: unknown field ")); err == nil {
		return invalid("invalid_json", name, "has a member "+quoteShort(member)+", which is not known", "send the documented members only")
	}
	return invalid("invalid_json", name, "cannot be read", "send valid JSON with the documented members")
}

// syntaxProblem says where JSON stops being JSON, and what the reader was at, without the character that it found.
func syntaxProblem(data []byte, err *json.SyntaxError) string {
	text := "is not JSON " + position(data, int(err.Offset)-1)
	if _, was, ok := strings.Cut(err.Error(), "' "); ok {
		text += ", " + was
	}
	return text
}

// position names the place of the byte at an offset.
func position(data []byte, offset int) string {
	before := data[:max(0, min(offset, len(data)))]
	return fmt.Sprintf("at line %d, column %d", 1+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n'))
}

// article describes a value by its type: encoding/json adds a number's digits.
func article(value string) string {
	value, _, _ = strings.Cut(value, " ")
	if value == "array" || value == "object" {
		return "an " + value
	}
	return "a " + value
}

// jsonWant says in JSON's words what would have been right.
func jsonWant(err *json.UnmarshalTypeError) string {
	switch {
	case err.Type.String() == "saga.Duration":
		return `a string such as "250ms", "30s" or "2h"`
	case err.Type.Kind().String() == "int":
		return "a whole number"
	case err.Type.Kind().String() == "slice":
		return "an array"
	case err.Type.Kind().String() == "struct", err.Type.Kind().String() == "map":
		return "an object"
	}
	return "a " + err.Type.Kind().String()
}

// checkDuplicates reads the next value of dec, which is valid JSON, and refuses members given twice. Names
// that differ in case only count as the same, because encoding/json takes them for the same.
func checkDuplicates(dec *json.Decoder, at string, depth int) error {
	if depth < 1 { // nothing below is looked at: in a submission that is nearly all of it
		return dec.Decode(&skipped{})
	}
	token, _ := dec.Token()
	open, isOpen := token.(json.Delim)
	if !isOpen {
		return nil
	}
	seen := map[string]bool{}
	for i := 0; dec.More(); i++ {
		member := fmt.Sprintf("%s[%d]", at, i)
		if open == '{' {
			key, _ := dec.Token()
			member = memberPath(at, key.(string))
			folded := strings.Map(foldRune, key.(string))
			if seen[folded] {
				return invalid("duplicate_member", member, "is given twice", "give it once")
			}
			seen[folded] = true
		}
		if err := checkDuplicates(dec, member, depth-1); err != nil {
			return err
		}
	}
	_, _ = dec.Token() // the closing delimiter
	return nil
}

// skipped takes any JSON value and keeps nothing of it.
type skipped struct{}

// UnmarshalJSON does nothing: the decoder has found the value's end.
func (*skipped) UnmarshalJSON([]byte) error { return nil }

// memberPath names a member of an object; a name that is none of ours is quoted, for it is the user's (S1.7).
func memberPath(at, member string) string {
	if validName(member) {
		return at + "." + member
	}
	return at + "[" + quoteShort(member) + "]"
}

// foldRune returns the same rune for all that encoding/json takes for equal in a member's name: not only
// upper and lower case, also for example the long s.
func foldRune(r rune) rune {
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}

// Members splits a JSON object into its members, values verbatim, in the order sent. Members given twice
// are refused. The error is an *InvalidError whose field begins with name.
func Members(data []byte, name string) ([]Member, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return nil, invalid("invalid_json", name, "is not an object", `send {"name": value, …}`)
	}
	var members []Member
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, jsonError(data, name, err)
		}
		m := Member{Name: key.(string)}
		if slices.ContainsFunc(members, func(other Member) bool { return other.Name == m.Name }) {
			return nil, invalid("duplicate_member", memberPath(name, m.Name), "is given twice", "give it once")
		}
		if err := dec.Decode(&m.Value); err != nil {
			return nil, jsonError(data, name, err)
		}
		members = append(members, m)
	}
	if token, err := dec.Token(); err != nil || token != json.Delim('}') {
		return nil, invalid("invalid_json", name, "has no end", "send valid JSON")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, invalid("invalid_json", name, "has text after its end", "send a single JSON value")
	}
	return members, nil
}

// Member is one member of a JSON object; Value is its bytes as sent.
type Member struct {
	Name  string
	Value json.RawMessage
}
