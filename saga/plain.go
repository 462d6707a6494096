package saga

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Nearly every submission is plain: an object in UTF-8 that has each member once, under its very name. Its members are taken
// as they stand, in one pass over the bytes. Whatever is not plain is left to encoding/json, which reads it or says what is
// wrong with it.

// plainBody reads a plain submission. It reports false for any other, valid or not, and nothing of it then.
func plainBody(body []byte) (b submissionBody, ok bool) {
	seen := map[string]bool{}
	ok = plainMembers(body, func(name, value []byte) bool {
		if seen[string(name)] || value[0] == 'n' { // null
			return false
		}
		seen[string(name)] = true
		switch string(name) {
		case "definition":
			b.Definition = value
		case "input":
			b.Input = value
		case "inputs":
			b.Inputs = value
		case "inputs_base64":
			b.InputsBase64 = value
		case "id":
			return json.Unmarshal(value, &b.ID) == nil
		case "timeout":
			return json.Unmarshal(value, &b.Timeout) == nil
		case "deadline":
			return json.Unmarshal(value, &b.Deadline) == nil
		case "start_at":
			return json.Unmarshal(value, &b.StartAt) == nil
		default:
			return false
		}
		return true
	})
	if !ok {
		return submissionBody{}, false
	}
	return b, true
}

// plainMembers calls member with the name and the bytes of each member of a JSON object, in the order sent, until one is
// refused. It reports false then, and for what is not a JSON object in UTF-8 whose names have no escapes.
func plainMembers(data []byte, member func(name, value []byte) bool) bool {
	data = bytes.TrimLeft(data, jsonSpace)
	if len(data) == 0 || data[0] != '{' || !utf8.Valid(data) || !json.Valid(data) {
		return false
	}
	for rest := bytes.TrimLeft(data[1:], jsonSpace); rest[0] != '}'; { // it is valid: no index is out of range
		end := stringEnd(rest)
		name := rest[1 : end-1]
		rest = bytes.TrimLeft(rest[end:], jsonSpace)
		rest = bytes.TrimLeft(rest[1:], jsonSpace) // the colon
		end = valueEnd(rest)
		if bytes.IndexByte(name, '\\') >= 0 || !member(name, rest[:end:end]) {
			return false
		}
		rest = bytes.TrimLeft(rest[end:], jsonSpace)
		if rest[0] == ',' {
			rest = bytes.TrimLeft(rest[1:], jsonSpace)
		}
	}
	return true
}

const jsonSpace = " \t\r\n"

// stringEnd returns the length of the string that valid JSON begins with.
func stringEnd(data []byte) int {
	for i := 1; ; i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// valueEnd returns the length of the value that the rest of valid JSON begins with.
func valueEnd(data []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch data[i] {
		case '"':
			i += stringEnd(data[i:]) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			if depth > 0 || strings.IndexByte(jsonSpace+",}", data[i+1]) < 0 {
				continue
			}
		}
		if depth == 0 {
			return i + 1
		}
	}
}
