package wire

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// Lifecycle events travel as CloudEvents 1.0 in binary mode: attributes in headers, the data in the body.
const (
	HeaderEventSpec        = "ce-specversion"
	HeaderEventID          = "ce-id"
	HeaderEventSource      = "ce-source"
	HeaderEventType        = "ce-type"
	HeaderEventTime        = "ce-time"
	HeaderEventSubject     = "ce-subject"
	HeaderEventContentType = "ce-datacontenttype"
	HeaderEventTenant      = "ce-tenant"     // an extension
	HeaderEventDefinition  = "ce-definition" // an extension

	eventSpecVersion = "1.0"
	eventTypePrefix  = "sagacity.transaction."
)

// eventData is the body of a lifecycle event. It holds nothing of inputs and results.
type eventData struct {
	Transaction string          `json:"transaction"`
	Version     int64           `json:"version"`
	Status      saga.Status     `json:"status"`
	Result      saga.Result     `json:"result"`
	Suspended   bool            `json:"suspended"`
	Decision    string          `json:"decision,omitzero"`
	Tenant      string          `json:"tenant"`
	Client      string          `json:"client"`
	RequestID   string          `json:"request_id,omitzero"`
	Definition  eventDefinition `json:"definition"`
	Cause       *eventCause     `json:"cause,omitzero"`
	CreatedAt   time.Time       `json:"created_at"`
	DecidedAt   time.Time       `json:"decided_at,omitzero"`
	FinishedAt  time.Time       `json:"finished_at,omitzero"`
}

type eventDefinition struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
}

type eventCause struct {
	Why    saga.Why `json:"why"`
	Step   string   `json:"step,omitzero"`
	Code   string   `json:"code,omitzero"`
	Reason string   `json:"reason,omitzero"`
}

// EncodeEvent returns the message of a lifecycle event. Its id, ce-id and Nats-Msg-Id, is transaction/version/type: an
// event that is told twice is told with one id. Names must be valid, as those of stored transactions are.
func EncodeEvent(prefix string, e saga.LifecycleEvent) (Message, error) {
	tx := e.Tx
	data := eventData{
		Transaction: tx.ID.String(), Version: e.TxVersion, Status: tx.Status, Result: tx.Result(), Suspended: tx.Suspended(),
		Decision: decisionOf(tx), Tenant: tx.Tenant, Client: e.Client, RequestID: e.RequestID,
		Definition: eventDefinition{e.Definition, e.Version},
		CreatedAt:  tx.CreatedAt.UTC(), DecidedAt: tx.DecidedAt.UTC(), FinishedAt: tx.FinishedAt.UTC(),
	}
	if c := tx.Cause; c.Why != "" {
		data.Cause = &eventCause{c.Why, c.Step, c.Code, c.Reason}
	}
	body, err := json.Marshal(data)
	if err != nil {
		return Message{}, &EncodeError{Header: PartBody, Problem: err.Error()}
	}
	for _, name := range []string{tx.Tenant, e.Definition} {
		if problem := nameProblem(name); problem != "" {
			return Message{}, &EncodeError{Header: PartSubject, Problem: problem}
		}
	}
	id := data.Transaction + "/" + strconv.FormatInt(e.TxVersion, 10) + "/" + string(e.Lifecycle)
	h := Header{
		HeaderEventSpec:        {eventSpecVersion},
		HeaderEventID:          {id},
		HeaderEventSource:      {"/" + prefix},
		HeaderEventType:        {eventTypePrefix + string(e.Lifecycle)},
		HeaderEventTime:        {e.At.UTC().Format(time.RFC3339Nano)},
		HeaderEventSubject:     {data.Transaction},
		HeaderEventContentType: {ContentTypeJSON},
		HeaderEventTenant:      {tx.Tenant},
		HeaderEventDefinition:  {e.Definition},
		HeaderContentType:      {ContentTypeJSON},
		HeaderMsgID:            {id},
	}
	if v := traceValue(tx.Traceparent, traceparentBytesMax); v != "" {
		h[HeaderTraceparent] = []string{v}
		if v := traceValue(tx.Tracestate, tracestateBytesMax); v != "" {
			h[HeaderTracestate] = []string{v}
		}
	}
	return Message{Subject: EventSubject(prefix, tx.Tenant, e.Definition), Header: h, Data: body}, nil
}

// decisionOf says what was decided; "" before, and once an operator has ended it, which hides what it was.
func decisionOf(tx *saga.Transaction) string {
	switch tx.Status {
	case saga.StatusConfirming, saga.StatusCommitted:
		return "commit"
	case saga.StatusCancelling, saga.StatusCancelled:
		return "cancel"
	default:
		return ""
	}
}
