package api

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/saga"
)

// waitMax bounds how long a caller may ask to wait.
const waitMax = time.Minute

// single returns a header that may occur once. Some servers in between would take the first of several and
// some the last, so several are refused.
func (c *call) single(name string) (value string, present bool, err error) {
	values := c.r.Header.Values(name)
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
		return values[0], true, nil
	}
	return "", false, problemIn(codeDuplicateHeader, name, "send it once")
}

// readQuery reads the parameters that the route has, and refuses all others: a misspelt filter would select
// everything.
func (c *call) readQuery(rt *route) error {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return problemIn(codeInvalidQuery, "query", "use name=value pairs with & between them, percent-encoded")
	}
	c.query = make(map[string]string, len(values))
	for name, given := range values {
		if !rt.hasQuery(name) {
			return problemIn(codeInvalidQuery, "query", "has a parameter that this route does not have; it has: "+rt.queryNames())
		}
		if len(given) != 1 {
			return problemIn(codeInvalidQuery, name, "give it once")
		}
		c.query[name] = given[0]
	}
	return nil
}

// queryOneOf reads an optional parameter that has few values.
func (c *call) queryOneOf(name string, allowed []string) (string, error) {
	v, ok := c.query[name]
	if !ok {
		return "", nil
	}
	for _, a := range allowed {
		if a == v {
			return v, nil
		}
	}
	return "", problemIn(codeInvalidQuery, name, "use one of "+strings.Join(allowed, ", "))
}

// queryName reads an optional parameter that is a name (S1.7).
func (c *call) queryName(name string) (string, error) {
	v, ok := c.query[name]
	if !ok {
		return "", nil
	}
	if saga.CheckName(name, v) != nil {
		return "", problemIn(codeInvalidQuery, name, "use 1 to 64 letters, digits, '-' or '_', beginning with a letter or digit")
	}
	return v, nil
}

// queryText reads an optional parameter that is any short text.
func (c *call) queryText(name string) (string, error) {
	const bytesMax = 256
	v, ok := c.query[name]
	if ok && (v == "" || len(v) > bytesMax || !utf8.ValidString(v) || strings.ContainsRune(v, 0)) { // no text of the database holds that
		return "", problemIn(codeInvalidQuery, name, "use 1 to 256 bytes of text")
	}
	return v, nil
}

// queryLimit reads how many entries a page may have.
func (c *call) queryLimit() (int, error) {
	v, ok := c.query["limit"]
	if !ok {
		return limitDefault, nil
	}
	n, err := strconv.ParseUint(v, 10, 16)
	if err != nil || n < 1 || n > limitMax {
		return 0, problemIn(codeInvalidQuery, "limit", "use 1 to "+strconv.Itoa(limitMax))
	}
	return int(n), nil
}

const (
	limitDefault = 50
	limitMax     = 500
)

// A cursor is the id of the last entry of a page behind a byte that says which list it is of.
const (
	cursorTransactions byte = 't'
	cursorDeadLetters  byte = 'd'
	cursorGroups       byte = 'g'
	cursorAudit        byte = 'a'
	cursorJobs         byte = 'j'
	cursorJobItems     byte = 'i'
	cursorApprovals    byte = 'p'
	cursorTokens       byte = 'k'
)

func cursorOf(list byte, id [16]byte) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{list}, id[:]...))
}

func (c *call) queryCursor(list byte) (id [16]byte, err error) {
	v, ok := c.query["cursor"]
	if !ok {
		return id, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(v)
	if err != nil || len(b) != 1+len(id) || b[0] != list {
		return id, problemOf(codeInvalidCursor)
	}
	copy(id[:], b[1:])
	return id, nil
}

// queryWait reads how long to wait for the end of a transaction.
func (c *call) queryWait() (time.Duration, error) {
	v, ok := c.query["wait"]
	if !ok {
		return 0, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return 0, problemIn(codeInvalidQuery, "wait", "use a duration such as 5s; more than 60s counts as 60s")
	}
	return min(d, waitMax), nil
}

// preferences are what the Prefer headers ask for (RFC 7240).
type preferences struct {
	wait    time.Duration // for the end of the transaction
	minimal bool          // answer without the steps
}

// readPreferences reads the Prefer headers: of each preference the first one counts. What cannot be understood is ignored,
// as the RFC wants.
func readPreferences(r *http.Request) (p preferences) {
	seen := map[string]bool{}
	for _, line := range r.Header.Values("Prefer") {
		for _, preference := range splitUnquoted(line, ',') {
			name, value, _ := strings.Cut(splitUnquoted(preference, ';')[0], "=")
			name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
			if quoted, ok := strings.CutPrefix(value, `"`); ok {
				if value, ok = strings.CutSuffix(quoted, `"`); !ok {
					continue
				}
			}
			if seen[name] {
				continue
			}
			seen[name] = true
			switch name {
			case "wait":
				if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
					p.wait = min(time.Duration(seconds)*time.Second, waitMax)
				}
			case "return":
				p.minimal = strings.EqualFold(value, "minimal")
			}
		}
	}
	return p
}

// splitUnquoted splits a header's value where a separator stands outside of quoted strings.
func splitUnquoted(s string, separator byte) (parts []string) {
	begin, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case !quoted && s[i] == separator:
			parts = append(parts, s[begin:i])
			begin = i + 1
		}
	}
	return append(parts, s[begin:])
}

// applied says in the answer to a submission that was waited for what was done as preferred.
func (p preferences) applied(h http.Header) {
	applied := "wait=" + strconv.Itoa(int(p.wait/time.Second))
	if p.minimal {
		applied += ", return=minimal"
	}
	h.Set("Preference-Applied", applied)
}

// pathTransaction reads the transaction id of the path.
func (c *call) pathTransaction() (saga.ID, error) { return saga.ParseID(c.r.PathValue("id")) }

// pathUUID reads the id of the path. The problem names what it is the id of, such as "a job".
func (c *call) pathUUID(what string) (uuid.UUID, error) {
	s := c.r.PathValue("id")
	id, err := uuid.Parse(s)
	if err != nil || len(s) != 36 {
		return id, problemIn("invalid_id", "id", "use the id of "+what+": a UUID as 36 characters")
	}
	return id, nil
}

// ifMatch reads the version of the dead letter that the operator saw.
func (c *call) ifMatch() (int64, error) {
	v, present, err := c.single("If-Match")
	if err != nil {
		return 0, err
	}
	if !present {
		return 0, problemOf(codeNoIfMatch)
	}
	if strings.HasPrefix(v, "W/") {
		return 0, problemOf(codeStale) // a weak tag never matches (RFC 9110, section 13.1.1)
	}
	if len(v) < 3 || v[0] != '"' || v[len(v)-1] != '"' || strings.ContainsAny(v[1:len(v)-1], `", `) {
		return 0, problemOf(codeInvalidIfMatch)
	}
	n, err := strconv.ParseInt(v[1:len(v)-1], 10, 64)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != v[1:len(v)-1] { // tags are compared, not numbers
		return 0, problemOf(codeStale) // well-formed, and not a tag that any version has
	}
	return n, nil
}

// checkMediaType refuses bodies that say they are something else than plain JSON.
func (c *call) checkMediaType() error {
	v, present, err := c.single("Content-Type")
	if err != nil {
		return err
	}
	if present {
		mediaType, params, err := mime.ParseMediaType(v)
		if err != nil || mediaType != "application/json" || params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
			return problemOf(codeMediaType)
		}
	}
	for _, coding := range c.r.Header.Values("Content-Encoding") {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return problemOf(codeMediaType)
		}
	}
	return nil
}

// body reads the request's body, at most limit bytes of it. The bytes count as held until release.
func (c *call) body(limit int) ([]byte, error) {
	if err := c.checkMediaType(); err != nil {
		return nil, err
	}
	size := c.r.ContentLength
	if size > int64(limit) {
		c.w.Header().Set("Connection", "close") // reading the rest would cost more than a new connection
		return nil, tooLarge(limit)
	}
	if size < 0 {
		size = int64(limit)
	}
	c.held += size
	if c.h.bodyBytes.Add(size) > c.h.cfg.BodyBytesMax {
		return nil, coordinator.ErrOverloaded
	}
	buf := bytes.NewBuffer(make([]byte, 0, min(int(size), limit)+bytes.MinRead))
	_, err := buf.ReadFrom(http.MaxBytesReader(c.w, c.r.Body, int64(limit)))
	var over *http.MaxBytesError
	switch {
	case err == nil:
		return buf.Bytes(), nil
	case errors.As(err, &over):
		return nil, tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, problemOf(codeSlow)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, problemOf(codeIncomplete)
	}
	return nil, problemOf(codeIncomplete)
}

func tooLarge(limit int) error {
	return problemIn(saga.CodeTooLarge, "body", "send at most "+strconv.Itoa(limit)+" bytes; keep large data elsewhere and pass a reference")
}

// release gives the bytes of the body back. Calling it twice is safe.
func (c *call) release() {
	c.h.bodyBytes.Add(-c.held)
	c.held = 0
}
