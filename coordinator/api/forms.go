package api

import (
	"encoding/json"
	"time"
)

// The forms of answers. Times are RFC 3339 in UTC; members without a value are absent. Later versions add
// members and change none.

// Links lead on from an answer.
type Links map[string]string

// Accepted is the stored answer to a submission.
type Accepted struct {
	ID    string `json:"id" format:"uuid" doc:"the transaction"`
	Links Links  `json:"links" doc:"self, cancel"`
}

// Transaction is a transaction.
type Transaction struct {
	ID          string        `json:"id" format:"uuid"`
	Version     int64         `json:"version" doc:"rises with every change"`
	Status      string        `json:"status" enum:"accepted,running,confirming,cancelling,committed,cancelled,resolved"`
	Result      string        `json:"result" enum:"accepted,running,succeeded,failed,unknown" doc:"what a client may rely on: failed means that no effect remains, unknown that there is no proof either way"`
	Suspended   bool          `json:"suspended" doc:"waits for a person"`
	Tenant      string        `json:"tenant"`
	Client      string        `json:"client"`
	RequestID   string        `json:"request_id,omitempty" doc:"its Idempotency-Key"`
	Definition  DefinitionRef `json:"definition"`
	Cause       *Cause        `json:"cause,omitempty" doc:"why it was or may be cancelled"`
	CreatedAt   time.Time     `json:"created_at"`
	StartAt     time.Time     `json:"start_at,omitzero" doc:"of a delayed start"`
	Deadline    time.Time     `json:"deadline,omitzero" doc:"when going forward must end"`
	DecidedAt   time.Time     `json:"decided_at,omitzero"`
	FinishedAt  time.Time     `json:"finished_at,omitzero"`
	WakeAt      time.Time     `json:"wake_at,omitzero" doc:"when something may be due"`
	Traceparent string        `json:"traceparent,omitempty" doc:"W3C Trace Context of its submission"`
	Steps       []Step        `json:"steps,omitempty" doc:"absent in lists"`
	Links       Links         `json:"links" doc:"self, attempts; cancel until it has ended"`
}

// DefinitionRef names a definition.
type DefinitionRef struct {
	Name    string `json:"name"`
	Version int    `json:"version,omitempty" doc:"absent in lists"`
}

// Cause is why a transaction was cancelled.
type Cause struct {
	Why    string `json:"why" enum:"refused,deadline,client,exhausted"`
	Step   string `json:"step,omitempty"`
	Code   string `json:"code,omitempty" doc:"the participant's"`
	Reason string `json:"reason,omitempty" doc:"text for people"`
}

// Step is one step of a transaction.
type Step struct {
	Name        string      `json:"name"`
	Kind        string      `json:"kind" enum:"saga,tcc,pivot,retriable"`
	Participant string      `json:"participant"`
	Action      string      `json:"action"`
	After       []string    `json:"after" nullable:"false"`
	Operations  []Operation `json:"operations" nullable:"false" doc:"those that were sent: the try, then what settles it"`
}

// Operation is one phase of a step.
type Operation struct {
	Phase         string          `json:"phase" enum:"try,confirm,cancel"`
	State         string          `json:"state" enum:"sent,waiting,held,dead,done,refused,hanging,given_up,closed"`
	Wait          string          `json:"wait,omitempty" doc:"what a waiting one waits for: backoff, lease, budget, breaker, limit, ceiling, pause"`
	Replaying     bool            `json:"replaying,omitempty" doc:"an operator's replay is in flight"`
	Attempt       int             `json:"attempt" doc:"the last one sent"`
	Counted       int             `json:"counted" doc:"attempts that count towards exhaustion"`
	Revision      int             `json:"revision"`
	ContentSHA256 string          `json:"content_sha256"`
	SentAt        time.Time       `json:"sent_at,omitzero"`
	NextAt        time.Time       `json:"next_at,omitzero" doc:"sent: when the attempt times out; waiting: when the next is due"`
	Outcome       string          `json:"outcome,omitempty" doc:"of the last attempt that ended"`
	Code          string          `json:"code,omitempty"`
	Reason        string          `json:"reason,omitempty"`
	Result        json.RawMessage `json:"result,omitempty" doc:"of a done try: the participant's JSON, byte for byte"`
	ResultBase64  *Bytes          `json:"result_base64,omitempty" doc:"instead of result: of another type than JSON"`
}

// Bytes is a value that is not JSON.
type Bytes struct {
	Type string `json:"type,omitempty" doc:"media type"`
	Data []byte `json:"data" doc:"standard base64"`
}

// Transactions is a page of transactions, the newest first.
type Transactions struct {
	Transactions []Transaction `json:"transactions" nullable:"false"`
	NextCursor   string        `json:"next_cursor,omitempty" doc:"of the next page; absent on the last"`
}

// Attempt is one that ended without settling its operation.
type Attempt struct {
	Step    string    `json:"step"`
	Phase   string    `json:"phase" enum:"try,confirm,cancel"`
	Attempt int       `json:"attempt"`
	SentAt  time.Time `json:"sent_at,omitzero"`
	EndedAt time.Time `json:"ended_at"`
	Outcome string    `json:"outcome" doc:"unknown for one that timed out"`
	Code    string    `json:"code,omitempty"`
	Reason  string    `json:"reason,omitempty"`
}

// Attempts lists attempts, the oldest first, at most 1,000.
type Attempts struct {
	Attempts []Attempt `json:"attempts" nullable:"false"`
	Links    Links     `json:"links" doc:"transaction"`
}

// DeadLetter is an operation or message that was set aside.
type DeadLetter struct {
	ID            string    `json:"id" format:"uuid"`
	Kind          string    `json:"kind" enum:"operation,message"`
	Status        string    `json:"status" enum:"open,replaying,closed,obsolete,discarded"`
	Version       int64     `json:"version" doc:"the ETag"`
	Cause         string    `json:"cause" doc:"exhausted, panic, unknown or the code of a fault"`
	Outcome       string    `json:"outcome,omitempty"`
	Reason        string    `json:"reason,omitempty"`
	Fingerprint   string    `json:"fingerprint" doc:"equal causes have equal ones"`
	Tenant        string    `json:"tenant,omitempty"`
	TransactionID string    `json:"transaction_id,omitempty" format:"uuid"`
	Step          string    `json:"step,omitempty"`
	Phase         string    `json:"phase,omitempty"`
	Participant   string    `json:"participant,omitempty"`
	Action        string    `json:"action,omitempty"`
	Attempt       int       `json:"attempt,omitempty"`
	Revision      int       `json:"revision,omitempty"`
	ContentSHA256 string    `json:"content_sha256,omitempty"`
	Traceparent   string    `json:"traceparent,omitempty"`
	BuriedCount   int       `json:"buried_count" doc:"how often it was set aside"`
	BuriedAt      time.Time `json:"buried_at" doc:"the first time"`
	UpdatedAt     time.Time `json:"updated_at"`
	Links         Links     `json:"links" doc:"self, transaction; replay, inquire and discard while it is open"`
}

// DeadLetters is a page of dead letters, the newest first.
type DeadLetters struct {
	DeadLetters []DeadLetter `json:"dead_letters" nullable:"false"`
	NextCursor  string       `json:"next_cursor,omitempty" doc:"of the next page; absent on the last"`
}

// DeadLetterDetail is a dead letter with the history of its operation.
type DeadLetterDetail struct {
	DeadLetter
	Message     Message      `json:"message" doc:"the command as it was sent last, or the message that nobody understood"`
	Edit        *Edit        `json:"edit,omitempty" doc:"what a replay sends instead; absent: nothing is edited"`
	Attempts    []Attempt    `json:"attempts" nullable:"false"`
	Transaction *Transaction `json:"transaction,omitempty"`
	Audit       []AuditEntry `json:"audit" nullable:"false" doc:"the newest first"`
	Inquiry     *Inquiry     `json:"inquiry,omitempty" doc:"what the participant was asked last, at most a day ago"`
	Replay      Prediction   `json:"replay" doc:"what a replay would do now"`
}

// Message is a message of NATS.
type Message struct {
	Subject    string              `json:"subject"`
	Headers    map[string][]string `json:"headers"`
	BodyBase64 []byte              `json:"body_base64" doc:"the exact bytes"`
	BodyText   *string             `json:"body_text,omitempty" doc:"the same as text, if it is UTF-8"`
}

// AuditEntry is what an operator did or was not allowed to do.
type AuditEntry struct {
	ID      string    `json:"id" format:"uuid"`
	At      time.Time `json:"at"`
	Tenant  string    `json:"tenant,omitempty" doc:"whose the object is"`
	Actor   string    `json:"actor"`
	Action  string    `json:"action"`
	Object  string    `json:"object"`
	Allowed bool      `json:"allowed"`
	Reason  string    `json:"reason,omitempty" doc:"why the operator did it"`
	Detail  string    `json:"detail,omitempty" doc:"why it was refused; of a discard or resolve: the operations whose effect is not known"`
}

// Replaying is the answer to a replay: it was sent, and its outcome comes later.
type Replaying struct {
	ID    string `json:"id" format:"uuid"`
	Links Links  `json:"links" doc:"self"`
}

// Discarded is the answer to a discard.
type Discarded struct {
	ID          string       `json:"id" format:"uuid"`
	Transaction *Transaction `json:"transaction,omitempty" doc:"as it is after that; absent for a message"`
	Links       Links        `json:"links" doc:"self, transaction"`
}

// Definition is a registered definition.
type Definition struct {
	Name       string          `json:"name"`
	Version    int             `json:"version"`
	State      string          `json:"state" enum:"active,draining" doc:"draining: it takes no new transactions"`
	SHA256     string          `json:"sha256" doc:"of its canonical form"`
	CreatedAt  time.Time       `json:"created_at"`
	Definition json.RawMessage `json:"definition,omitempty" doc:"in its canonical form, defaults written out; absent in lists"`
	Links      Links           `json:"links" doc:"self; drain while it is active"`
}

// Definitions lists registered definitions by name, the newest version first, at most 1,000.
type Definitions struct {
	Definitions []Definition `json:"definitions" nullable:"false"`
}

// DefinitionForm is the body that registers a definition.
type DefinitionForm struct {
	Name        string `json:"name"`
	Version     int    `json:"version,omitempty" doc:"absent: 1"`
	Timeout     string `json:"timeout,omitempty"`
	OnExhausted string `json:"on_exhausted,omitempty" enum:"cancel,dead_letter"`
	Steps       []any  `json:"steps" nullable:"false"`
}

// Health is the answer of /healthz and /readyz.
type Health struct {
	Status string `json:"status" enum:"ok,ready"`
}

// The forms of requests, for the document: submissions are read by package saga, byte for byte.

// SubmissionForm is the body of a submission.
type SubmissionForm struct {
	Definition   any              `json:"definition" doc:"an object: name, version, timeout, on_exhausted and steps; or the name of a registered definition: transfer, transfer@2"`
	ID           string           `json:"id,omitempty" format:"uuid" doc:"a version 7 UUID made now; absent: the coordinator makes one"`
	Input        any              `json:"input,omitempty" doc:"any JSON, for every step that has none of its own"`
	Inputs       map[string]any   `json:"inputs,omitempty" doc:"by step, any JSON"`
	InputsBase64 map[string]Bytes `json:"inputs_base64,omitempty" doc:"by step, other content"`
	Timeout      string           `json:"timeout,omitempty" doc:"from now to the deadline, such as 30s; absent: the definition's"`
	Deadline     time.Time        `json:"deadline,omitzero" doc:"instead of timeout"`
	StartAt      time.Time        `json:"start_at,omitzero" doc:"of a delayed start"`
}

// ReasonForm is the body of an action.
type ReasonForm struct {
	Reason string `json:"reason,omitempty" maxLength:"1024" doc:"text for people"`
}
