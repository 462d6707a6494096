package saga

import "time"

// Limits on everything that a user sends (S1.4, S1.7). They are chosen so that every later command of an
// accepted transaction fits into one message.
const (
	NameBytesMax       = 64
	RequestIDBytesMax  = 255
	StepsMax           = 128
	AfterMax           = 8
	InputBytesMax      = 128 << 10 // one step's input
	ResultBytesMax     = 64 << 10  // one step's result
	SubmissionBytesMax = 1 << 20   // a whole submission, its definition and all inputs together
	ReasonBytesMax     = 1024      // a refusal's or error's text; longer text is cut
	CodeBytesMax       = 64
	AttemptsMax        = 10_000
	AttemptTimeoutMin  = 10 * time.Millisecond
	AttemptTimeoutMax  = time.Hour
	BackoffMax         = 24 * time.Hour
	TimeoutMin         = 10 * time.Millisecond
	TimeoutMax         = 30 * 24 * time.Hour // from the submission to the deadline
	StartDelayMax      = 30 * 24 * time.Hour // from the submission to a delayed start
)

// Defaults of a definition's policies.
const (
	DefaultTimeout        = 24 * time.Hour
	DefaultAttemptTimeout = 10 * time.Second
	DefaultTryAttempts    = 10
	DefaultPhaseTwoTries  = 30
	DefaultBackoffBase    = 200 * time.Millisecond
	DefaultBackoffCap     = time.Minute
)
