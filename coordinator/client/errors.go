package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/sagacity-tx/sagacity/internal/fault"
)

// Codes of problems that programs tell apart most often; docs/api.md lists all.
const (
	CodeKeyReused       = "key_reused"       // the request id was used before with other content
	CodeIDTaken         = "id_taken"         // the transaction id was used before
	CodePastRetention   = "past_retention"   // too old to be confirmed; it is not done again
	CodeNotFound        = "not_found"        // no such thing, or it belongs to somebody else
	CodeNotCancellable  = "not_cancellable"  // too late to cancel
	CodeStale           = "stale"            // the dead letter or transaction has changed since it was read
	CodeDefinitionTaken = "definition_taken" // another definition has that name and version
	CodeOverloaded      = "overloaded"       // nothing was done
	CodeOutcomeUnknown  = "outcome_unknown"  // it may have happened
)

// Problem is an error that the coordinator answered (RFC 9457).
//
//nolint:errname // RFC 9457 calls it a problem
type Problem struct {
	Status      int           `json:"status"` // of HTTP
	Code        string        `json:"code"`   // stable; "" if the answer is not the coordinator's, as of a proxy
	Title       string        `json:"title"`
	Detail      string        `json:"detail"` // what to do
	Field       string        `json:"field"`
	State       string        `json:"state"` // the transaction's status, if it does not allow the action
	Type        string        `json:"type"`
	HTTPRequest string        `json:"http_request"` // finds it in the coordinator's log
	RetryAfter  time.Duration `json:"-"`            // zero if the coordinator did not say
}

// Error returns one line.
func (p *Problem) Error() string {
	if p.Code == "" {
		return fmt.Sprintf("sagacity: HTTP %d %s", p.Status, http.StatusText(p.Status))
	}
	return fmt.Sprintf("sagacity: %s (HTTP %d): %s %s", p.Code, p.Status, p.Title, p.Detail)
}

// class returns what the answer means for the request that it answers. Nothing above 500 is a proof here: the
// coordinator answers 503 when it does not know either (CodeOutcomeUnknown).
func (p *Problem) class() fault.Class {
	if p.Status >= http.StatusInternalServerError {
		return fault.Unknown
	}
	return fault.HTTP(p.Status).Class(fault.Sent)
}

// problemOf reads a problem; what is not one becomes a Problem without a code.
func problemOf(a answer) *Problem {
	var p Problem
	if json.Unmarshal(a.body, &p) != nil {
		p = Problem{}
	}
	p.Status = a.status
	p.RetryAfter = retryAfterOf(a.header)
	return &p
}

// UnknownError says that no answer came, or none that settles it: the request may have had its effect. It is
// never a failure.
type UnknownError struct {
	RequestID string // of a submission: submit again with it, or look with FindByRequest
	Err       error  // what happened last
}

// Error returns one line.
func (e *UnknownError) Error() string {
	if e.RequestID != "" {
		return fmt.Sprintf("sagacity: the outcome of request %q is not known: %v", e.RequestID, e.Err)
	}
	return fmt.Sprintf("sagacity: the outcome is not known: %v", e.Err)
}

// Unwrap returns what happened last.
func (e *UnknownError) Unwrap() error { return e.Err }
