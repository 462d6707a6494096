package saga

import "errors"

// What a submission may be answered instead of being begun.
var (
	// ErrKeyReused: the request key was used with other content (I2).
	ErrKeyReused = errors.New("the request id was used before with other content")
	// ErrIDTaken: the transaction id was used before by another submission.
	ErrIDTaken = errors.New("the transaction id is taken")
	// ErrPastRetention: it is from before what is remembered, so that nothing can be confirmed (I6). What was asked for is
	// not done a second time.
	ErrPastRetention = errors.New("past retention, cannot be confirmed")
)

// Request is what identifies a submission and what is stored of it for that (S1.2, S1.3).
type Request struct {
	Tenant        string
	Client        string
	RequestID     string // "" if it has no key
	Transaction   ID
	ContentSHA256 [32]byte
	Forgotten     bool // only that the key was used is known still (S1.3): Transaction and ContentSHA256 are zero
}

// Submitting is what a submission turns out to be.
type Submitting string

// What a submission turns out to be.
const (
	SubmittingNew      Submitting = "new"      // nothing is stored: it begins
	SubmittingReplayed Submitting = "replayed" // accepted before: it gets the stored answer (I2)
	SubmittingStored   Submitting = "stored"   // this very one, by a commit whose answer was lost: answered as new
)

// JudgeSubmission compares a submission with what is stored under its key or its transaction id; nil if nothing is.
// sent says that a commit of this very submission was tried before: what is found under its id may be its own.
//
// Errors: ErrKeyReused, ErrIDTaken, ErrPastRetention. They tell a client about its own submissions only, or that an id is not free
// (I-14).
func JudgeSubmission(stored *Request, incoming Request, sent bool) (Submitting, error) {
	switch {
	case stored == nil:
		return SubmittingNew, nil
	case stored.Tenant != incoming.Tenant || stored.Client != incoming.Client || stored.RequestID != incoming.RequestID:
		return "", ErrIDTaken
	case stored.Forgotten:
		return "", ErrPastRetention
	case stored.ContentSHA256 != incoming.ContentSHA256 && incoming.RequestID != "":
		return "", ErrKeyReused
	case stored.ContentSHA256 != incoming.ContentSHA256:
		return "", ErrIDTaken
	case sent && stored.Transaction == incoming.Transaction:
		return SubmittingStored, nil
	}
	return SubmittingReplayed, nil
}
