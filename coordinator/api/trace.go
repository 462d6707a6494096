package api

import (
	"net/http"
	"strings"
)

// W3C Trace Context. What is not valid is dropped and refused by nobody: tracing must not stop a transaction.

const tracestateBytesMax = 512

// traceparentOf returns the request's traceparent if it is valid, else "".
func traceparentOf(r *http.Request) string {
	values := r.Header.Values("Traceparent")
	if len(values) != 1 {
		return ""
	}
	v := values[0]
	if len(v) < 55 || v[2] != '-' || v[35] != '-' || v[52] != '-' ||
		!lowerHex(v[0:2]) || !lowerHex(v[3:35]) || !lowerHex(v[36:52]) || !lowerHex(v[53:55]) {
		return ""
	}
	version, traceID, parentID := v[0:2], v[3:35], v[36:52]
	if version == "ff" || strings.Trim(traceID, "0") == "" || strings.Trim(parentID, "0") == "" {
		return ""
	}
	if len(v) > 55 && (version == "00" || v[55] != '-') {
		return ""
	}
	return "00" + v[2:55] // a later version is passed on as the one that is understood here
}

// tracestateOf returns the request's tracestate, lines joined, if it can travel as it is, else "".
func tracestateOf(r *http.Request) string {
	v := strings.Join(r.Header.Values("Tracestate"), ",")
	if len(v) > tracestateBytesMax {
		return ""
	}
	for i := range len(v) {
		if v[i] < ' ' || v[i] >= 0x7f {
			return ""
		}
	}
	return strings.TrimSpace(v)
}

func lowerHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
