package wire

import "github.com/sagacity-tx/sagacity/saga"

// Header holds a message's headers. Names are case-sensitive, as in NATS; it converts to nats.Header.
type Header = map[string][]string

// Message is a message as the transport carries it.
type Message struct {
	Subject string
	Header  Header
	Data    []byte
}

// The headers of commands and replies. docs/protocol.md says when each is present.
const (
	HeaderVerb          = "Saga-Verb"
	HeaderTenant        = "Saga-Tenant"
	HeaderTransaction   = "Saga-Transaction"
	HeaderStep          = "Saga-Step"
	HeaderPhase         = "Saga-Phase"
	HeaderStepKind      = "Saga-Step-Kind"
	HeaderParticipant   = "Saga-Participant"
	HeaderAction        = "Saga-Action"
	HeaderAttempt       = "Saga-Attempt"
	HeaderRevision      = "Saga-Revision"
	HeaderContentSHA256 = "Saga-Content-Sha256"
	HeaderDeadline      = "Saga-Deadline"
	HeaderFloor         = "Saga-Floor"
	HeaderReplyTo       = "Saga-Reply-To"
	HeaderOutcome       = "Saga-Outcome"
	HeaderCode          = "Saga-Code"
	HeaderReason        = "Saga-Reason"
	HeaderState         = "Saga-State"
	HeaderRetryAfter    = "Saga-Retry-After"
	HeaderReplayed      = "Saga-Replayed"
	HeaderSignature     = "Saga-Signature" // reserved, see Canonical
	HeaderContentType   = "Content-Type"
	HeaderTraceparent   = "traceparent"
	HeaderTracestate    = "tracestate"
	HeaderMsgID         = "Nats-Msg-Id"
	HeaderTTL           = "Nats-TTL"
)

// Limits of messages, beside those of package saga.
const (
	HeaderValueBytesMax = 4 << 10           // one value, as it travels
	HeadersBytesMax     = 8 << 10           // all headers that this package writes, names included
	BodyBytesMax        = 1<<20 - 8<<10     // so that headers and body fit the default max_payload of NATS, 1 MiB
	ContentTypeBytesMax = 255               // of a result
	NumberMax           = 1<<31 - 1         // an attempt's or revision's number
	PrefixBytesMax      = saga.NameBytesMax // a subject prefix
	ShardsMax           = 1024              // reply shards
	traceparentBytesMax = 128               // 55 today; later versions of the W3C format may be longer
	tracestateBytesMax  = 512               // what W3C Trace Context asks everyone to carry
)

// ContentTypeJSON is the Content-Type of commands and of results whose Payload.Type is empty.
const ContentTypeJSON = "application/json"

// What an error's Header says when the problem is not in a header.
const (
	PartSubject = "subject"
	PartBody    = "body"
)

// DecodeError says why a message is not a command, a reply or a body. Such a message goes to the dead letters
// (C5) or is answered with the fault undecodable.
type DecodeError struct {
	Header  string // the header's name, or PartSubject or PartBody
	Problem string // safe for logs and terminals: what came is quoted and short
}

// Error returns one line: header, problem.
func (e *DecodeError) Error() string { return "undecodable message: " + e.Header + " " + e.Problem }

// EncodeError says why a command or reply cannot be sent: a mistake of the caller. Nothing was sent.
type EncodeError struct {
	Header  string // as in DecodeError
	Problem string
}

// Error returns one line: header, problem.
func (e *EncodeError) Error() string { return "cannot encode message: " + e.Header + " " + e.Problem }

// The values of the enumerations, as they travel.
var (
	verbs    = []saga.Verb{saga.VerbExecute, saga.VerbInquire, saga.VerbReserve}
	phases   = []saga.Phase{saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel}
	kinds    = []saga.Kind{saga.KindSaga, saga.KindTCC, saga.KindPivot, saga.KindRetriable}
	outcomes = []saga.Outcome{
		saga.OutcomeDone, saga.OutcomeRefused, saga.OutcomeRetry, saga.OutcomeInProgress, saga.OutcomeUnknown,
		saga.OutcomeHanging, saga.OutcomeFault, saga.OutcomeState, saga.OutcomeReserved,
	}
	// A tombstone travels as cancelled (S2.11).
	states = []saga.BarrierState{
		saga.BarrierAbsent, saga.BarrierTrying, saga.BarrierTried, saga.BarrierRefused, saga.BarrierConfirmed,
		saga.BarrierCancelled, saga.BarrierPastRetention,
	}
)
