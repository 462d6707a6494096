package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/token"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/fault"
	"github.com/sagacity-tx/sagacity/internal/fault/pgfault"
	"github.com/sagacity-tx/sagacity/saga"
)

// problemPath is where the API itself serves what problem types mean.
const problemPath = "/problems/"

// Problem is an error as the API answers it (RFC 9457). Nothing in it is a value of the request.
//
//nolint:errname // RFC 9457 calls it a problem
type Problem struct {
	Type   string `json:"type" format:"uri-reference" doc:"where the code is explained"`
	Title  string `json:"title" doc:"what is wrong, always the same for a code"`
	Status int    `json:"status" doc:"the HTTP status"`
	Detail string `json:"detail" doc:"what to do, for people"`
	Code   string `json:"code" doc:"stable, for programs"`
	Field  string `json:"field,omitempty" doc:"what is wrong, as a path; names that the caller made up are written as *"`
	State  string `json:"state,omitempty" doc:"the transaction's status, if it does not allow the action"`

	HTTPRequest string `json:"http_request" doc:"the X-Request-Id, which finds it in the logs"`

	retrySeconds int
}

// Error returns code and detail, for the log.
func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// problemOf makes the problem of a code.
func problemOf(code string) *Problem {
	info := infoOf(code)
	return &Problem{Title: info.title, Status: info.status, Detail: info.advice, Code: code, retrySeconds: info.retrySeconds}
}

// problemIn makes the problem of a code about one field of the request, with what to do about it.
func problemIn(code, field, fix string) *Problem {
	p := problemOf(code)
	p.Field = field
	if fix != "" {
		p.Detail = field + ": " + fix
	}
	return p
}

// translate turns an error of the layers below into what the caller is told.
func translate(err error) *Problem {
	var problem *Problem
	var invalid *saga.InvalidError
	var state *saga.StateError
	var rate *coordinator.RateError
	switch {
	case errors.As(err, &problem):
		return problem
	case errors.As(err, &invalid):
		return invalidProblem(invalid)
	case errors.As(err, &state):
		return stateProblem(state)
	case errors.As(err, &rate):
		p := problemOf(codeRateLimited)
		p.retrySeconds = max(1, int(math.Ceil(rate.RetryAfter.Seconds())))
		return p
	}
	for _, known := range []struct {
		err  error
		code string
	}{
		{ErrUnauthenticated, codeUnauthenticated},
		{ErrForbidden, codeForbidden},
		{coordinator.ErrNotFound, codeNotFound},
		{dlq.ErrNotFound, codeNotFound},
		{dlq.ErrNoApproval, codeNotFound},
		{token.ErrNotFound, codeNotFound},
		{coordinator.ErrKeyReused, codeKeyReused},
		{coordinator.ErrIDTaken, codeIDTaken},
		{coordinator.ErrPastRetention, codePastRetention},
		{coordinator.ErrOverloaded, codeOverloaded},
		{coordinator.ErrOutcomeUnknown, codeOutcomeUnknown},
		{coordinator.ErrStale, codeStale},
		{coordinator.ErrDefinitionTaken, codeDefinitionTaken},
		{dlq.ErrTooManyNotes, codeTooManyNotes},
		{dlq.ErrNoJob, codeNotFound},
		{dlq.ErrNothingSelected, codeNothingSelected},
		{dlq.ErrTooManySelected, codeTooManySelected},
		{saga.ErrPlanChanged, codePlanChanged},
	} {
		if errors.Is(err, known.err) {
			return problemOf(known.code)
		}
	}
	if unreachable(err) {
		return problemOf(codeUnavailable)
	}
	return problemOf(codeInternal)
}

// invalidProblem says of JSON that cannot be read also what is wrong with it and where; no value is in that.
func invalidProblem(err *saga.InvalidError) *Problem {
	p := problemIn(err.Code, safeField(err.Field), err.Fix)
	if err.Code == "invalid_json" {
		p.Detail = fmt.Sprintf("%s %s; %s", p.Field, err.Problem, err.Fix)
	}
	return p
}

func stateProblem(err *saga.StateError) *Problem {
	code := err.Code
	if info, known := codes[code]; !known || info.status != http.StatusConflict {
		code = saga.CodeIllegal
	}
	p := problemOf(code)
	p.State = string(err.Status)
	if code == saga.CodeJobState {
		p.Detail = err.Error() + ". " + p.Detail
	}
	return p
}

// unreachable reports whether an error means that the database did not answer, or could not go on: it may pass.
func unreachable(err error) bool {
	switch pgfault.CauseOf(err) {
	case fault.Busy, fault.Exhausted, fault.Unavailable, fault.Aborted, fault.Lost, fault.Silent, fault.Ended:
		return true
	default:
		return false
	}
}

// fieldWords are the names that paths of fields are made of. All others come from the caller.
var fieldWords = func() map[string]bool {
	words := map[string]bool{}
	for _, w := range strings.Fields(`submission definition input inputs inputs_base64 timeout deadline start_at id
		name version on_exhausted steps kind participant action after attempt_timeout retry strategy base cap
		max_attempts phase_two_attempts type data request transaction duration reason cancel replay discard resolve drain body
		pause resume scope note job selection fingerprint cause canary rate plan_sha256 approve revoke approval break_glass expires_in
		webhook delete test url secret kinds webhooks
		token tenant client actor roles`) {
		words[w] = true
	}
	return words
}()

// safeField keeps the known words and indexes of a path, and writes * for the rest.
func safeField(field string) string {
	var b strings.Builder
	last := byte(0)
	isWord := func(r rune) bool { return !strings.ContainsRune(".[]: ", r) }
	for len(field) > 0 {
		n := strings.IndexFunc(field, func(r rune) bool { return !isWord(r) })
		if n == 0 {
			b.WriteByte(field[0])
			last, field = field[0], field[1:]
			continue
		}
		if n < 0 {
			n = len(field)
		}
		word := field[:n]
		field = field[n:]
		_, err := strconv.ParseUint(word, 10, 16)
		if !fieldWords[word] && (err != nil || last != '[') {
			word = "*"
		}
		b.WriteString(word)
	}
	return b.String()
}

// writeProblem answers with a problem.
func (c *call) writeProblem(p *Problem) {
	out := *p
	out.Type = c.h.cfg.ProblemBase + p.Code
	out.HTTPRequest = c.requestID
	header := c.w.Header()
	if p.Status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", "Bearer")
	}
	if p.retrySeconds > 0 {
		header.Set("Retry-After", strconv.Itoa(p.retrySeconds))
	}
	body, err := json.Marshal(out)
	if err != nil {
		c.log.Error("a problem cannot be encoded", "error", err)
	}
	header.Set("Content-Type", "application/problem+json")
	c.w.WriteHeader(p.Status)
	_, _ = c.w.Write(body) // a caller that has gone needs no answer
}

// explain answers what a code means: where a problem's type points.
func (h *Handler) explain(c *call) error {
	info, ok := codes[c.r.PathValue("code")]
	if !ok {
		return problemOf(codeNotFound)
	}
	c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	c.w.WriteHeader(http.StatusOK)
	_, _ = fmt.Fprintf(c.w, "%s (HTTP %d)\n\n%s\n\n%s\n", c.r.PathValue("code"), info.status, info.title, info.advice)
	return nil
}
