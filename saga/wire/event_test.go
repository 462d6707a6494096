package wire_test

import (
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

func goldenEvents() map[string]saga.LifecycleEvent {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	committed := saga.Transaction{
		Tenant: "acme", ID: mustID("0198c7a2-5b7e-7c31-9f6e-0a4b1c2d3e4f"), Version: 6, Status: saga.StatusCommitted,
		CreatedAt: at, DecidedAt: at.Add(20 * time.Millisecond), FinishedAt: at.Add(31 * time.Millisecond),
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Tracestate: "rojo=00f067aa0ba902b7",
		Inputs: []saga.Payload{{Data: []byte(`{"secret":true}`)}},
	}
	suspended := saga.Transaction{
		Tenant: "acme", ID: mustID("0198c7a2-5b7e-7c31-9f6e-0a4b1c2d3e50"), Version: 4, Status: saga.StatusCancelling,
		Cause:     saga.Cause{Why: saga.WhyRefused, Step: "credit", Code: "account_closed", Reason: "the account is closed"},
		CreatedAt: at, DecidedAt: at.Add(20 * time.Millisecond),
		Steps: []saga.StepState{{Settle: saga.Operation{Phase: saga.PhaseCancel, State: saga.OperationDead}}},
	}
	return map[string]saga.LifecycleEvent{
		"event_committed": {
			Lifecycle: saga.LifecycleCommitted, At: committed.FinishedAt, Client: "shop", RequestID: "order-1001",
			Definition: "transfer", Version: 2, Tx: &committed, TxVersion: 7,
		},
		"event_suspended": {
			Lifecycle: saga.LifecycleSuspended, At: at.Add(time.Minute), Client: "shop", Definition: "transfer", Version: 2,
			Tx: &suspended, TxVersion: 5,
		},
	}
}

func TestGoldenEvents(t *testing.T) {
	for name, e := range goldenEvents() {
		m, err := wire.EncodeEvent("saga", e)
		if err != nil {
			t.Fatal(err)
		}
		checkGolden(t, name, messageText(m))
		if _, tenant, definition, err := wire.ParseEventSubject(m.Subject); err != nil || tenant != "acme" || definition != "transfer" {
			t.Errorf("%s goes to %s: %v", name, m.Subject, err)
		}
		if m.Header[wire.HeaderMsgID][0] != m.Header[wire.HeaderEventID][0] {
			t.Errorf("%s: JetStream would not drop its copy", name)
		}
	}
}

func TestEventsWithoutNamesAreRefused(t *testing.T) {
	e := goldenEvents()["event_committed"]
	e.Definition = "a.b"
	if m, err := wire.EncodeEvent("saga", e); err == nil {
		t.Errorf("it goes to %q", m.Subject)
	}
}
